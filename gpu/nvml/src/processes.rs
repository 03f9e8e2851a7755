//! Calls about the processes on a device.
#![allow(non_snake_case, reason = "the names of nvml.h")]
#![allow(missing_docs, reason = "documented by NVIDIA under these names")]

use crate::answers::{INSUFFICIENT_SIZE, NOT_FOUND, Outcome, code};
use crate::pointers::{get, put, put_list};
use crate::session;

/// What stands for no part of a device.
const NO_INSTANCE: u32 = u32::MAX;

/// `nvmlProcessInfo_t`, in its second and third version.
#[repr(C)]
pub struct ProcessInfo {
    pid: u32,
    used_bytes: u64,
    gpu_instance: u32,
    compute_instance: u32,
}

/// `nvmlProcessUtilizationSample_t`.
#[repr(C)]
pub struct Sample {
    pid: u32,
    time_us: u64,
    cores_percent: u32,
    memory_percent: u32,
    encoder_percent: u32,
    decoder_percent: u32,
}

#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceGetComputeRunningProcesses_v3(
    handle: u64,
    count: *mut u32,
    list: *mut ProcessInfo,
) -> u32 {
    code(running(handle, count, list))
}

#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceGetComputeRunningProcesses_v2(
    handle: u64,
    count: *mut u32,
    list: *mut ProcessInfo,
) -> u32 {
    code(running(handle, count, list))
}

/// MPS is not simulated.
#[unsafe(no_mangle)]
#[rustfmt::skip]
pub extern "C" fn nvmlDeviceGetMPSComputeRunningProcesses_v3(handle: u64, count: *mut u32, _: *mut ProcessInfo) -> u32 {
    nobody(handle, count)
}

/// No process draws.
#[unsafe(no_mangle)]
#[rustfmt::skip]
pub extern "C" fn nvmlDeviceGetGraphicsRunningProcesses_v3(handle: u64, count: *mut u32, _: *mut ProcessInfo) -> u32 {
    nobody(handle, count)
}

#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceGetProcessUtilization(
    handle: u64,
    list: *mut Sample,
    count: *mut u32,
    after_us: u64,
) -> u32 {
    code(utilization(handle, list, count, after_us))
}

/// A list that is always empty, of a device that is there.
fn nobody(handle: u64, count: *mut u32) -> u32 {
    code(session::snapshot(handle).and_then(|_| put(count, 0)))
}

fn running(handle: u64, count: *mut u32, list: *mut ProcessInfo) -> Outcome {
    let processes = session::snapshot(handle)?.processes;
    let lines = processes.into_iter().map(|(pid, used_bytes)| ProcessInfo {
        pid,
        used_bytes,
        gpu_instance: NO_INSTANCE,
        compute_instance: NO_INSTANCE,
    });
    put_list(list, count, lines.collect())
}

/// Without a list, the caller is told how much room one needs; without samples, that there are none.
fn utilization(handle: u64, list: *mut Sample, count: *mut u32, after_us: u64) -> Outcome {
    let samples = session::samples(handle, after_us)?;
    if samples.is_empty() {
        return Err(NOT_FOUND);
    }
    if list.is_null() || (get(count)? as usize) < samples.len() {
        put(count, samples.len() as u32)?;
        return Err(INSUFFICIENT_SIZE);
    }
    let lines = samples.into_iter().map(|[pid, time_us, percent]| Sample {
        pid: pid as u32,
        time_us,
        cores_percent: percent as u32,
        memory_percent: 0,
        encoder_percent: 0,
        decoder_percent: 0,
    });
    put_list(list, count, lines.collect())
}
