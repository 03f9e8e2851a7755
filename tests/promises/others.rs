//! Whoever uses a GPU that is to be measured spoils every figure: it is told before anything is.

use super::playing::{Playing, leeway, simulated_gpu, until};
use super::{alone, daemon};
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Stdio;

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
    let _gpu = simulated_gpu(&gpu);
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
