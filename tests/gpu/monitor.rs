//! NVML as a monitor sees it, through the same crate that the agent uses.

use crate::machine::{Machine, done, in_the_end, report};
use nvml_wrapper::enums::device::UsedGpuMemory;
use nvml_wrapper::error::NvmlError;

/// What a context takes, as NVML counts it.
const CONTEXT_BYTES: u64 = 400 << 20;

#[test]
fn the_driver_and_its_devices_introduce_themselves() {
    let machine = Machine::start(&["--devices", "3", "--memory", "8GiB"]);
    let nvml = machine.nvml();
    assert_eq!(nvml.device_count().unwrap(), 3);
    assert!(nvml.sys_driver_version().unwrap().starts_with("580."));
    assert_eq!(nvml.sys_cuda_driver_version().unwrap(), 13_000);
    assert!(!nvml.sys_nvml_version().unwrap().is_empty());
    for index in 0..3 {
        let device = nvml.device_by_index(index).unwrap();
        assert_eq!(device.name().unwrap(), "Leeway Simulated GPU");
        assert_eq!((device.index().unwrap(), device.minor_number().unwrap()), (index, index));
        let uuid = device.uuid().unwrap();
        assert_eq!(nvml.device_by_uuid(uuid.as_str()).unwrap().index().unwrap(), index);
        let bus = device.pci_info().unwrap().bus_id;
        assert_eq!(nvml.device_by_pci_bus_id(bus.as_str()).unwrap().index().unwrap(), index);
        assert_eq!(device.memory_info().unwrap().total, 8 << 30);
        assert!(matches!(device.mig_mode(), Err(NvmlError::NotSupported)));
        assert!(device.running_graphics_processes().unwrap().is_empty());
        assert!(device.mps_running_compute_processes().unwrap().is_empty());
    }
    assert!(nvml.device_by_index(3).is_err());
}

#[test]
fn a_process_is_listed_with_its_pid_and_memory() {
    let machine = Machine::start(&["--devices", "2"]);
    let nvml = machine.nvml();
    let mut hold = machine.work(&["hold", "--memory", "1GiB", "--for", "1s", "--device", "0"]);
    let program = hold.env("CUDA_VISIBLE_DEVICES", "1").spawn().unwrap();
    let pid = program.id();
    let [other, device] = [0, 1].map(|index| nvml.device_by_index(index).unwrap());
    in_the_end("the process has its memory", || {
        let processes = device.running_compute_processes().unwrap();
        assert!(other.running_compute_processes().unwrap().is_empty());
        processes.iter().any(|process| {
            assert_eq!(process.pid, pid);
            matches!(process.used_gpu_memory, UsedGpuMemory::Used(bytes) if bytes == CONTEXT_BYTES + (1 << 30))
        })
    });
    assert_eq!(device.memory_info().unwrap().used, CONTEXT_BYTES + (1 << 30));
    report(program);
    in_the_end("the process is gone", || device.running_compute_processes().unwrap().is_empty());
    assert_eq!(device.memory_info().unwrap().used, 0);
}

#[test]
fn utilisation_is_seen_for_the_device_and_for_each_process() {
    let machine = Machine::start(&[]);
    let nvml = machine.nvml();
    let device = nvml.device_by_index(0).unwrap();
    assert!(matches!(device.process_utilization_stats(None), Err(NvmlError::NotFound)));
    let words = ["batch", "--kernel-us", "20000", "--depth", "8", "--for", "2s"];
    let programs = [0, 1].map(|_| machine.work(&words).spawn().unwrap());
    let pids = programs.each_ref().map(std::process::Child::id);
    in_the_end("both are seen, and the device is busy", || {
        let samples = device.process_utilization_stats(None).unwrap_or_default();
        let shared =
            |pid| samples.iter().any(|sample| sample.pid == pid && (20..=80).contains(&sample.sm_util));
        device.utilization_rates().unwrap().gpu > 80 && pids.into_iter().all(shared)
    });
    programs.into_iter().for_each(|program| drop(report(program)));
    in_the_end("the device is idle", || device.utilization_rates().unwrap().gpu == 0);
}

#[test]
fn a_process_is_listed_at_once_where_that_was_asked_for() {
    let machine = Machine::start(&["--listed-after-ms", "0", "--unlisted-after-ms", "0"]);
    let nvml = machine.nvml();
    let device = nvml.device_by_index(0).unwrap();
    let mut hold = machine.work(&["hold", "--for", "100ms"]);
    done_with(&mut hold, || !device.running_compute_processes().unwrap().is_empty());
    in_the_end("the process is gone", || device.running_compute_processes().unwrap().is_empty());
    done(machine.work(&["matmul", "--n", "64"]));
}

fn done_with(command: &mut std::process::Command, holds: impl FnMut() -> bool) {
    let program = command.spawn().expect("a program");
    in_the_end("the process is listed", holds);
    report(program);
}
