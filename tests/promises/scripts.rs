//! A script that is interrupted passes that on once to what it runs, waits until that has put everything away, and begins nothing else.
//!
//! Each goal is judged by what was found, whatever became of the others.
//!
//! The scripts measure a real GPU. Here a stand-in for `leeway` writes down what it is asked for, and what becomes of it; or it finds what it is
//! told to.

use super::playing::until;
use super::{alone, is_root};
use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// In the place of `leeway`. Whoever interrupts it twice before it has put everything away is found out.
const LEEWAY: &str = r#"#!/bin/sh
# What a benchmark, an agent and a program of ours do, as far as scripts see it.
case $1 in
agent) : >"$3" && exec sleep 60 ;;
bench | work) ;;
*) exit 0 ;;
esac
if [ -e "$FOUND" ]; then
	for folder; do :; done
	mkdir -p "$folder" && exec cp "$FOUND" "$folder/$2.json"
fi
trap 'interrupted=yes; echo "$1 is interrupted" >>"$SAID"' INT TERM
echo "$1 $2 begins" >>"$SAID"
while [ -z "$interrupted" ]; do sleep 0.05; done
sleep 0.5
echo "$1 has put everything away" >>"$SAID"
exit 130
"#;
/// In the place of NVIDIA's control of its Multi-Process Service: asked for a daemon, or told to end it.
const MPS: &str = r#"#!/bin/sh
# A daemon that is none.
[ "$1" = -d ] || read -r word
echo "mps ${word:-begins}" >>"$SAID"
"#;
const BENCH: [&str; 3] = ["bench contention begins", "bench is interrupted", "bench has put everything away"];

#[test]
fn results_that_are_interrupted_put_everything_away() {
    for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 143), (Signal::HUP, 129)] {
        let script = Script::start(&["results-on-a-gpu", "others", "out"]);
        script.says("bench contention begins");
        let mut said = script.ended_by(signal, code);
        // A group of processes and its first one are told each.
        said.dedup();
        assert_eq!(said, [&["mps begins"], BENCH.as_slice(), &["mps quit"]].concat(), "{signal:?}");
    }
}

#[test]
fn goals_that_are_interrupted_put_everything_away() {
    for signal in [Signal::INT, Signal::TERM, Signal::HUP] {
        let script = Script::start(&["goals-on-a-gpu", "contention", "deadlines"]);
        script.says("bench contention begins");
        // Whatever becomes of it, there is what was measured until now, and with which program.
        let goals = std::fs::read_to_string(script.folder.path().join("goals/goals.txt")).expect("goals.txt");
        assert!(goals.starts_with("date ") && goals.contains("SHA-256 "), "{goals}");
        assert_eq!(script.ended_by(signal, 130), BENCH, "{signal:?}");
    }
}

#[test]
fn a_trace_that_is_interrupted_leaves_no_program_and_no_cgroup() {
    if !is_root() {
        eprintln!("left out: it needs root, for cgroups");
        return;
    }
    let _alone = alone();
    let before = cgroups();
    for words in [["goals-on-a-gpu", "trace"], ["trace-on-a-gpu", "out"]] {
        for signal in [Signal::INT, Signal::TERM] {
            let script = Script::start(&words);
            script.says("work matmul begins");
            script.ended_by(signal, 130);
            assert_eq!(cgroups(), before, "{words:?}, {signal:?}");
        }
    }
}

/// What meets every goal of these parts.
fn good() -> Value {
    let beside = |case: &str| json!({"case": case, "leeway_p99_ratio": 1.1, "batch_throughput_ratio": 1.0});
    let together = |work: &str, tasks: u32, mode: &str| {
        json!({"case": format!("{tasks} × {work}, {mode}"), "work": work, "tasks": tasks, "mode": mode,
               "wall_to_none": 0.8, "wall_to_bound": 1.05, "mean_turnaround_to_none": 0.5, "requests_to_none": 1.0, "began_late": 0})
    };
    let mut cases = vec![
        beside("beside 2 batches of 5000 us kernels, 1 queued"),
        beside("beside 2 batches of 5000 us kernels, 8 queued"),
        beside("beside 2 batches of 5000 us kernels, 64 queued"),
        beside("beside 2 batches of 100 us kernels, 1000 queued"),
    ];
    for mode in ["none", "least-slack"] {
        let works = [("13312²", 10), ("19456²", 5), ("8192²", 20), ("inference", 5)];
        cases.extend(works.map(|(work, tasks)| together(work, tasks, mode)));
    }
    json!({"machine": {"gpu": "a stand-in"}, "results": cases})
}

const MEASURED: [&str; 4] = ["goals-on-a-gpu", "latency", "contention", "small"];

#[test]
fn goals_that_hold_are_told_with_their_figures() {
    let (code, told) = Script::start_with(&MEASURED, Some(&good())).judged();
    assert_eq!(code, Some(0), "{told}");
    for part in ["latency", "contention", "small"] {
        let of_part = |line: &&str| line.starts_with(&format!("{part} "));
        assert!(told.lines().filter(of_part).count() >= 4, "{told}");
    }
    assert!(told.contains("a stand-in") && !told.contains("MISSED") && !told.contains("VOID"), "{told}");
}

