//! Contexts, and which is current in a thread. A context's handle says its device.

use crate::driver::{self, ask};
use crate::pointers::{Outcome, code, put};
use gpu::message::{Request, device_of, stream_on};
use gpu::status;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::c_void;
use std::sync::{LazyLock, Mutex, MutexGuard};

/// The contexts of the process.
#[derive(Default)]
struct Contexts {
    known: BTreeSet<u64>,
    /// Each device's primary context, and how often it is retained.
    primary: BTreeMap<u64, (u64, u64)>,
}

static CONTEXTS: LazyLock<Mutex<Contexts>> = LazyLock::new(Mutex::default);

thread_local! {
    /// The contexts that the thread has pushed; the last is current.
    static STACK: RefCell<Vec<u64>> = const { RefCell::new(Vec::new()) };
}

pub(crate) extern "C" fn create(context: *mut u64, _flags: u32, device: i32) -> u32 {
    code(new(device).and_then(|new| {
        STACK.with_borrow_mut(|stack| stack.push(new));
        put(context, new)
    }))
}

/// As CUDA 13 has it, with parameters that mean nothing here.
pub(crate) extern "C" fn create_v4(
    context: *mut u64,
    _parameters: *const c_void,
    flags: u32,
    device: i32,
) -> u32 {
    create(context, flags, device)
}

pub(crate) extern "C" fn destroy(context: u64) -> u32 {
    code(remove(context))
}

pub(crate) extern "C" fn set_current(context: u64) -> u32 {
    code(known(context).map(|()| {
        STACK.with_borrow_mut(|stack| {
            stack.pop();
            stack.extend((context != 0).then_some(context));
        });
    }))
}

pub(crate) extern "C" fn get_current(context: *mut u64) -> u32 {
    code(driver::driver().and_then(|_| put(context, top().unwrap_or(0))))
}

pub(crate) extern "C" fn push_current(context: u64) -> u32 {
    code(known(context).map(|()| STACK.with_borrow_mut(|stack| stack.push(context))))
}

pub(crate) extern "C" fn pop_current(context: *mut u64) -> u32 {
    let popped = STACK.with_borrow_mut(Vec::pop).ok_or(status::INVALID_CONTEXT);
    code(popped.map(|popped| crate::pointers::put_if_wanted(context, popped)))
}

pub(crate) extern "C" fn device_of_current(device: *mut i32) -> u32 {
    code(current().and_then(|number| {
        let place = driver::driver()?.visible.iter().position(|visible| *visible == number);
        put(device, place.unwrap_or(0) as i32)
    }))
}

pub(crate) extern "C" fn synchronize() -> u32 {
    code(current().and_then(|device| ask(Request::FinishAll { device }).map(drop)))
}

pub(crate) extern "C" fn synchronize_v2(context: u64) -> u32 {
    let device = if context == 0 { current() } else { known(context).map(|()| device_of(context) as u64) };
    code(device.and_then(|device| ask(Request::FinishAll { device }).map(drop)))
}

pub(crate) extern "C" fn primary_retain(context: *mut u64, device: i32) -> u32 {
    code(driver::device(device).and_then(|number| {
        let held = contexts().primary.get(&number).copied();
        let (primary, count) = match held {
            Some(held) => held,
            None => (new(device)?, 0),
        };
        contexts().primary.insert(number, (primary, count + 1));
        put(context, primary)
    }))
}

pub(crate) extern "C" fn primary_release(device: i32) -> u32 {
    code(driver::device(device).and_then(|number| {
        let held = contexts().primary.get(&number).copied().ok_or(status::INVALID_CONTEXT)?;
        match held {
            (primary, 1) => {
                contexts().primary.remove(&number);
                remove(primary)
            }
            (primary, count) => {
                contexts().primary.insert(number, (primary, count - 1));
                Ok(())
            }
        }
    }))
}

/// The device of the thread's current context.
pub(crate) fn current() -> Outcome<u64> {
    driver::driver()?;
    top().map(|context| device_of(context) as u64).ok_or(status::INVALID_CONTEXT)
}

fn top() -> Option<u64> {
    STACK.with_borrow(|stack| stack.last().copied())
}

fn new(device: i32) -> Outcome<u64> {
    let device = driver::device(device)?;
    ask(Request::CreateContext { device })?;
    let context = stream_on(device, driver::handle());
    contexts().known.insert(context);
    Ok(context)
}

fn remove(context: u64) -> Outcome {
    if context == 0 || !contexts().known.remove(&context) {
        return Err(status::INVALID_CONTEXT);
    }
    STACK.with_borrow_mut(|stack| stack.retain(|held| *held != context));
    ask(Request::DestroyContext { device: device_of(context) as u64 }).map(drop)
}

/// Nothing if the context is there, or none.
fn known(context: u64) -> Outcome {
    driver::driver()?;
    if context == 0 || contexts().known.contains(&context) { Ok(()) } else { Err(status::INVALID_CONTEXT) }
}

fn contexts() -> MutexGuard<'static, Contexts> {
    CONTEXTS.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}
