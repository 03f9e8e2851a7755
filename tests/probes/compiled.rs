//! The compiled programs are those of the source: `cargo build` needs no clang, and trusts what is in the repository.

use crate::daemon::{folder, output, stdout};
use std::path::Path;
use std::process::Command;

const BPF: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../bpf");

fn version(program: &str) -> Option<String> {
    let said = Command::new(program).arg("--version").output().ok()?;
    let said = String::from_utf8_lossy(&said.stdout).into_owned();
    let at = said.find("clang version ")?;
    let version: String = said[at..].split_whitespace().take(3).collect::<Vec<_>>().join(" ");
    Some(version)
}

#[test]
fn the_compiled_programs_are_those_of_the_source() {
    let recorded = std::fs::read_to_string(Path::new(BPF).join("launches.sum")).expect("the record");
    let (compiler, sums) = recorded.split_once('\n').expect("a compiler, and sums");
    assert_eq!(sums.lines().count(), 6, "{recorded}");
    let mut check = Command::new("sha256sum");
    let sum_file = folder();
    let sum_file = sum_file.path().join("sums");
    std::fs::write(&sum_file, sums).expect("a file");
    let checked =
        check.args(["--check", "--strict"]).arg(&sum_file).current_dir(BPF).output().expect("sha256sum");
    assert!(
        checked.status.success(),
        "bpf/build was not run after the last change:\n{}",
        String::from_utf8_lossy(&checked.stdout)
    );
    if version("clang").as_deref() != Some(compiler) {
        eprintln!("not compiled anew: it takes {compiler}");
        return;
    }
    let fresh = sum_file.with_file_name("fresh.o");
    let built = output(Command::new(Path::new(BPF).join("build")).arg("--to").arg(&fresh));
    assert_eq!(stdout(&built), "");
    let kept = std::fs::read(Path::new(BPF).join("launches.bpf.o")).expect("the compiled programs");
    assert!(
        std::fs::read(&fresh).expect("the fresh ones") == kept,
        "bpf/launches.bpf.o is not of its source"
    );
}
