//! Streams. A stream's handle says its device, and whether it minds the default stream.

use crate::driver::{self, ask, handle, send};
use crate::pointers::{Outcome, code, put};
use crate::{context, graph};
use gpu::message::{NON_BLOCKING, Request, stream_on};

/// Handles of `cuda.h` that stand for the default stream, and for the thread's own.
const LEGACY: u64 = 1;
const PER_THREAD: u64 = 2;
/// The flag of a stream that does not mind the default stream.
const FLAG_NON_BLOCKING: u32 = 1;

thread_local! {
    static OWN: u64 = handle();
}

pub(crate) extern "C" fn create(stream: *mut u64, flags: u32) -> u32 {
    code(context::current().and_then(|device| {
        let kind = if flags & FLAG_NON_BLOCKING == 0 { 0 } else { NON_BLOCKING };
        put(stream, stream_on(device, handle() | kind))
    }))
}

/// Priorities are not simulated.
pub(crate) extern "C" fn create_with_priority(stream: *mut u64, flags: u32, _priority: i32) -> u32 {
    create(stream, flags)
}

/// What is queued is still done.
pub(crate) extern "C" fn destroy(_stream: u64) -> u32 {
    code(driver::driver().map(drop))
}

pub(crate) extern "C" fn synchronize(stream: u64) -> u32 {
    code(resolve(stream).and_then(|stream| ask(Request::Finish { stream }).map(drop)))
}

pub(crate) extern "C" fn synchronize_per_thread(stream: u64) -> u32 {
    synchronize(per_thread(stream))
}

pub(crate) extern "C" fn query(stream: u64) -> u32 {
    code(resolve(stream).and_then(|stream| ask(Request::Query { stream }).map(drop)))
}

pub(crate) extern "C" fn query_per_thread(stream: u64) -> u32 {
    query(per_thread(stream))
}

pub(crate) extern "C" fn wait_for_event(stream: u64, event: u64, _flags: u32) -> u32 {
    code(resolve(stream).and_then(|stream| {
        if graph::joins(stream, event) { Ok(()) } else { send(Request::Await { stream, event }) }
    }))
}

/// The stream that a handle stands for, in the current context.
pub(crate) fn resolve(stream: u64) -> Outcome<u64> {
    let device = context::current()?;
    Ok(match stream {
        0 | LEGACY => stream_on(device, 0),
        PER_THREAD => stream_on(device, OWN.with(|own| *own)),
        _ => stream,
    })
}

/// The `_ptsz` variants: no stream means the thread's own.
pub(crate) fn per_thread(stream: u64) -> u64 {
    if stream == 0 { PER_THREAD } else { stream }
}
