//! `leeway plugin`: Leeway as a plugin of the Docker CLI, so that `docker leeway run …` works.
//!
//! Docker finds its plugins by their file names in a few folders. Ours is a link to this program, which knows by the name
//! it is called by that it is the plugin; so there is one program, and an upgrade of it upgrades the plugin.

use crate::docker::globals::{Globals, PLUGIN};
use crate::failure::Failure;
use anyhow::{Context, Result};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

/// Where Docker looks for plugins for every user of the machine.
const FOR_EVERYBODY: &str = "/usr/local/lib/docker/cli-plugins";

/// Install Leeway as a plugin of the Docker CLI: `docker leeway run …`
#[derive(clap::Args)]
pub struct Plugin {
    #[command(subcommand)]
    action: Action,
}

#[derive(clap::Subcommand)]
enum Action {
    /// Make `docker leeway` work
    Install(Place),
    /// Undo that
    Uninstall(Place),
}

#[derive(clap::Args)]
struct Place {
    /// For every user of the machine, not just you
    #[arg(long)]
    system: bool,
    /// A folder in which Docker looks for plugins
    #[arg(long, value_name = "DIR", conflicts_with = "system")]
    dir: Option<PathBuf>,
}

impl Plugin {
    pub(crate) fn run(self, globals: &Globals) -> Result<()> {
        match self.action {
            Action::Install(place) => install(&place.folder(globals)?),
            Action::Uninstall(place) => uninstall(&place.folder(globals)?),
        }
    }
}

impl Place {
    fn folder(self, globals: &Globals) -> Result<PathBuf> {
        if self.system {
            return Ok(PathBuf::from(FOR_EVERYBODY));
        }
        let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        let in_home = || variable("HOME").map(|home| home.join(".docker"));
        let configuration = globals.config.clone().or_else(|| variable("DOCKER_CONFIG")).or_else(in_home);
        let missing = || {
            Failure::new("could not find Docker's configuration: HOME is not set")
                .help("name a folder with --dir")
        };
        let folder = self.dir.or_else(|| configuration.map(|folder| folder.join("cli-plugins")));
        folder.ok_or_else(missing).map_err(Into::into)
    }
}

fn install(folder: &Path) -> Result<()> {
    let plugin = folder.join(PLUGIN);
    let doing = || format!("could not install the plugin {}", plugin.display());
    let program = std::env::current_exe().with_context(doing)?;
    remove_ours(&plugin).with_context(doing)?;
    fs::create_dir_all(folder).with_context(doing)?;
    symlink(&program, &plugin).with_context(doing)?;
    println!("{} -> {}", plugin.display(), program.display());
    Ok(())
}

fn uninstall(folder: &Path) -> Result<()> {
    let plugin = folder.join(PLUGIN);
    let removed =
        remove_ours(&plugin).with_context(|| format!("could not remove the plugin {}", plugin.display()))?;
    println!("{} {}", plugin.display(), if removed { "removed" } else { "was not there" });
    Ok(())
}

/// Removes the link, and says whether there was one. What is not a link was not put there by us.
fn remove_ours(plugin: &Path) -> Result<bool> {
    let Ok(found) = fs::symlink_metadata(plugin) else { return Ok(false) };
    if !found.is_symlink() {
        let failure = Failure::new("a file is there that Leeway did not put there");
        return Err(failure.help("remove it by hand if you do not need it").into());
    }
    fs::remove_file(plugin)?;
    Ok(true)
}

/// What Docker asks of every plugin whenever it lists them: it must be quick.
pub(crate) fn metadata() -> Result<()> {
    let metadata = serde_json::json!({
        "SchemaVersion": "0.1.0",
        "Vendor": "Leeway",
        "Version": env!("CARGO_PKG_VERSION"),
        "ShortDescription": env!("CARGO_PKG_DESCRIPTION"),
    });
    super::print_all(format!("{metadata}\n").as_bytes())
}
