//! Calls about the driver as a whole.
#![allow(non_snake_case, reason = "the names of nvml.h")]
#![allow(missing_docs, reason = "documented by NVIDIA under these names")]

use crate::answers::{self, NOT_FOUND, code};
use crate::pointers::{put, put_text};
use crate::session;
use std::ffi::c_char;

#[unsafe(no_mangle)]
pub extern "C" fn nvmlInit_v2() -> u32 {
    code(session::open())
}

#[unsafe(no_mangle)]
pub extern "C" fn nvmlInitWithFlags(_flags: u32) -> u32 {
    code(session::open())
}

#[unsafe(no_mangle)]
pub extern "C" fn nvmlShutdown() -> u32 {
    code(session::close())
}

#[unsafe(no_mangle)]
pub extern "C" fn nvmlErrorString(answer: u32) -> *const c_char {
    answers::words(answer).as_ptr()
}

#[unsafe(no_mangle)]
pub extern "C" fn nvmlSystemGetDriverVersion(version: *mut c_char, room: u32) -> u32 {
    code(session::devices().and_then(|_| put_text(version, room, gpu::DRIVER_VERSION)))
}

#[unsafe(no_mangle)]
pub extern "C" fn nvmlSystemGetNVMLVersion(version: *mut c_char, room: u32) -> u32 {
    code(session::devices().and_then(|_| put_text(version, room, &format!("13.{}", gpu::DRIVER_VERSION))))
}

#[unsafe(no_mangle)]
pub extern "C" fn nvmlSystemGetCudaDriverVersion(version: *mut i32) -> u32 {
    code(put(version, gpu::CUDA_VERSION))
}

#[unsafe(no_mangle)]
pub extern "C" fn nvmlSystemGetCudaDriverVersion_v2(version: *mut i32) -> u32 {
    code(put(version, gpu::CUDA_VERSION))
}

#[unsafe(no_mangle)]
pub extern "C" fn nvmlSystemGetProcessName(pid: u32, name: *mut c_char, room: u32) -> u32 {
    let path = std::fs::read_link(format!("/proc/{pid}/exe")).map_err(|_| NOT_FOUND);
    code(path.and_then(|path| put_text(name, room, &path.to_string_lossy())))
}
