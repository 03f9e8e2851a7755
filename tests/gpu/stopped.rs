//! A client that is stopped, or killed, blocks nobody; and what it has queued is done without it.

use crate::machine::{Machine, done, in_one_of, in_the_end, report, signal};
use rustix::process::Signal;

#[test]
fn a_stopped_client_blocks_nobody_and_its_queue_drains() {
    let machine = Machine::start(&[]);
    let nvml = machine.nvml();
    let device = nvml.device_by_index(0).unwrap();
    let busy = || device.utilization_rates().unwrap().gpu;
    let words = ["batch", "--kernel-us", "50000", "--depth", "20", "--for", "1s"];
    let stopped = machine.work(&words).spawn().unwrap();
    in_the_end("the batch keeps the device busy", || busy() > 0);
    signal(&stopped, Signal::STOP);
    in_the_end("its queue drains", || busy() == 0);
    let latency = || {
        let report =
            done(machine.work(&["serve", "--requests", "3", "--kernel-us", "10000", "--every", "20ms"]));
        let requests = report["requests"].as_array().unwrap();
        let spans = requests.iter().map(|request| crate::machine::span(request, "start", "end") * 1e3);
        spans.fold(f64::INFINITY, f64::min)
    };
    in_one_of(10.0..13.0, latency);
    signal(&stopped, Signal::CONT);
    report(stopped);
}

#[test]
fn a_killed_client_leaves_nothing_behind() {
    let machine = Machine::start(&["--memory", "4GiB"]);
    let nvml = machine.nvml();
    let device = nvml.device_by_index(0).unwrap();
    let mut killed = machine.work(&["hold", "--memory", "3GiB", "--for", "1m"]).spawn().unwrap();
    in_the_end("the memory is taken", || device.memory_info().unwrap().used > 3 << 30);
    signal(&killed, Signal::KILL);
    killed.wait().unwrap();
    in_the_end("the memory is free", || device.memory_info().unwrap().used == 0);
    in_the_end("NVML lists nobody", || device.running_compute_processes().unwrap().is_empty());
}
