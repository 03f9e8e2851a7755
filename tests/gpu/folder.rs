//! The device's folder: what is there while it runs, and that nothing is left.

use crate::daemon::{refused, stderr};
use crate::machine::{Machine, done};
use std::os::unix::fs::MetadataExt;

#[test]
fn the_folder_goes_with_the_device() {
    let mut machine = Machine::start(&[]);
    for name in ["libcuda.so.1", "libnvidia-ml.so.1", "device.sock", "leeway", "lib/ld.so"] {
        assert!(machine.dir().join(name).exists(), "{name}");
    }
    machine.end();
    assert!(!machine.dir().exists());
}

#[test]
fn two_devices_cannot_share_a_folder_and_the_first_stays() {
    let machine = Machine::start(&[]);
    let before = std::fs::metadata(machine.dir().join("libcuda.so.1")).unwrap().ino();
    let text = stderr(&refused(&mut machine.gpu(&["simulate"])));
    assert!(text.contains("another simulated GPU is running there"), "{text}");
    assert_eq!(std::fs::metadata(machine.dir().join("libcuda.so.1")).unwrap().ino(), before);
    done(machine.work(&["matmul", "--n", "64"]));
}

#[test]
fn each_device_has_libraries_of_its_own() {
    let [one, two] = [0, 1].map(|_| Machine::start(&[]));
    let inode = |machine: &Machine| std::fs::metadata(machine.dir().join("libcuda.so.1")).unwrap().ino();
    assert_ne!(inode(&one), inode(&two), "probes are attached to files");
}

#[test]
fn without_a_device_there_are_no_options() {
    let mut machine = Machine::start(&[]);
    machine.end();
    let text = stderr(&refused(&mut machine.gpu(&["options"])));
    assert!(
        text.contains("no simulated GPU is running in") && text.contains("help: start one with"),
        "{text}"
    );
}

#[test]
fn options_name_one_device_if_asked() {
    let machine = Machine::start(&["--devices", "2"]);
    let printed = machine.gpu(&["options", "--device", "1"]).output().unwrap();
    let text = String::from_utf8(printed.stdout).unwrap();
    assert!(text.ends_with("--env CUDA_VISIBLE_DEVICES=1\n"), "{text}");
}
