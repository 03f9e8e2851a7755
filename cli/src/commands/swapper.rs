//! `leeway swapper`: what the agent, its guard and `leeway release` start to have GPU memory moved, and nobody else.

use anyhow::{Context, Result};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

/// Its name on the command line.
pub(crate) const COMMAND: &str = "swapper";

/// Call the driver, as ordered on standard input, to move other processes' GPU memory
#[derive(clap::Args)]
pub struct Swapper {
    /// The folder of the driver's libraries; otherwise the loader finds them
    #[arg(long, value_name = "DIR")]
    driver: Option<PathBuf>,
    /// Where what is swapped out is written down
    #[arg(long, value_name = "DIR")]
    run_dir: PathBuf,
}

impl Swapper {
    pub(crate) fn run(self) -> Result<()> {
        node::swap::caller::run(self.driver.as_deref(), &self.run_dir)
            .context("the helper that calls the driver could not go on")
    }
}

/// How the helper is started: this program once more, even if its file was replaced meanwhile.
pub(crate) fn spawner(driver: Option<&Path>, run_dir: &Path) -> node::swap::Spawn {
    let mut words: Vec<OsString> = vec![COMMAND.into(), "--run-dir".into(), run_dir.into()];
    words.extend(driver.into_iter().flat_map(|driver| ["--driver".into(), driver.into()]));
    Arc::new(move || {
        let mut command = Command::new("/proc/self/exe");
        command.args(&words);
        Ok(command)
    })
}
