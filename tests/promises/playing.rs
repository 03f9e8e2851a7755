//! Programs that go when the test does, and what is waited for.

use super::daemon;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// How long whatever is waited for may take.
const WAIT_MAX: Duration = Duration::from_secs(30);

/// A program that runs, until it is dropped.
pub(super) struct Playing(pub(super) Child);

impl Drop for Playing {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A simulated GPU whose driver's libraries are in this folder, once they are there.
pub(super) fn simulated_gpu(folder: &Path) -> Playing {
    let mut simulate = leeway("gpu simulate --memory 8GiB --listed-after-ms 0 --dir");
    let gpu = Playing(simulate.arg(folder).stdout(Stdio::null()).spawn().expect("leeway runs"));
    until("the driver's libraries", || folder.join("lib/ld.so").exists());
    gpu
}

pub(super) fn leeway(words: &str) -> Command {
    let mut leeway = Command::new(daemon::leeway_program());
    leeway.args(words.split(' ')).stdin(Stdio::null());
    leeway
}

pub(super) fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < WAIT_MAX, "waited in vain for {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}
