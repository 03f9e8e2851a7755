//! What `/proc` says of one process.

use super::{Home, cgroup};
use rustix::process::Signal;
use rustix::time::{ClockId, clock_gettime};
use sched::Process;
use std::path::Path;
use std::time::Duration;

/// A process that is alive: what identifies it, and where it runs. None if it is gone, or only waits for its parent.
pub fn look(pid: u32) -> Option<(Process, Home)> {
    let proc = Path::new("/proc").join(pid.to_string());
    let process = identity(&proc, pid)?;
    let cgroups = std::fs::read_to_string(proc.join("cgroup")).ok()?;
    Some((process, cgroup::home(&cgroups)))
}

/// Whether the pid still means the same process.
pub fn is_still(process: Process) -> bool {
    let proc = Path::new("/proc").join(process.pid.to_string());
    identity(&proc, process.pid) == Some(process)
}

/// Whether the process was stopped by a signal.
pub fn is_stopped(process: Process) -> bool {
    is_in_state(process, "T")
}

/// How long the process has been there.
pub fn age(process: Process) -> Duration {
    /// The kernel's unit of start times, on every Linux: a hundredth of a second since it was booted.
    const TICKS_PER_SECOND: u64 = 100;
    let booted = clock_gettime(ClockId::Boottime);
    let since_boot = Duration::new(booted.tv_sec.cast_unsigned(), booted.tv_nsec as u32);
    since_boot.saturating_sub(Duration::from_millis(process.started * 1000 / TICKS_PER_SECOND))
}

/// Whether the process waits for something in calls of its own, and was not stopped, nor is about to be. One that is frozen seems to wait, too, but
/// then its stop is still on its way.
pub fn is_asleep(process: Process) -> bool {
    is_in_state(process, "S") && threads(process).all(|status| !status.is_stopped && !status.is_to_stop)
}

/// What `/proc` says of a thread.
struct Status {
    is_stopped: bool,
    /// The signal is on its way to it.
    is_to_stop: bool,
}

impl Status {
    fn of(status: &str) -> Self {
        let said =
            |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default().trim();
        let pending = |name: &str| u64::from_str_radix(said(name), 16).unwrap_or(0);
        let stop = 1_u64 << (Signal::STOP.as_raw() - 1);
        Self {
            is_stopped: said("State:").starts_with(['T', 't']),
            is_to_stop: (pending("SigPnd:") | pending("ShdPnd:")) & stop != 0,
        }
    }
}

fn threads(process: Process) -> impl Iterator<Item = Status> {
    let all = std::fs::read_dir(format!("/proc/{}/task", process.pid)).into_iter().flatten().flatten();
    all.filter_map(|thread| Some(Status::of(&std::fs::read_to_string(thread.path().join("status")).ok()?)))
}

fn is_in_state(process: Process, state: &str) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", process.pid)).unwrap_or_default();
    state_and_start(&stat) == Some((state, process.started))
}

fn identity(proc: &Path, pid: u32) -> Option<Process> {
    let stat = std::fs::read_to_string(proc.join("stat")).ok()?;
    let (state, started) = state_and_start(&stat)?;
    (!matches!(state, "Z" | "X")).then_some(Process { pid, started })
}

/// The state and the start time in `/proc/<pid>/stat`. The second field, the program's name, may hold anything,
/// brackets and spaces included, so counting starts after its last bracket.
fn state_and_start(stat: &str) -> Option<(&str, u64)> {
    /// Where the start time stands among the fields after the name.
    const STARTED: usize = 19;
    let mut fields = stat.rsplit_once(')')?.1.split_ascii_whitespace();
    let state = fields.next()?;
    Some((state, fields.nth(STARTED - 1)?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_may_have_any_name() {
        let after = "S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 4242 20 21";
        for name in ["matmul", "a b", "x) R 1 2", "((("] {
            assert_eq!(state_and_start(&format!("7 ({name}) {after}")), Some(("S", 4242)), "{name}");
        }
        assert_eq!(state_and_start("7 (short) S 1"), None);
    }

    #[test]
    fn we_are_alive_and_a_pid_beyond_all_is_not() {
        let (us, _) = look(std::process::id()).expect("ourselves");
        assert!(is_still(us) && !is_still(Process { started: us.started + 1, ..us }));
        assert_eq!(look(u32::MAX), None);
    }

    #[test]
    fn a_stop_that_is_on_its_way_is_seen() {
        let told = |state: &str, own: &str, shared: &str| {
            let told = Status::of(&format!(
                "Name:\tx\nState:\t{state}\nSigPnd:\t{own}\nShdPnd:\t{shared}\nSigBlk:\t0\n"
            ));
            (told.is_stopped, told.is_to_stop)
        };
        let (none, stop) = ("0000000000000000", "0000000000040000");
        assert_eq!(told("S (sleeping)", none, none), (false, false));
        assert_eq!(told("T (stopped)", none, none), (true, false));
        assert_eq!(told("S (sleeping)", stop, none), (false, true));
        assert_eq!(told("S (sleeping)", none, stop), (false, true));
    }

    #[test]
    fn a_process_is_as_old_as_its_start_is_ago() {
        let mut child = std::process::Command::new("sleep").arg("600").spawn().expect("a program");
        let (young, _) = look(child.id()).expect("it runs");
        let old = Process { started: young.started - 1000, ..young };
        let age_of_young = age(young);
        assert!(age_of_young < Duration::from_mins(1), "{age_of_young:?}");
        assert!(age(old) >= age_of_young + Duration::from_secs(10), "a thousand hundredths of a second");
        child.kill().and_then(|()| child.wait()).expect("it ends");
    }
}
