//! Events: the device notes when each happens.

use crate::driver::{self, ask, handle, send};
use crate::graph;
use crate::pointers::{code, put};
use crate::stream::{per_thread, resolve};
use gpu::message::Request;

pub(crate) extern "C" fn create(event: *mut u64, _flags: u32) -> u32 {
    code(driver::driver().and_then(|_| put(event, handle())))
}

pub(crate) extern "C" fn record(event: u64, stream: u64) -> u32 {
    code(resolve(stream).and_then(|stream| {
        if graph::capture_event(event, stream) { Ok(()) } else { send(Request::Record { stream, event }) }
    }))
}

pub(crate) extern "C" fn record_per_thread(event: u64, stream: u64) -> u32 {
    record(event, per_thread(stream))
}

pub(crate) extern "C" fn synchronize(event: u64) -> u32 {
    code(driver::driver().and_then(|_| ask(Request::FinishEvent { event }).map(drop)))
}

pub(crate) extern "C" fn query(event: u64) -> u32 {
    code(driver::driver().and_then(|_| ask(Request::QueryEvent { event }).map(drop)))
}

pub(crate) extern "C" fn elapsed(milliseconds: *mut f32, from: u64, to: u64) -> u32 {
    code(driver::driver().and_then(|_| {
        let words = ask(Request::Elapsed { from, to })?;
        let elapsed_ns = words.first().copied().unwrap_or(0) as i64;
        put(milliseconds, (elapsed_ns as f64 / 1e6) as f32)
    }))
}

pub(crate) extern "C" fn destroy(_event: u64) -> u32 {
    code(driver::driver().map(drop))
}
