//! A simulated GPU for one test, and the programs that use it.

use crate::daemon::{folder, leeway_program};
use nvml_wrapper::Nvml;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// How often a measurement is tried.
const TRIES: usize = 5;
/// How long anything may take that must happen at all.
const PATIENCE: Duration = Duration::from_secs(20);

/// A running simulated GPU.
pub(crate) struct Machine {
    device: Child,
    _folder: TempDir,
    dir: PathBuf,
}

impl Machine {
    /// Starts one, and waits until it is ready.
    pub(crate) fn start(words: &[&str]) -> Self {
        let folder = folder();
        let dir = folder.path().join("gpu0");
        let mut command = leeway(&["gpu", "simulate", "--dir", dir.to_str().expect("a path")]);
        let mut device = command.args(words).stdout(Stdio::piped()).spawn().expect("the simulated GPU");
        let mut line = String::new();
        BufReader::new(device.stdout.take().expect("its output")).read_line(&mut line).expect("a line");
        assert!(line.starts_with("ready: "), "{line}");
        Self { device, _folder: folder, dir }
    }

    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    pub(crate) fn dir_text(&self) -> &str {
        self.dir.to_str().expect("a path")
    }

    /// `leeway work WORDS --json` on this GPU.
    pub(crate) fn work(&self, words: &[&str]) -> Command {
        let mut command = leeway(&["work"]);
        command.args(words).args(["--json", "--driver", self.dir_text()]);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// `leeway gpu WORDS --dir DIR`
    pub(crate) fn gpu(&self, words: &[&str]) -> Command {
        let mut command = leeway(&["gpu"]);
        command.args(words).args(["--dir", self.dir_text()]);
        command
    }

    /// NVML, as the agent loads it.
    pub(crate) fn nvml(&self) -> Nvml {
        let library = self.dir.join("libnvidia-ml.so.1");
        Nvml::builder().lib_path(library.as_os_str()).init().expect("NVML")
    }

    /// Ends it, and waits until it is gone.
    pub(crate) fn end(&mut self) {
        signal(&self.device, Signal::TERM);
        assert!(self.device.wait().expect("its end").success());
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        if matches!(self.device.try_wait(), Ok(None)) {
            signal(&self.device, Signal::TERM);
            let _ = self.device.wait();
        }
    }
}

fn leeway(words: &[&str]) -> Command {
    let mut command = Command::new(leeway_program());
    command.args(words).env_remove("CUDA_VISIBLE_DEVICES");
    command
}

/// Waits for a program that must succeed, and reads what it printed.
pub(crate) fn report(program: Child) -> Value {
    let output = program.wait_with_output().expect("its end");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let report: Value = serde_json::from_slice(&output.stdout).expect("one JSON object");
    assert_eq!(report["ok"], true, "{report}");
    report
}

/// Runs a program that must succeed.
pub(crate) fn done(mut program: Command) -> Value {
    report(program.spawn().expect("a program"))
}

/// Seconds from one phase of a program to another.
pub(crate) fn span(report: &Value, from: &str, to: &str) -> f64 {
    report[to].as_f64().expect("a time") - report[from].as_f64().expect("a time")
}

pub(crate) fn signal(program: &Child, signal: Signal) {
    kill_process(Pid::from_child(program), signal).expect("a signal sent");
}

/// Waits until something holds that must hold in the end.
#[track_caller]
pub(crate) fn in_the_end(what: &str, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < PATIENCE, "waited in vain: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Measures until a measurement is in range; the machine may be busy with something else meanwhile.
#[track_caller]
pub(crate) fn in_one_of(range: std::ops::Range<f64>, mut measure: impl FnMut() -> f64) {
    let measured: Vec<f64> = (0..TRIES)
        .scan(false, |found, _| {
            (!*found).then(|| {
                let measured = measure();
                *found = range.contains(&measured);
                measured
            })
        })
        .collect();
    assert!(measured.iter().any(|measured| range.contains(measured)), "{measured:?} is not in {range:?}");
}
