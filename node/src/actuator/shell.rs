//! Whether a process runs under an interactive shell.
//!
//! A shell that sees its program stopped puts it in the background and prints a prompt: it takes the stop for the user's own
//! Ctrl-Z. So such a program is never stopped alone: its container is frozen, and the shell with it.

use crate::facts::process::is_still;
use sched::Process;

/// Names under which shells run.
const SHELLS: [&str; 12] =
    ["sh", "bash", "dash", "ash", "zsh", "ksh", "mksh", "fish", "tcsh", "csh", "busybox", "nu"];

/// Whether the process's parent is a shell that has a terminal.
pub fn is_under_a_shell(process: Process) -> bool {
    let parent = stat(process.pid).and_then(|stat| parent_and_terminal(&stat)).map(|(parent, _)| parent);
    let Some(parent) = parent.filter(|_| is_still(process)) else { return false };
    let has_terminal =
        stat(parent).and_then(|stat| parent_and_terminal(&stat)).is_some_and(|(_, terminal)| terminal != 0);
    let name = std::fs::read_to_string(format!("/proc/{parent}/comm")).unwrap_or_default();
    // A login shell's name begins with a dash.
    has_terminal && SHELLS.contains(&name.trim().trim_start_matches('-'))
}

fn stat(pid: u32) -> Option<String> {
    std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()
}

/// The parent's pid and the terminal's device in `/proc/<pid>/stat`, counted from after the name, which may hold anything.
fn parent_and_terminal(stat: &str) -> Option<(u32, i64)> {
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_ascii_whitespace().collect();
    Some((fields.get(1)?.parse().ok()?, fields.get(4)?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::process::look;
    use std::process::{Command, Stdio};

    #[test]
    fn the_parent_and_the_terminal_are_found_after_any_name() {
        assert_eq!(parent_and_terminal("7 (a) b) S 1 2 3 34816 5"), Some((1, 34816)));
        assert_eq!(parent_and_terminal("7 (short) S"), None);
    }

    /// `script` gives a shell a terminal; the shell is its child, and the program the shell's.
    #[test]
    fn a_program_under_a_shell_with_a_terminal_is_told_from_others() {
        let mut plain = Command::new("setsid").args(["sh", "-c", "sleep 60; :"]).spawn().unwrap();
        let words = ["-qec", "sh -c 'sleep 60; :'", "/dev/null"];
        let mut script =
            Command::new("script").args(words).stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
        let sleeper = |under: u32, depth: usize| {
            (0..1000).find_map(|_| {
                std::thread::sleep(std::time::Duration::from_millis(10));
                let child = (0..depth).try_fold(under, |pid, _| child_of(pid))?;
                let name = std::fs::read_to_string(format!("/proc/{child}/comm")).ok()?;
                (name.trim() == "sleep").then_some(child)
            })
        };
        let alone = sleeper(plain.id(), 1).expect("a sleeper");
        assert!(!is_under_a_shell(look(alone).unwrap().0), "its shell has no terminal");
        let under = sleeper(script.id(), 2).or_else(|| sleeper(script.id(), 3)).expect("a sleeper");
        assert!(is_under_a_shell(look(under).unwrap().0));
        for child in [&mut plain, &mut script] {
            child.kill().unwrap();
            child.wait().unwrap();
        }
        for pid in [alone, under] {
            let pid = rustix::process::Pid::from_raw(pid.cast_signed()).unwrap();
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
        }
    }

    fn child_of(pid: u32) -> Option<u32> {
        let children = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).ok()?;
        children.split_ascii_whitespace().next()?.parse().ok()
    }
}
