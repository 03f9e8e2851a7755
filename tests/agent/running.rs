//! A process that ends with the test.

use rustix::process::{Pid, Signal, kill_process};
use std::process::{Child, Command};

/// The process.
pub(crate) struct Running(pub(crate) Child);

#[allow(dead_code, reason = "several tests share it; each uses its part")]
impl Running {
    pub(crate) fn start(command: &mut Command) -> Self {
        Self(command.spawn().expect("a program that starts"))
    }

    pub(crate) fn signal(&self, signal: Signal) {
        let _ = kill_process(Pid::from_child(&self.0), signal);
    }

    /// Ends it in an orderly way.
    pub(crate) fn stop(mut self) {
        self.signal(Signal::TERM);
        assert!(self.0.wait().expect("an end").success());
    }

    pub(crate) fn pid(&self) -> u32 {
        self.0.id()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
