//! Several processes on one device: they take turns, at the cost that was measured.

use crate::machine::{Machine, done, in_one_of, report};

#[test]
fn two_processes_take_turns_and_lose_an_eighth() {
    let machine = Machine::start(&[]);
    let words = ["batch", "--kernel-us", "20000", "--depth", "8", "--for", "1s"];
    let rate = |report: serde_json::Value| report["kernels_per_second"].as_f64().unwrap();
    in_one_of(2.0..2.6, || {
        let alone = rate(done(machine.work(&words)));
        let [one, two] = [0, 1].map(|_| machine.work(&words).spawn().unwrap());
        let shared = f64::midpoint(rate(report(one)), rate(report(two)));
        alone / shared
    });
}

#[test]
fn what_does_not_fit_is_refused_by_name() {
    let machine = Machine::start(&["--memory", "4GiB"]);
    let output = machine.work(&["hold", "--memory", "4GiB"]).output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1));
    assert!(text.contains("cuMemAlloc_v2 failed: CUDA_ERROR_OUT_OF_MEMORY (2)"), "{text}");
    done(machine.work(&["hold", "--memory", "3GiB", "--for", "1ms"]));
    done(machine.work(&["hold", "--memory", "3GiB", "--for", "1ms"]));
}
