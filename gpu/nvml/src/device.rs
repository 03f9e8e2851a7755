//! Calls about one device. A handle is the device's number and one.
#![allow(non_snake_case, reason = "the names of nvml.h")]
#![allow(missing_docs, reason = "documented by NVIDIA under these names")]

use crate::answers::{INVALID_ARGUMENT, NOT_FOUND, NOT_SUPPORTED, Outcome, code};
use crate::pointers::{put, put_text, text};
use crate::session;
use std::ffi::c_char;

/// `nvmlPciInfo_t`.
#[repr(C)]
pub struct PciInfo {
    bus_id_legacy: [u8; 16],
    domain: u32,
    bus: u32,
    device: u32,
    pci_device_id: u32,
    pci_subsystem_id: u32,
    bus_id: [u8; 32],
}

/// `nvmlMemory_t`.
#[repr(C)]
pub struct Memory {
    total: u64,
    free: u64,
    used: u64,
}

/// `nvmlMemory_v2_t`.
#[repr(C)]
pub struct MemoryV2 {
    version: u32,
    total: u64,
    reserved: u64,
    free: u64,
    used: u64,
}

/// What `nvmlMemory_v2_t` has in its field `version`.
const MEMORY_V2: u32 = size_of::<MemoryV2>() as u32 | 2 << 24;

/// `nvmlUtilization_t`.
#[repr(C)]
pub struct Utilization {
    gpu: u32,
    memory: u32,
}

#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceGetCount_v2(count: *mut u32) -> u32 {
    code(session::devices().and_then(|devices| put(count, devices as u32)))
}

#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceGetHandleByIndex_v2(index: u32, handle: *mut u64) -> u32 {
    let number = u64::from(index) + 1;
    code(session::device(number).and_then(|_| put(handle, number)))
}

#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceGetHandleByUUID(uuid: *const c_char, handle: *mut u64) -> u32 {
    code(find(uuid, uuid_text).and_then(|number| put(handle, number)))
}

#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceGetHandleByPciBusId_v2(bus_id: *const c_char, handle: *mut u64) -> u32 {
    code(find(bus_id, bus_id_text).and_then(|number| put(handle, number)))
}

#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceGetName(handle: u64, name: *mut c_char, room: u32) -> u32 {
    code(session::device(handle).and_then(|_| put_text(name, room, gpu::NAME)))
}

#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceGetUUID(handle: u64, uuid: *mut c_char, room: u32) -> u32 {
    code(session::device(handle).and_then(|device| put_text(uuid, room, &uuid_text(device))))
}

#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceGetIndex(handle: u64, index: *mut u32) -> u32 {
    code(session::device(handle).and_then(|device| put(index, device as u32)))
}

#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceGetMinorNumber(handle: u64, minor: *mut u32) -> u32 {
    code(session::device(handle).and_then(|device| put(minor, device as u32)))
}

#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceGetPciInfo_v3(handle: u64, info: *mut PciInfo) -> u32 {
    code(session::device(handle).and_then(|device| {
        let mut found = PciInfo {
            bus_id_legacy: [0; 16],
            domain: 0,
            bus: device as u32 + 1,
            device: 0,
            pci_device_id: 0,
            pci_subsystem_id: 0,
            bus_id: [0; 32],
        };
        let text = bus_id_text(device);
        found.bus_id[..text.len()].copy_from_slice(text.as_bytes());
        // The old form has four digits less of the domain.
        found.bus_id_legacy[..text.len() - 4].copy_from_slice(&text.as_bytes()[4..]);
        put(info, found)
    }))
}

#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceGetMemoryInfo(handle: u64, memory: *mut Memory) -> u32 {
    code(session::snapshot(handle).and_then(|now| {
        let (total, used) = (now.total_bytes, now.used_bytes);
        put(memory, Memory { total, free: total - used, used })
    }))
}

#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceGetMemoryInfo_v2(handle: u64, memory: *mut MemoryV2) -> u32 {
    code(session::snapshot(handle).and_then(|now| {
        let (total, used) = (now.total_bytes, now.used_bytes);
        put(memory, MemoryV2 { version: MEMORY_V2, total, reserved: 0, free: total - used, used })
    }))
}

#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceGetUtilizationRates(handle: u64, rates: *mut Utilization) -> u32 {
    code(
        session::snapshot(handle)
            .and_then(|now| put(rates, Utilization { gpu: now.percent, memory: now.memory_percent })),
    )
}

#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceGetCudaComputeCapability(handle: u64, major: *mut i32, minor: *mut i32) -> u32 {
    code(session::device(handle).and_then(|_| put(major, 9)).and_then(|()| put(minor, 0)))
}

/// Every process may use the device.
#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceGetComputeMode(handle: u64, mode: *mut u32) -> u32 {
    code(session::device(handle).and_then(|_| put(mode, 0)))
}

/// There are no parts of a device here.
#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceGetMigMode(handle: u64, _current: *mut u32, _pending: *mut u32) -> u32 {
    code(session::device(handle).and(Err(NOT_SUPPORTED)))
}

#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceGetMaxMigDeviceCount(handle: u64, count: *mut u32) -> u32 {
    code(session::device(handle).and_then(|_| put(count, 0)))
}

#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceIsMigDeviceHandle(handle: u64, is_part: *mut u32) -> u32 {
    code(session::device(handle).and_then(|_| put(is_part, 0)))
}

/// The handle of the device that a text names.
fn find(named: *const c_char, name_of: fn(u64) -> String) -> Outcome<u64> {
    let named = text(named)?;
    if named.is_empty() {
        return Err(INVALID_ARGUMENT);
    }
    let found = (0..session::devices()?).find(|device| name_of(*device).eq_ignore_ascii_case(named));
    found.map(|device| device + 1).ok_or(NOT_FOUND)
}

fn uuid_text(device: u64) -> String {
    let mut digits = format!("{:032x}", u128::from_be_bytes(gpu::uuid(device as usize)));
    // Groups of 8, 4, 4, 4 and 12 digits; from the right, so that no place moves the next.
    for place in [20, 16, 12, 8] {
        digits.insert(place, '-');
    }
    format!("GPU-{digits}")
}

fn bus_id_text(device: u64) -> String {
    format!("00000000:{:02X}:00.0", device + 1)
}
