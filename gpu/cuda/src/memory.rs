//! Device memory: addresses and the beginning of each allocation's contents are kept here, sizes by the device.

use crate::driver::{self, ask, send};
use crate::pointers::{Outcome, bytes, bytes_mut, code, put};
use crate::{context, stream};
use gpu::costs::FILL_BYTES_PER_NS;
use gpu::message::{INPUT, OUTPUT, Request, stream_on};
use gpu::status;
use std::collections::BTreeMap;
use std::sync::{LazyLock, Mutex, MutexGuard};

/// How much of an allocation's contents is kept: enough to see that data come back as they went.
const CONTENTS_BYTES_MAX: usize = 1 << 20;
/// Addresses of device memory begin here, and at multiples of the second.
const ADDRESS_FIRST: u64 = 0x7f00_0000_0000;
const ALIGNMENT: u64 = 512;

struct Allocation {
    bytes: u64,
    /// As far as anything was written.
    contents: Vec<u8>,
}

struct Memory {
    allocations: BTreeMap<u64, Allocation>,
    next: u64,
}

static MEMORY: LazyLock<Mutex<Memory>> =
    LazyLock::new(|| Mutex::new(Memory { allocations: BTreeMap::new(), next: ADDRESS_FIRST }));

pub(crate) extern "C" fn allocate(address: *mut u64, size: usize) -> u32 {
    code(new(size as u64).and_then(|new| put(address, new)))
}

/// Managed memory is all on the device here: nobody takes it for a swap space.
pub(crate) extern "C" fn allocate_managed(address: *mut u64, size: usize, _flags: u32) -> u32 {
    code(ask(Request::Manage {}).and_then(|_| new(size as u64)).and_then(|new| put(address, new)))
}

pub(crate) extern "C" fn free(address: u64) -> u32 {
    if address == 0 {
        return status::SUCCESS;
    }
    // A free waits for the work that may still use the memory.
    let finished = context::current().and_then(|device| ask(Request::FinishAll { device }));
    code(
        finished
            .and_then(|_| ask(Request::Free { address }))
            .map(|_| drop(memory().allocations.remove(&address))),
    )
}

pub(crate) extern "C" fn info(free: *mut usize, total: *mut usize) -> u32 {
    code(context::current().and_then(|device| {
        let words = ask(Request::MemoryInfo { device })?;
        put(total, words.first().copied().unwrap_or(0) as usize)?;
        put(free, words.get(1).copied().unwrap_or(0) as usize)
    }))
}

pub(crate) extern "C" fn copy_in(to: u64, from: *const u8, size: usize) -> u32 {
    code(default_stream().and_then(|stream| {
        write(to, from, size)?;
        copy(stream, size, INPUT)?;
        ask(Request::Finish { stream }).map(drop)
    }))
}

pub(crate) extern "C" fn copy_out(to: *mut u8, from: u64, size: usize) -> u32 {
    code(default_stream().and_then(|stream| {
        copy(stream, size, OUTPUT)?;
        ask(Request::Finish { stream })?;
        read(to, from, size)
    }))
}

pub(crate) extern "C" fn copy_in_later(to: u64, from: *const u8, size: usize, on: u64) -> u32 {
    code(stream::resolve(on).and_then(|stream| {
        write(to, from, size)?;
        copy(stream, size, INPUT)
    }))
}

/// The data are there before the time that the copy takes has passed: who waits cannot tell.
pub(crate) extern "C" fn copy_out_later(to: *mut u8, from: u64, size: usize, on: u64) -> u32 {
    code(stream::resolve(on).and_then(|stream| {
        read(to, from, size)?;
        copy(stream, size, OUTPUT)
    }))
}

pub(crate) extern "C" fn copy_in_later_per_thread(to: u64, from: *const u8, size: usize, on: u64) -> u32 {
    copy_in_later(to, from, size, stream::per_thread(on))
}

pub(crate) extern "C" fn copy_out_later_per_thread(to: *mut u8, from: u64, size: usize, on: u64) -> u32 {
    copy_out_later(to, from, size, stream::per_thread(on))
}

pub(crate) extern "C" fn fill_bytes(to: u64, value: u8, count: usize) -> u32 {
    code(fill(to, &[value], count))
}

pub(crate) extern "C" fn fill_words(to: u64, value: u32, count: usize) -> u32 {
    code(fill(to, &value.to_ne_bytes(), count))
}

fn new(size: u64) -> Outcome<u64> {
    let device = context::current()?;
    if size == 0 {
        return Err(status::INVALID_VALUE);
    }
    let taken = size.checked_next_multiple_of(ALIGNMENT).ok_or(status::OUT_OF_MEMORY)?;
    let address = {
        let mut memory = memory();
        let address = memory.next;
        memory.next = address.checked_add(taken).ok_or(status::OUT_OF_MEMORY)?;
        address
    };
    ask(Request::Allocate { device, address, bytes: taken })?;
    memory().allocations.insert(address, Allocation { bytes: size, contents: Vec::new() });
    Ok(address)
}

fn copy(stream: u64, size: usize, direction: u64) -> Outcome {
    send(Request::Copy { stream, bytes: size as u64, direction })
}

fn fill(to: u64, pattern: &[u8], count: usize) -> Outcome {
    let stream = default_stream()?;
    let size = pattern.len().checked_mul(count).ok_or(status::INVALID_VALUE)?;
    with_kept(to, size, |kept| {
        kept.iter_mut().zip(pattern.iter().cycle()).for_each(|(byte, value)| *byte = *value);
    })?;
    send(Request::Kernel { stream, work_ns: (size as f64 / FILL_BYTES_PER_NS) as u64 })
}

fn write(to: u64, from: *const u8, size: usize) -> Outcome {
    let from = bytes(from, size)?;
    with_kept(to, size, |kept| kept.copy_from_slice(&from[..kept.len()]))
}

/// What is not kept is left as the caller has it.
fn read(to: *mut u8, from: u64, size: usize) -> Outcome {
    let to = bytes_mut(to, size)?;
    with_kept(from, size, |kept| to[..kept.len()].copy_from_slice(kept))
}

/// The part of a range of device memory whose contents are kept.
fn with_kept(address: u64, size: usize, use_it: impl FnOnce(&mut [u8])) -> Outcome {
    let mut memory = memory();
    let (base, allocation) =
        memory.allocations.range_mut(..=address).next_back().ok_or(status::INVALID_VALUE)?;
    let from = address - base;
    if from.checked_add(size as u64).is_none_or(|end| end > allocation.bytes) {
        return Err(status::INVALID_VALUE);
    }
    let end = (from as usize + size).min(CONTENTS_BYTES_MAX);
    if allocation.contents.len() < end {
        allocation.contents.resize(end, 0);
    }
    use_it(allocation.contents.get_mut(from as usize..end).unwrap_or_default());
    Ok(())
}

fn default_stream() -> Outcome<u64> {
    driver::driver()?;
    Ok(stream_on(context::current()?, 0))
}

fn memory() -> MutexGuard<'static, Memory> {
    MEMORY.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}
