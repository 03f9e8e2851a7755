//! `leeway guard`: what the agent starts beside itself, and nobody else.

use super::agent::connector;
use crate::docker::globals::Globals;
use anyhow::{Context, Result};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

/// Its name on the command line.
pub(crate) const COMMAND: &str = "guard";

/// Let everything go when the agent on the other end of standard input dies
#[derive(clap::Args)]
pub struct Guard {
    /// Where the agent writes what is held
    #[arg(long, value_name = "DIR")]
    run_dir: PathBuf,
    /// The folder of the driver's libraries, for what is swapped out
    #[arg(long, value_name = "DIR")]
    driver: Option<PathBuf>,
}

impl Guard {
    pub(crate) fn run(self, globals: &Globals) -> Result<()> {
        let helper = super::swapper::spawner(self.driver.as_deref(), &self.run_dir);
        node::guard::watch::run(&self.run_dir, &connector(globals), helper)
            .context("the guard could not watch the agent")
    }
}

/// How an agent starts its guard: this program once more, even if its file was replaced meanwhile, with the same Docker.
pub(crate) fn spawner(globals: &Globals, run_dir: &Path, driver: Option<&Path>) -> node::guard::Spawn {
    let mut words: Vec<OsString> = globals.words();
    words.extend([COMMAND.into(), "--run-dir".into(), run_dir.into()]);
    words.extend(driver.into_iter().flat_map(|driver| ["--driver".into(), driver.into()]));
    Arc::new(move || {
        let mut command = Command::new("/proc/self/exe");
        command.args(&words);
        Ok(command)
    })
}
