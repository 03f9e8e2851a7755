//! A CUDA program that prints a report when it ends, in a cgroup of its own.

use super::Interruption;
use super::cgroup::Cgroup;
use crate::failure::Failure;
use crate::stage::Stage;
use anyhow::{Context, Result};
use serde_json::Value;
use std::io::Read;
use std::process::{Child, Stdio};
use std::thread::JoinHandle;
use std::time::Duration;

/// How often to look whether it has ended.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// It ends with us. Dropped before its cgroup: nobody is in a cgroup that goes.
pub(super) struct Program {
    child: Child,
    /// What it prints may be more than a pipe holds, so it is read meanwhile.
    reader: Option<JoinHandle<std::io::Result<String>>>,
}

impl Program {
    /// `words` follow `leeway work`.
    pub(super) fn start(stage: &Stage, cgroup: &Cgroup, words: &[&str]) -> Result<Self> {
        let mut command = cgroup.inside(&stage.work(words)?);
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        let mut child = command.spawn().context("could not start a CUDA program")?;
        let reader = child.stdout.take().map(|mut stdout| {
            std::thread::spawn(move || {
                let mut printed = String::new();
                stdout.read_to_string(&mut printed).map(|_| printed)
            })
        });
        Ok(Self { child, reader })
    }

    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// What it printed. Waits for its end, and for Ctrl-C.
    pub(super) fn report(&mut self, interruption: &Interruption) -> Result<Value> {
        while self.child.try_wait().context("could not wait for a CUDA program")?.is_none() {
            interruption.check()?;
            std::thread::sleep(LOOK_EVERY);
        }
        // What interrupts us may interrupt it first, and then it prints nothing.
        interruption.check()?;
        let read = self.reader.take().and_then(|reader| reader.join().ok());
        let printed = read.unwrap_or_else(|| Ok(String::new()));
        let printed = printed.context("could not read what a CUDA program printed")?;
        serde_json::from_str(&printed).map_err(|_| {
            Failure::new(format!("a CUDA program failed and printed: {}", printed.trim())).into()
        })
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
