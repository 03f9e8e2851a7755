//! Who is probed, in a file: should agent and guard both die at once, whoever comes next finds here whom the kernel may have left stopped.

use crate::facts::process::{is_still, is_stopped};
use rustix::process::{Pid, Signal, kill_process};
use sched::Process;
use std::path::{Path, PathBuf};
use wire::replace::replace;

/// The file's name, in the folder of what must not outlive a restart of the machine.
const FILE: &str = "probed";

/// The file of one agent.
pub(super) struct Roll(PathBuf);

impl Roll {
    pub(super) fn new(run_dir: &Path) -> Self {
        Self(run_dir.join(FILE))
    }

    /// Replaces it as a whole. One that cannot be written costs only what is said above.
    pub(super) fn write(&self, processes: impl Iterator<Item = Process>) {
        let lines = processes.map(|process| format!("{} {}\n", process.pid, process.started));
        let text = lines.collect::<Vec<String>>().concat();
        let _ = replace(&self.0, text);
    }
}

/// Lets everybody on the roll run who stands still. How many they were.
pub(crate) fn let_go(run_dir: &Path) -> usize {
    let text = std::fs::read_to_string(run_dir.join(FILE)).unwrap_or_default();
    let stopped: Vec<Process> =
        text.lines().filter_map(read).filter(|process| is_stopped(*process)).collect();
    for process in &stopped {
        if let Some(pid) = Pid::from_raw(process.pid.cast_signed()).filter(|_| is_still(*process)) {
            let _ = kill_process(pid, Signal::CONT);
        }
    }
    stopped.len()
}

/// Forgets the roll: its agent is dead, and nobody stands. A living one's stays, also while it hangs: it is written only when somebody comes or goes.
pub(crate) fn forget(run_dir: &Path) {
    let _ = std::fs::remove_file(run_dir.join(FILE));
}

fn read(line: &str) -> Option<Process> {
    let (pid, started) = line.split_once(' ')?;
    Some(Process { pid: pid.parse().ok()?, started: started.parse().ok()? })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::process::look;
    use std::process::Command;

    #[test]
    fn who_stands_on_the_roll_is_let_go_and_others_are_left_alone() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut sleepers: Vec<_> =
            (0..2).map(|_| Command::new("sleep").arg("60").spawn().expect("a program")).collect();
        let processes: Vec<Process> = sleepers.iter().filter_map(|child| Some(look(child.id())?.0)).collect();
        for process in &processes {
            let pid = Pid::from_raw(process.pid.cast_signed()).expect("a pid");
            kill_process(pid, Signal::STOP).expect("a signal");
            while !is_stopped(*process) {
                std::thread::yield_now();
            }
        }
        let reused = Process { started: processes[1].started + 1, ..processes[1] };
        Roll::new(folder.path()).write([processes[0], reused].into_iter());
        assert_eq!(let_go(folder.path()), 1);
        while is_stopped(processes[0]) {
            std::thread::yield_now();
        }
        assert!(is_stopped(processes[1]), "another process under the same number");
        let text = || std::fs::read_to_string(folder.path().join(FILE)).ok();
        assert!(text().is_some_and(|text| text.lines().count() == 2), "its agent may live");
        forget(folder.path());
        assert_eq!(text(), None);
        for sleeper in &mut sleepers {
            let _ = sleeper.kill();
            let _ = sleeper.wait();
        }
    }
}
