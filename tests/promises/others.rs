//! Whoever uses a GPU that is to be measured spoils every figure: it is told before anything is.

use super::{alone, daemon};
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// How long a simulated GPU and a program on it may take to come up.
const WAIT_MAX: Duration = Duration::from_secs(30);
/// What is measured: hardly anything, and without an agent, which would wait for the others' end.
const MEASURED: &str = "bench contention --tasks 16:1 --mode none --driver";

#[test]
fn who_uses_the_gpu_already_is_told_of() {
    if Path::new(wire::agent::SOCKET).exists() {
        eprintln!("left out: this machine has an agent, beside which nothing real is measured");
        return;
    }
    let _alone = alone();
    let folder = daemon::folder();
    let (gpu, real) = (folder.path().join("gpu"), folder.path().join("real"));
    let mut simulate = leeway("gpu simulate --memory 8GiB --listed-after-ms 0 --dir");
    let _gpu = Playing(simulate.arg(&gpu).stdout(Stdio::null()).spawn().expect("leeway runs"));
    until("the driver's libraries", || gpu.join("lib/ld.so").exists());
    // A folder without the device's socket is a real driver's, as far as anybody can tell.
    std::fs::create_dir(&real).expect("a folder");
    for library in ["libcuda.so.1", "libnvidia-ml.so.1"] {
        symlink(gpu.join(library), real.join(library)).expect("a link");
    }
    assert_eq!(said(&real), [""; 0], "nobody is there");
    let mut hold = leeway("work hold --memory 64MiB --for 10m");
    let hold = Playing(hold.env("LD_LIBRARY_PATH", &gpu).stdout(Stdio::null()).spawn().expect("leeway runs"));
    let told = format!("notice: others use the GPU, and spoil what is measured: process {}", hold.0.id());
    // It has nothing on the GPU until its context is made.
    until("somebody who is told of", || said(&real) == [told.as_str()]);
}

/// What a benchmark says of others, and nothing of how busy the machine is.
fn said(driver: &Path) -> Vec<String> {
    let output = leeway(MEASURED).arg(driver).output().expect("leeway runs");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{said}");
    said.lines().filter(|line| line.contains("others")).map(str::to_owned).collect()
}

fn leeway(words: &str) -> Command {
    let mut leeway = Command::new(daemon::leeway_program());
    leeway.args(words.split(' ')).stdin(Stdio::null());
    leeway
}

/// A program that goes when the test does.
struct Playing(Child);

impl Drop for Playing {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < WAIT_MAX, "waited in vain for {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}
