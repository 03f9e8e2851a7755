//! A cgroup with our labels, which is a container to the agent, and goes when we do.

use crate::failure::Failure;
use crate::stage::wait_for;
use anyhow::{Context, Result};
use rustix::process::{Pid, Signal, kill_process};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Its folder.
pub(super) struct Cgroup(PathBuf);

impl Cgroup {
    /// Makes one. The labels are those of a container: `leeway.deadline`, `leeway.task`.
    pub(super) fn new(name: &str, labels: &[(&str, &str)]) -> Result<Self> {
        let root = Path::new("/sys/fs/cgroup");
        let root = if root.join("freezer").is_dir() { root.join("freezer") } else { root.to_owned() };
        let folder = root.join(format!("leeway-bench-{}-{name}", std::process::id()));
        std::fs::create_dir(&folder).map_err(|error| {
            Failure::new(format!("could not make the cgroup {}: {error}", folder.display())).help(
                "try sudo; with `bench detect`, `--containers 0` measures an agent with nobody to watch",
            )
        })?;
        let cgroup = Self(folder);
        for (name, value) in labels {
            // Version 1 has only the trusted kind on older kernels.
            let label = |kind: &str| {
                let flags = rustix::fs::XattrFlags::empty();
                rustix::fs::setxattr(&cgroup.0, format!("{kind}.{name}"), value.as_bytes(), flags)
            };
            label("user").or_else(|_| label("trusted")).context("could not label a cgroup")?;
        }
        Ok(cgroup)
    }

    /// A program that goes in before it does anything else.
    pub(super) fn inside(&self, program: &Command) -> Command {
        let mut shell = Command::new("sh");
        shell.args(["-c", "echo $$ >\"$0/cgroup.procs\" && exec \"$@\""]).arg(&self.0);
        shell.arg(program.get_program()).args(program.get_args()).stdout(Stdio::null());
        shell.envs(program.get_envs().filter_map(|(name, value)| Some((name, value?))));
        shell
    }

    /// Ends whoever is in it.
    pub(super) fn kill(&self) {
        let inside = std::fs::read_to_string(self.0.join("cgroup.procs")).unwrap_or_default();
        for pid in inside.lines().filter_map(|pid| Pid::from_raw(pid.parse().ok()?)) {
            let _ = kill_process(pid, Signal::KILL);
        }
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        let gone = || std::fs::remove_dir(&self.0).is_ok() || !self.0.exists();
        let _ = wait_for("an empty cgroup", gone);
    }
}
