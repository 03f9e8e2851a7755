//! The driver's calls that move another process's memory, found when the program runs.
#![allow(unsafe_code, reason = "the driver is a C library")]

use libloading::Library;
use std::ffi::{CStr, c_char, c_void};
use std::path::Path;
use std::ptr::null;
use wire::swap::State;

const LIBRARY: &str = "libcuda.so.1";
/// How long a process may take to come to a point where it can be locked.
const LOCK_MS_MAX: u32 = 10_000;
/// The driver wants `cuInit` first; only then, for it makes the helper a user of the GPU.
const NOT_INITIALISED: u32 = 3;

type OfProcess = unsafe extern "C" fn(i32, *const c_void) -> u32;

/// The arguments of a lock, as `cuda.h` lays them out.
#[repr(C)]
struct LockArguments {
    timeout_ms: u32,
    reserved: u32,
    more: [u64; 7],
}

/// The driver.
pub(super) struct Driver {
    init: unsafe extern "C" fn(u32) -> u32,
    error_name: unsafe extern "C" fn(u32, *mut *const c_char) -> u32,
    lock: OfProcess,
    checkpoint: OfProcess,
    restore: OfProcess,
    unlock: OfProcess,
    state: unsafe extern "C" fn(i32, *mut u32) -> u32,
}

impl Driver {
    /// Loads it: the one in a folder, or the one that the loader finds. A sentence where it cannot swap.
    pub(super) fn load(folder: Option<&Path>) -> Result<Self, String> {
        let path = folder.map_or_else(|| LIBRARY.into(), |folder| folder.join(LIBRARY));
        let words = |error: libloading::Error| {
            let cause =
                std::error::Error::source(&error).map_or_else(|| error.to_string(), ToString::to_string);
            format!("the driver {} cannot swap: {cause}", path.display())
        };
        // SAFETY: loading runs the library's initialisers, as every CUDA program has them run.
        let library = unsafe { Library::new(&path) }.map_err(words)?;
        // SAFETY: the types are those that `cuda.h` declares for these names since CUDA 12.8.
        let driver = unsafe {
            Self {
                init: *library.get("cuInit").map_err(words)?,
                error_name: *library.get("cuGetErrorName").map_err(words)?,
                lock: *library.get("cuCheckpointProcessLock").map_err(words)?,
                checkpoint: *library.get("cuCheckpointProcessCheckpoint").map_err(words)?,
                restore: *library.get("cuCheckpointProcessRestore").map_err(words)?,
                unlock: *library.get("cuCheckpointProcessUnlock").map_err(words)?,
                state: *library.get("cuCheckpointProcessGetState").map_err(words)?,
            }
        };
        // The driver is never unloaded: its threads may still run.
        std::mem::forget(library);
        Ok(driver)
    }

    pub(super) fn lock(&self, pid: u32) -> Result<(), String> {
        let arguments = LockArguments { timeout_ms: LOCK_MS_MAX, reserved: 0, more: [0; 7] };
        let arguments = (&raw const arguments).cast();
        // SAFETY: the call reads the arguments, which outlive it, and keeps nothing.
        self.call("cuCheckpointProcessLock", || unsafe { (self.lock)(pid.cast_signed(), arguments) })
    }

    pub(super) fn checkpoint(&self, pid: u32) -> Result<(), String> {
        // SAFETY: arguments are optional.
        self.call("cuCheckpointProcessCheckpoint", || unsafe { (self.checkpoint)(pid.cast_signed(), null()) })
    }

    pub(super) fn restore(&self, pid: u32) -> Result<(), String> {
        // SAFETY: arguments are optional.
        self.call("cuCheckpointProcessRestore", || unsafe { (self.restore)(pid.cast_signed(), null()) })
    }

    pub(super) fn unlock(&self, pid: u32) -> Result<(), String> {
        // SAFETY: arguments are optional.
        self.call("cuCheckpointProcessUnlock", || unsafe { (self.unlock)(pid.cast_signed(), null()) })
    }

    pub(super) fn state(&self, pid: u32) -> Result<State, String> {
        let mut state = u32::MAX;
        // SAFETY: there is room for the state.
        self.call("cuCheckpointProcessGetState", || unsafe {
            (self.state)(pid.cast_signed(), &raw mut state)
        })?;
        match state {
            0 => Ok(State::Running),
            1 => Ok(State::Locked),
            2 => Ok(State::Out),
            3 => Ok(State::Lost),
            other => Err(format!("the driver names a state {other} that nobody knows")),
        }
    }

    fn call(&self, name: &str, mut call: impl FnMut() -> u32) -> Result<(), String> {
        let mut status = call();
        // SAFETY: the call takes flags, of which there are none.
        if status == NOT_INITIALISED && unsafe { (self.init)(0) } == 0 {
            status = call();
        }
        if status == 0 { Ok(()) } else { Err(format!("{name} says {} ({status})", self.name_of(status))) }
    }

    fn name_of(&self, status: u32) -> String {
        let mut name = null();
        // SAFETY: there is room for the pointer, and what it then points to is the driver's own text.
        unsafe {
            if (self.error_name)(status, &raw mut name) == 0 && !name.is_null() {
                return CStr::from_ptr(name).to_string_lossy().into_owned();
            }
        }
        "an error".to_owned()
    }
}
