//! Results of NVML calls: the numbers of `nvml.h`.

use std::ffi::CStr;

pub(crate) const SUCCESS: u32 = 0;
pub(crate) const UNINITIALIZED: u32 = 1;
pub(crate) const INVALID_ARGUMENT: u32 = 2;
pub(crate) const NOT_SUPPORTED: u32 = 3;
pub(crate) const NOT_FOUND: u32 = 6;
pub(crate) const INSUFFICIENT_SIZE: u32 = 7;
/// The simulated GPU is not running.
pub(crate) const DRIVER_NOT_LOADED: u32 = 9;
pub(crate) const GPU_IS_LOST: u32 = 15;

/// A call's result on the way: nothing, or the number that says why not.
pub(crate) type Outcome<T = ()> = Result<T, u32>;

/// A result as C has it.
pub(crate) fn code(outcome: Outcome) -> u32 {
    outcome.err().unwrap_or(SUCCESS)
}

/// What a number means.
pub(crate) fn words(answer: u32) -> &'static CStr {
    match answer {
        SUCCESS => c"The operation was successful",
        UNINITIALIZED => c"Uninitialized",
        INVALID_ARGUMENT => c"Invalid Argument",
        NOT_SUPPORTED => c"Not Supported",
        NOT_FOUND => c"Not Found",
        INSUFFICIENT_SIZE => c"Insufficient Size",
        DRIVER_NOT_LOADED => c"Driver Not Loaded",
        GPU_IS_LOST => c"GPU is lost",
        _ => c"Unknown Error",
    }
}
