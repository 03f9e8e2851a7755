//! One matmul alone: its phases take what they took on an H200.

use crate::machine::{Machine, done, in_one_of, span};

#[test]
fn a_matmul_has_the_phases_that_were_measured() {
    let machine = Machine::start(&[]);
    // Seconds as in the paper's experiment on an H200. Host data are not made here as they were there.
    for (from, to, measured) in [
        ("init", "context", 0.22),
        ("allocated", "input", 0.28),
        ("input", "kernel", 0.85),
        ("kernel", "output", 0.08),
    ] {
        in_one_of(0.9..1.5, || span(&done(machine.work(&["matmul", "--n", "13312"])), from, to) / measured);
    }
}

#[test]
fn phases_come_in_order_and_name_the_process() {
    let machine = Machine::start(&[]);
    let program = machine.work(&["matmul", "--n", "64", "--repeat", "3"]).spawn().unwrap();
    let pid = program.id();
    let report = crate::machine::report(program);
    assert_eq!(report["pid"], pid);
    assert_eq!(report["kernels"], 3);
    let phases = ["init", "context", "allocated", "input", "kernel", "output", "end"];
    for pair in phases.windows(2) {
        assert!(span(&report, pair[0], pair[1]) >= 0.0, "{pair:?} {report}");
    }
}

#[test]
fn a_server_reports_each_request() {
    let machine = Machine::start(&[]);
    let words = ["serve", "--requests", "5", "--kernel-us", "10000", "--every", "50ms"];
    in_one_of(10.0..13.0, || {
        let report = done(machine.work(&words));
        let requests = report["requests"].as_array().unwrap();
        assert_eq!(requests.len(), 5);
        // A busy machine wakes a program late; the shortest shows what the device takes.
        requests.iter().map(|request| span(request, "start", "end") * 1e3).fold(f64::INFINITY, f64::min)
    });
}

#[test]
fn without_a_driver_one_line_says_so() {
    let folder = crate::daemon::folder();
    let mut command = std::process::Command::new(crate::daemon::leeway_program());
    command.args(["work", "matmul", "--driver"]).arg(folder.path());
    let output = crate::daemon::refused(&mut command);
    let text = crate::daemon::stderr(&output);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        text.starts_with("error: could not multiply on the GPU: could not load the CUDA driver"),
        "{text}"
    );
    assert!(text.contains("help: ") && text.lines().count() == 2, "{text}");
}
