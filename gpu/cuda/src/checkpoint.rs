//! Another process's memory off the device and back. The caller need not have called `cuInit`.

use crate::driver::ask;
use crate::pointers::{Outcome, code, put};
use gpu::message::Request;
use gpu::status;
use std::ffi::c_void;

pub(crate) extern "C" fn lock(pid: i32, _arguments: *const c_void) -> u32 {
    code(of(pid).and_then(|pid| ask(Request::Lock { pid }).map(drop)))
}

pub(crate) extern "C" fn checkpoint(pid: i32, _arguments: *const c_void) -> u32 {
    code(of(pid).and_then(|pid| ask(Request::Checkpoint { pid }).map(drop)))
}

pub(crate) extern "C" fn restore(pid: i32, _arguments: *const c_void) -> u32 {
    code(of(pid).and_then(|pid| ask(Request::Restore { pid }).map(drop)))
}

pub(crate) extern "C" fn unlock(pid: i32, _arguments: *const c_void) -> u32 {
    code(of(pid).and_then(|pid| ask(Request::Unlock { pid }).map(drop)))
}

pub(crate) extern "C" fn state(pid: i32, state: *mut u32) -> u32 {
    code(of(pid).and_then(|pid| {
        let words = ask(Request::State { pid })?;
        put(state, words.first().copied().unwrap_or(0) as u32)
    }))
}

fn of(pid: i32) -> Outcome<u64> {
    u64::try_from(pid).map_err(|_| status::INVALID_VALUE)
}
