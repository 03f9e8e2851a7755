//! What programs ask about a device. A `CUdevice` is its place among those the process sees.

use crate::driver;
use crate::pointers::{Outcome, code, put, put_text};
use gpu::costs::{CLOCK_KHZ, MULTIPROCESSORS};
use gpu::message::Request;
use std::ffi::c_char;

pub(crate) extern "C" fn get(device: *mut i32, ordinal: i32) -> u32 {
    code(driver::device(ordinal).and_then(|_| put(device, ordinal)))
}

pub(crate) extern "C" fn count(count: *mut i32) -> u32 {
    code(driver::driver().and_then(|driver| put(count, driver.visible.len() as i32)))
}

pub(crate) extern "C" fn name(name: *mut c_char, room: i32, device: i32) -> u32 {
    code(driver::device(device).and_then(|_| put_text(name, room, gpu::NAME)))
}

pub(crate) extern "C" fn total_memory(bytes: *mut usize, device: i32) -> u32 {
    code(memory(device).and_then(|(total, _)| put(bytes, total as usize)))
}

pub(crate) extern "C" fn uuid(uuid: *mut [u8; 16], device: i32) -> u32 {
    code(driver::device(device).and_then(|device| put(uuid, gpu::uuid(device as usize))))
}

pub(crate) extern "C" fn attribute(value: *mut i32, attribute: i32, device: i32) -> u32 {
    code(driver::device(device).and_then(|device| {
        // The numbers of `CUdevice_attribute`; what nobody asked for yet is 0.
        let known = match attribute {
            // Threads per block, and along its x and y.
            1..=3 => 1_024,
            // Threads per block along z.
            4 => 64,
            // Blocks along x, y and z.
            5 => i32::MAX,
            6 | 7 => 65_535,
            // Threads in a warp.
            10 => 32,
            13 => CLOCK_KHZ as i32,
            16 => MULTIPROCESSORS as i32,
            // Concurrent kernels, unified addressing.
            31 | 41 => 1,
            // PCI bus.
            33 => device as i32 + 1,
            // Compute capability 9.0, like the H200's.
            75 => 9,
            _ => 0,
        };
        put(value, known)
    }))
}

/// Total and free bytes.
pub(crate) fn memory(device: i32) -> Outcome<(u64, u64)> {
    let device = driver::device(device)?;
    let words = driver::ask(Request::MemoryInfo { device })?;
    Ok((words.first().copied().unwrap_or(0), words.get(1).copied().unwrap_or(0)))
}
