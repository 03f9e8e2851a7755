//! A benchmark that is interrupted ends soon, says so, and leaves nothing: no cgroup, no folder, no program.

use super::{alone, is_root};
use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// What a program that Ctrl-C ended exits with.
const INTERRUPTED: i32 = 130;
/// How long a benchmark may take until its programs are there, and to put everything away.
const WAIT_MAX: Duration = Duration::from_secs(30);
/// How long it is let run once they are: some are held by then.
const RUNS_FOR: Duration = Duration::from_millis(1_500);
/// What asks for more simulated worlds than anybody waits for, or has the memory for at once.
const WORLDS: &str = "--worlds 100000";
/// The folders where a benchmark has anything, besides the system's for what does not last.
const PLACES: [&str; 3] = ["/sys/fs/cgroup", "/sys/fs/cgroup/freezer", "/dev/shm"];

#[test]
fn a_benchmark_that_is_interrupted_leaves_nothing_behind() {
    if !is_root() {
        eprintln!("left out: it needs root, for cgroups");
        return;
    }
    let _alone = alone();
    // Each would run for longer than we wait.
    for (words, signal) in [
        ("latency --case 5000:8 --requests 10000", Signal::TERM),
        ("latency --case 5000:8 --requests 10000 --rounds 2", Signal::INT),
        ("detect --tier polling --tasks 0 --lone 0 --plain --cost-for 1h", Signal::TERM),
        ("detect --tasks 10000", Signal::INT),
        ("hold --rounds 10000", Signal::TERM),
        ("swap", Signal::TERM),
        ("contention --tasks 30000:3 --mode least-slack", Signal::INT),
        ("overhead --for 1h", Signal::TERM),
        ("overhead --n 30000 --for 1h", Signal::TERM),
        ("launches --launches 100000000", Signal::TERM),
        ("deadlines --staggered 100 --tasks 0 --worlds 0", Signal::INT),
        ("deadlines --staggered 1 --tasks 0 --policy none --worlds 100000", Signal::TERM),
        ("nodelist --nodes 5000000 --rounds 1", Signal::INT),
        ("agents --nodes 10 --seconds 3600", Signal::INT),
        ("agents --nodes 10 --seconds 3600", Signal::TERM),
    ] {
        interrupt(words, signal);
    }
}

/// What is measured after that is measured without an agent, whatever it is called.
#[test]
fn a_benchmark_whose_agent_dies_fails_and_says_so() {
    if !is_root() {
        eprintln!("left out: it needs root, for cgroups");
        return;
    }
    let _alone = alone();
    for (words, program, programs) in [
        ("contention --tasks 8192:3 --mode least-slack", " matmul ", 3),
        ("deadlines --staggered 3 --tasks 0 --worlds 0 --policy least-slack", " batch ", 3),
        ("latency --case 5000:8 --requests 20", " batch ", 2),
    ] {
        let mut bench = start(words);
        let pid = bench.id();
        let agent = || running(pid).into_iter().find(|(_, words)| words.contains(" agent --driver "));
        let together = || running(pid).iter().filter(|(_, words)| words.contains(program)).count();
        until(&format!("an agent beside the programs of leeway bench {words}"), || {
            agent().is_some() && together() == programs
        });
        let agent = agent().and_then(|(pid, _)| Pid::from_raw(pid)).expect("it was there just now");
        kill_process(agent, Signal::KILL).expect("it still runs");
        until(&format!("the end of leeway bench {words}"), || has_ended(&mut bench));
        let output = bench.wait_with_output().expect("it has ended");
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "leeway bench {words}: {said}");
        assert!(
            said.contains("error: the agent ended while it was measured"),
            "leeway bench {words}: {said}"
        );
        assert_eq!(left_by(pid), Vec::<PathBuf>::new(), "leeway bench {words} left these");
    }
}

/// A benchmark in a group of its own.
fn start(words: &str) -> Child {
    let mut bench = Command::new(env!("CARGO_BIN_EXE_leeway"));
    bench.arg("bench").args(words.split(' ')).stdin(Stdio::null()).stdout(Stdio::null());
    bench.stderr(Stdio::piped()).process_group(0).spawn().expect("leeway runs")
}

fn interrupt(words: &str, signal: Signal) {
    let mut bench = start(words);
    let pid = bench.id();
    // Made-up nodes need no program.
    if !words.starts_with("nodelist") {
        until(&format!("a program of leeway bench {words}"), || {
            running(pid).iter().any(|(_, words)| words.contains(" work ") || words.contains(" master "))
        });
    }
    // Worlds begin when nobody is on the stage any more.
    if words.contains(WORLDS) {
        until(&format!("the worlds of leeway bench {words}"), || running(pid).is_empty());
    }
    std::thread::sleep(RUNS_FOR);
    // Ctrl-C is for the whole group, and so for our programs, too; a plain `kill` is for us alone.
    let group = Pid::from_child(&bench);
    let sent =
        if signal == Signal::INT { kill_process_group(group, signal) } else { kill_process(group, signal) };
    sent.expect("it still runs");
    until(&format!("the end of leeway bench {words}"), || has_ended(&mut bench));
    let output = bench.wait_with_output().expect("it has ended");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(INTERRUPTED), "leeway bench {words}: {said}");
    assert!(said.contains("error: interrupted"), "leeway bench {words}: {said}");
    assert_eq!(left_by(pid), Vec::<PathBuf>::new(), "leeway bench {words} left these");
    // The agent's guard outlives it by a moment.
    until(&format!("the end of all programs of leeway bench {words}"), || running(pid).is_empty());
}

fn has_ended(child: &mut Child) -> bool {
    child.try_wait().expect("it is our child").is_some()
}

fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < WAIT_MAX, "waited in vain for {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Folders with the benchmark's number in their names.
fn left_by(pid: u32) -> Vec<PathBuf> {
    let number = pid.to_string();
    let names = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.starts_with("leeway-") && name.split('-').any(|part| part == number)
    };
    let places = PLACES.map(PathBuf::from).into_iter().chain([std::env::temp_dir()]);
    let entries = places.flat_map(|place| std::fs::read_dir(place).into_iter().flatten().flatten());
    entries.map(|entry| entry.path()).filter(names).collect()
}

/// The programs whose words or library path name a folder of the benchmark's, and so are on its stage: their pids and words.
fn running(pid: u32) -> Vec<(i32, String)> {
    let folders = [format!("/leeway-{pid}/"), format!("/leeway-bench-{pid}")];
    let mut found = Vec::new();
    for process in std::fs::read_dir("/proc").expect("Linux").flatten() {
        let read = |file: &str| std::fs::read(process.path().join(file)).unwrap_or_default();
        let [words, environment] =
            ["cmdline", "environ"].map(|file| String::from_utf8_lossy(&read(file)).replace('\0', " "));
        if folders.iter().any(|folder| words.contains(folder) || environment.contains(folder)) {
            let pid = process.file_name().to_string_lossy().parse().expect("who has words has a pid");
            found.push((pid, words));
        }
    }
    found
}
