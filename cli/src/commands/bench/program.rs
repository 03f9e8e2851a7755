//! A CUDA program that prints a report when it ends, in a cgroup of its own.

use super::Interruption;
use super::cgroup::Cgroup;
use crate::failure::Failure;
use crate::stage::Stage;
use anyhow::{Context, Result};
use serde_json::Value;
use std::io::Read;
use std::process::{Child, ExitStatus, Stdio};
use std::thread::JoinHandle;
use std::time::Duration;

/// How often to look whether it has ended.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// It ends with us. Dropped before its cgroup: nobody is in a cgroup that goes.
pub(super) struct Program {
    child: Child,
    printed: Printed,
}

impl Program {
    /// `words` follow `leeway work`.
    pub(super) fn start(stage: &Stage, cgroup: &Cgroup, words: &[&str]) -> Result<Self> {
        let mut command = cgroup.inside(&stage.work(words)?);
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        let mut child = command.spawn().context("could not start a CUDA program")?;
        let printed = Printed::by(&mut child);
        Ok(Self { child, printed })
    }

    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// What it printed. Waits for its end, and for Ctrl-C.
    pub(super) fn report(&mut self, interruption: &Interruption) -> Result<Value> {
        let status = loop {
            if let Some(status) = self.child.try_wait().context("could not wait for a CUDA program")? {
                break status;
            }
            interruption.check()?;
            std::thread::sleep(LOOK_EVERY);
        };
        // What interrupts us may interrupt it first, and then it prints nothing.
        interruption.check()?;
        Ok(report(status, &self.printed.all()?)?)
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What a program prints, which is read while it runs: it may be more than a pipe holds.
pub(super) struct Printed(Option<JoinHandle<std::io::Result<String>>>);

impl Printed {
    /// By a program whose output is a pipe.
    pub(super) fn by(child: &mut Child) -> Self {
        Self(child.stdout.take().map(|mut stdout| {
            std::thread::spawn(move || {
                let mut printed = String::new();
                stdout.read_to_string(&mut printed).map(|_| printed)
            })
        }))
    }

    /// All of it. Waits for the program's end.
    pub(super) fn all(&mut self) -> Result<String> {
        let read = self.0.take().and_then(|reader| reader.join().ok());
        read.unwrap_or_else(|| Ok(String::new())).context("could not read what a CUDA program printed")
    }
}

/// What a CUDA program reports that has ended, if all went well. Figures of one that found a wrong result, or that crashed after it
/// printed them, mean nothing.
pub(super) fn report(status: ExitStatus, printed: &str) -> Result<Value, Failure> {
    let report: Value = serde_json::from_str(printed)
        .map_err(|_| Failure::new(format!("a CUDA program failed and printed: {}", printed.trim())))?;
    if report["ok"] != true {
        return Err(Failure::new("the GPU's result is wrong"));
    }
    if !status.success() {
        return Err(Failure::new(format!("a CUDA program reported, and then failed: {status}")));
    }
    Ok(report)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::ExitStatusExt;

    #[test]
    fn a_report_counts_if_its_program_went_well() {
        let (well, killed) = (ExitStatus::from_raw(0), ExitStatus::from_raw(9));
        let (right, wrong) = (r#"{ "ok": true, "pid": 7 }"#, r#"{ "ok": false, "pid": 7 }"#);
        assert_eq!(report(well, right).unwrap()["pid"], 7);
        let why = |status, printed| report(status, printed).unwrap_err().to_string();
        assert!(why(well, wrong).contains("is wrong"));
        assert!(why(killed, right).contains("signal: 9"), "{}", why(killed, right));
        assert!(why(killed, "").contains("printed"));
    }
}
