//! Letting go what a file says is held: what the guard does, the next agent at its start, and `leeway release`.

use crate::actuator::freezer::Freezer;
use crate::actuator::pause;
use crate::facts::process::is_still;
use crate::run::Connect;
use sched::Process;
use std::collections::BTreeSet;
use std::io;
use std::path::Path;
use wire::held::{self, HeldLine, How};

/// What came of it: the containers that are let go, and those that could not be, each with the reason.
#[derive(Debug, Default)]
pub struct Released {
    /// Names.
    pub released: BTreeSet<String>,
    /// Names and reasons.
    pub failed: Vec<(String, String)>,
}

/// Lets go everything that is held, or one container, and whoever is probed and stands: of those nobody knows whose they are. What runs already
/// stays as it is.
pub fn everything(run_dir: &Path, connect: &Connect, only: Option<&str>) -> Released {
    crate::facts::launches::let_go(run_dir);
    held(run_dir, connect, only)
}

/// Lets go what the file says is held. Whoever stands otherwise may have been stopped by somebody else.
pub(super) fn held(run_dir: &Path, connect: &Connect, only: Option<&str>) -> Released {
    let mut released = Released::default();
    for line in held::read(run_dir).iter().filter(|line| only.is_none_or(|wanted| line.is(wanted))) {
        let let_go = match line.how {
            How::Frozen => thaw(line),
            How::Paused => unpause(line, connect),
            How::Stopped => resume(line),
        };
        match let_go {
            Ok(()) => drop(released.released.insert(line.name.clone())),
            Err(why) => released.failed.push((line.name.clone(), why)),
        }
    }
    released
}

/// Nothing is held any more, and there is no agent that could hold anything.
pub fn forget(run_dir: &Path) -> io::Result<()> {
    crate::facts::launches::forget(run_dir);
    match std::fs::remove_file(run_dir.join(held::FILE)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// A cgroup that is gone holds nobody.
fn thaw(line: &HeldLine) -> Result<(), String> {
    let freezer = line.cgroup.as_deref().and_then(Freezer::at);
    freezer.map_or(Ok(()), |freezer| freezer.thaw().map_err(|error| error.to_string()))
}

fn unpause(line: &HeldLine, connect: &Connect) -> Result<(), String> {
    let freezer = line.cgroup.as_deref().and_then(Freezer::at);
    let Some(freezer) = freezer else { return Ok(()) };
    match freezer.is_frozen() {
        Ok(false) => Ok(()),
        _ => pause::unpause(connect, &line.container, Some(&freezer)),
    }
}

/// Its gate is the kernel's affair, and opens when nobody renews it; here it is made to run.
fn resume(line: &HeldLine) -> Result<(), String> {
    let (Some(pid), Some(started)) = (line.pid, line.started) else { return Ok(()) };
    let Some(raw) = rustix::process::Pid::from_raw(pid.cast_signed()) else { return Ok(()) };
    if !is_still(Process { pid, started }) {
        return Ok(());
    }
    match rustix::process::kill_process(raw, rustix::process::Signal::CONT) {
        Ok(()) | Err(rustix::io::Errno::SRCH) => Ok(()),
        Err(error) => Err(error.to_string()),
    }
}
