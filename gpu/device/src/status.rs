//! Results of CUDA driver calls: the numbers of `cuda.h`.

/// Done.
pub const SUCCESS: u32 = 0;
/// An argument makes no sense.
pub const INVALID_VALUE: u32 = 1;
/// The device has no room, or would have none.
pub const OUT_OF_MEMORY: u32 = 2;
/// `cuInit` has not been called in this process; also in the child of a process that called it.
pub const NOT_INITIALIZED: u32 = 3;
/// There is no device: the simulated one does not answer.
pub const NO_DEVICE: u32 = 100;
/// No such device.
pub const INVALID_DEVICE: u32 = 101;
/// The module is no PTX.
pub const INVALID_IMAGE: u32 = 200;
/// No context is current.
pub const INVALID_CONTEXT: u32 = 201;
/// The device is lost.
pub const ECC_UNCORRECTABLE: u32 = 214;
/// No such handle.
pub const INVALID_HANDLE: u32 = 400;
/// The process is not in the state that the call needs.
pub const ILLEGAL_STATE: u32 = 401;
/// No such function in the module.
pub const NOT_FOUND: u32 = 500;
/// Work is still under way.
pub const NOT_READY: u32 = 600;
/// The process lost its memory in a restore that failed.
pub const LAUNCH_FAILED: u32 = 719;
/// The simulated driver does not do that.
pub const NOT_SUPPORTED: u32 = 801;

/// The name and the sentence that `cuGetErrorName` and `cuGetErrorString` give.
pub fn words(status: u32) -> Option<(&'static std::ffi::CStr, &'static std::ffi::CStr)> {
    Some(match status {
        SUCCESS => (c"CUDA_SUCCESS", c"no error"),
        INVALID_VALUE => (c"CUDA_ERROR_INVALID_VALUE", c"invalid argument"),
        OUT_OF_MEMORY => (c"CUDA_ERROR_OUT_OF_MEMORY", c"out of memory"),
        NOT_INITIALIZED => (c"CUDA_ERROR_NOT_INITIALIZED", c"initialization error"),
        NO_DEVICE => (c"CUDA_ERROR_NO_DEVICE", c"no CUDA-capable device is detected"),
        INVALID_DEVICE => (c"CUDA_ERROR_INVALID_DEVICE", c"invalid device ordinal"),
        INVALID_IMAGE => (c"CUDA_ERROR_INVALID_IMAGE", c"device kernel image is invalid"),
        INVALID_CONTEXT => (c"CUDA_ERROR_INVALID_CONTEXT", c"invalid device context"),
        ECC_UNCORRECTABLE => (c"CUDA_ERROR_ECC_UNCORRECTABLE", c"uncorrectable ECC error encountered"),
        INVALID_HANDLE => (c"CUDA_ERROR_INVALID_HANDLE", c"invalid resource handle"),
        ILLEGAL_STATE => (c"CUDA_ERROR_ILLEGAL_STATE", c"the operation cannot be performed in this state"),
        NOT_FOUND => (c"CUDA_ERROR_NOT_FOUND", c"named symbol not found"),
        NOT_READY => (c"CUDA_ERROR_NOT_READY", c"device not ready"),
        LAUNCH_FAILED => (c"CUDA_ERROR_LAUNCH_FAILED", c"unspecified launch failure"),
        NOT_SUPPORTED => (c"CUDA_ERROR_NOT_SUPPORTED", c"operation not supported"),
        _ => return None,
    })
}
