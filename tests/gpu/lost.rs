//! A device that fails: programs and monitors are told, and go on when it is back.

use crate::machine::{Machine, done, in_the_end};
use nvml_wrapper::error::NvmlError;

#[test]
fn a_lost_device_fails_calls_until_it_is_back() {
    let machine = Machine::start(&["--devices", "2"]);
    let nvml = machine.nvml();
    let device = nvml.device_by_index(1).unwrap();
    let words = ["batch", "--device", "1", "--kernel-us", "10000", "--for", "1m"];
    let program = machine.work(&words).spawn().unwrap();
    in_the_end("the batch runs", || device.utilization_rates().unwrap().gpu > 0);
    assert!(machine.gpu(&["lose", "--device", "1"]).status().unwrap().success());
    let output = program.wait_with_output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1));
    assert!(text.contains("CUDA_ERROR_ECC_UNCORRECTABLE (214)"), "{text}");
    in_the_end("NVML says so", || matches!(device.memory_info(), Err(NvmlError::GpuLost)));
    assert!(nvml.device_by_index(0).unwrap().memory_info().is_ok());
    done(machine.work(&["matmul", "--n", "64", "--device", "0"]));
    assert!(machine.gpu(&["recover", "--device", "1"]).status().unwrap().success());
    done(machine.work(&["matmul", "--n", "64", "--device", "1"]));
    in_the_end("NVML sees it again", || device.memory_info().is_ok());
}

#[test]
fn a_device_that_is_not_there_is_refused() {
    let machine = Machine::start(&[]);
    assert_eq!(machine.gpu(&["lose", "--device", "3"]).status().unwrap().code(), Some(2));
}

#[test]
fn when_the_simulated_gpu_ends_programs_and_monitors_are_told() {
    let mut machine = Machine::start(&[]);
    let nvml = machine.nvml();
    let device = nvml.device_by_index(0).unwrap();
    let program = machine.work(&["batch", "--for", "1m"]).spawn().unwrap();
    in_the_end("the batch runs", || device.utilization_rates().unwrap().gpu > 0);
    machine.end();
    assert!(!program.wait_with_output().unwrap().status.success());
    assert!(matches!(device.memory_info(), Err(NvmlError::GpuLost)));
}
