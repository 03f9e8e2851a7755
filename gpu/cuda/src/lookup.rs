//! `cuGetProcAddress`: the newest variant of a call that the program's CUDA knows.

use crate::entries;
use crate::pointers::{Outcome, code, put, put_if_wanted, text};
use gpu::status;
use std::ffi::{c_char, c_void};

/// The flag by which a null stream means the thread's own.
const PER_THREAD: u64 = 2;
/// From this version on, some calls take other arguments than before.
const CUDA_13: i32 = 13_000;
const FOUND: i32 = 0;
const NOT_FOUND: i32 = 1;

pub(crate) extern "C" fn find(
    name: *const c_char,
    function: *mut *mut c_void,
    version: i32,
    flags: u64,
) -> u32 {
    code(look_up(name, function, version, flags))
}

pub(crate) extern "C" fn find_v2(
    name: *const c_char,
    function: *mut *mut c_void,
    version: i32,
    flags: u64,
    found: *mut i32,
) -> u32 {
    let outcome = look_up(name, function, version, flags);
    put_if_wanted(found, if outcome.is_ok() { FOUND } else { NOT_FOUND });
    code(outcome)
}

fn look_up(name: *const c_char, function: *mut *mut c_void, version: i32, flags: u64) -> Outcome {
    let name = text(name)?;
    let changed = ["cuCtxSynchronize", "cuCtxCreate"].contains(&name);
    let suffixes: &[&str] = match (flags & PER_THREAD != 0, changed) {
        (true, _) => &["_v2_ptsz", "_v2_ptds", "_ptsz", "_v2", ""],
        (false, true) if version >= CUDA_13 => &["_v4", "_v2", ""],
        (false, true) => &["", "_v2"],
        (false, false) => &["_v2", ""],
    };
    let address = suffixes.iter().find_map(|suffix| entries::address(&format!("{name}{suffix}")));
    match address {
        Some(address) => put(function, address as *mut c_void),
        None => {
            put_if_wanted(function, std::ptr::null_mut());
            Err(status::NOT_FOUND)
        }
    }
}
