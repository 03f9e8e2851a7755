//! What a status means, in words.

use crate::pointers::{code, put};
use gpu::status;
use std::ffi::c_char;

pub(crate) extern "C" fn name(error: u32, text: *mut *const c_char) -> u32 {
    code(status::words(error).ok_or(status::INVALID_VALUE).and_then(|(name, _)| put(text, name.as_ptr())))
}

pub(crate) extern "C" fn sentence(error: u32, text: *mut *const c_char) -> u32 {
    code(
        status::words(error)
            .ok_or(status::INVALID_VALUE)
            .and_then(|(_, text_of)| put(text, text_of.as_ptr())),
    )
}