#[test]
fn each_goal_is_judged_by_its_own_figure() {
    let mut found = good();
    found["results"][1]["leeway_p99_ratio"] = json!(1.7);
    found["results"][4]["began_late"] = json!(2);
    found["results"][9]["wall_to_none"] = json!(null);
    let (code, told) = Script::start_with(&MEASURED, Some(&found)).judged();
    assert_eq!(code, Some(1), "{told}");
    let lines = |verdict: &str| -> Vec<String> {
        let of_verdict = told.lines().filter(|line| line.ends_with(verdict));
        of_verdict.map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect()
    };
    let missed = [
        "latency beside 2 batches of 5000 us kernels, 8 queued leeway_p99_ratio 1.7 at most 1.6 MISSED",
        "contention 5 × 19456², least-slack wall_to_none None at most 0.9 MISSED",
    ];
    assert_eq!(lines("MISSED"), missed, "{told}");
    assert_eq!(lines("VOID"), ["contention 10 × 13312², none began_late 2 at most 0 VOID"], "{told}");
}

#[test]
fn a_part_that_finds_nothing_is_missed_and_the_next_is_judged() {
    let (code, told) = Script::start_with(&MEASURED, Some(&json!({"results": []}))).judged();
    assert_eq!(code, Some(1), "{told}");
    for part in ["latency", "contention", "small"] {
        let missed = |line: &&str| line.starts_with(&format!("{part} ")) && line.ends_with("MISSED");
        assert!(told.lines().filter(missed).count() >= 4, "{told}");
    }
    assert!(!told.contains("holds"), "{told}");
}

/// A script that runs, in a folder of its own.
struct Script {
    process: Child,
    folder: tempfile::TempDir,
}

impl Script {
    fn start(words: &[&str]) -> Self {
        Self::start_with(words, None)
    }

    /// The same, where every benchmark finds this.
    fn start_with(words: &[&str], found: Option<&Value>) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let at = |name: &str| folder.path().join(name);
        for (name, text) in [("leeway", LEEWAY), ("nvidia-cuda-mps-control", MPS)] {
            std::fs::write(at(name), text).expect("a stand-in");
            std::fs::set_permissions(at(name), std::fs::Permissions::from_mode(0o755)).expect("a program");
        }
        for library in ["libcuda.so.1", "libnvidia-ml.so.1", "said"] {
            std::fs::write(at(library), "").expect("a file");
        }
        std::fs::create_dir(at("temporary")).expect("a folder");
        if let Some(found) = found {
            std::fs::write(at("found"), found.to_string()).expect("what it finds");
        }
        let mut path = OsString::from(folder.path());
        path.push(":");
        path.push(std::env::var_os("PATH").unwrap_or_default());
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../scripts").join(words[0]);
        // Whoever runs the tests in the background may have Ctrl-C ignored for all that they start.
        let mut command = Command::new("env");
        command.args(["--default-signal", &script.to_string_lossy()]).args(&words[1..]);
        command.envs([("LEEWAY", at("leeway")), ("DRIVER", folder.path().into()), ("SAID", at("said"))]);
        command
            .env("PATH", path)
            .env("TMPDIR", at("temporary"))
            .env("FOUND", at("found"))
            .current_dir(&folder);
        command.env_remove("OUT").env_remove("COMMIT");
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).process_group(0);
        Self { process: command.spawn().expect("env runs"), folder }
    }

    /// With which code it ends by itself, and what goals.txt says then.
    fn judged(mut self) -> (Option<i32>, String) {
        until("the end of the script", || self.process.try_wait().expect("it is our child").is_some());
        let goals = std::fs::read_to_string(self.folder.path().join("goals/goals.txt")).expect("goals.txt");
        (self.process.wait().expect("it has ended").code(), goals)
    }

    fn said(&self) -> Vec<String> {
        let said = std::fs::read_to_string(self.folder.path().join("said")).expect("what was said");
        said.lines().map(str::to_owned).collect()
    }

    /// Waits until this was said.
    fn says(&self, line: &str) {
        until(line, || self.said().iter().any(|said| said == line));
    }

    /// Interrupts it; what was said until it ended with this code, when nothing of it is left. Ctrl-C and a closed terminal are for the whole
    /// group, a plain `kill` is for the script alone.
    fn ended_by(mut self, signal: Signal, code: i32) -> Vec<String> {
        let pid = Pid::from_child(&self.process);
        let alone = signal == Signal::TERM;
        let sent = if alone { kill_process(pid, signal) } else { kill_process_group(pid, signal) };
        sent.expect("it still runs");
        until("the end of the script", || self.process.try_wait().expect("it is our child").is_some());
        let said = self.said();
        assert_eq!(self.process.wait().expect("it has ended").code(), Some(code), "{signal:?}: {said:?}");
        let folder = self.folder.path().to_string_lossy().into_owned();
        until("the end of all programs", || !runs(&folder));
        let left = std::fs::read_dir(self.folder.path().join("temporary")).expect("a folder").count();
        assert_eq!(left, 0, "{signal:?}: {said:?}");
        said
    }
}

/// Whether a program with this folder in its words is there.
fn runs(folder: &str) -> bool {
    let words =
        |process: std::fs::DirEntry| std::fs::read(process.path().join("cmdline")).unwrap_or_default();
    let processes = std::fs::read_dir("/proc").expect("Linux").flatten();
    processes.map(words).any(|words| String::from_utf8_lossy(&words).contains(folder))
}

/// The cgroups of traces.
fn cgroups() -> BTreeSet<OsString> {
    let roots = ["/sys/fs/cgroup", "/sys/fs/cgroup/freezer"].map(std::fs::read_dir);
    let names = roots.into_iter().flatten().flatten().flatten().map(|entry| entry.file_name());
    names.filter(|name| name.to_string_lossy().starts_with("leeway-trace-")).collect()
}
