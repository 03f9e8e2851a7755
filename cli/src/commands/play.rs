//! `leeway play`: runs one of our own commands so that it ends when its parent does, however that ends.
//!
//! The kernel sends a process a signal when its parent's thread is gone, if the process asks for it. It must ask itself,
//! before it becomes what it is to be; so must it enter a cgroup. Neither gets lost when it becomes another program.

use crate::failure::Failure;
use crate::stage;
use anyhow::{Context, Result};
use rustix::process::{Signal, set_parent_process_death_signal};
use std::ffi::OsString;
use std::os::unix::process::{CommandExt, parent_id};
use std::path::PathBuf;

/// Run one of our own commands, and end with the process that asked for it
#[derive(clap::Args)]
pub struct Play {
    /// The process to end with
    #[arg(long, value_name = "PID")]
    parent: u32,
    /// End at once, as a program that may be stopped or frozen must; otherwise in good order
    #[arg(long)]
    at_once: bool,
    /// The folder of a cgroup to run in
    #[arg(long, value_name = "DIR")]
    cgroup: Option<PathBuf>,
    /// The command
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, required = true)]
    words: Vec<OsString>,
}

impl Play {
    pub(crate) fn run(self) -> Result<()> {
        let signal = if self.at_once { Signal::KILL } else { Signal::TERM };
        set_parent_process_death_signal(Some(signal)).context("could not ask to end with our parent")?;
        // It may have ended before we asked.
        if parent_id() != self.parent {
            return Err(Failure::new(format!("process {} is gone, or not our parent", self.parent)).into());
        }
        if let Some(cgroup) = &self.cgroup {
            // Zero is whoever writes it.
            std::fs::write(cgroup.join("cgroup.procs"), "0")
                .with_context(|| format!("could not enter the cgroup {}", cgroup.display()))?;
        }
        Err(stage::leeway()?.args(self.words).exec()).context("could not run this program once more")
    }
}
