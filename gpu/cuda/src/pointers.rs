//! What callers hand over as raw pointers, read and written in one place.
//!
//! The driver API's contract is the condition of every block here: a pointer that is not null points to memory of
//! the type and size that the call documents, and nobody else uses it until the call returns.

use gpu::status;
use std::ffi::{CStr, c_char};

/// A call's result on the way: nothing, or the status that says why not.
pub(crate) type Outcome<T = ()> = Result<T, u32>;

/// A result as C has it.
pub(crate) fn code(outcome: Outcome) -> u32 {
    outcome.err().unwrap_or(status::SUCCESS)
}

/// Stores a result where the caller wants it.
pub(crate) fn put<T>(place: *mut T, value: T) -> Outcome {
    if place.is_null() {
        return Err(status::INVALID_VALUE);
    }
    // SAFETY: not null, and by the contract above it has room for a `T`.
    unsafe { place.write_unaligned(value) };
    Ok(())
}

/// Stores a result where the caller may have wanted none.
pub(crate) fn put_if_wanted<T>(place: *mut T, value: T) {
    let _ = put(place, value);
}

/// Reads a value of the caller's.
pub(crate) fn get<T: Copy>(place: *const T) -> Outcome<T> {
    if place.is_null() {
        return Err(status::INVALID_VALUE);
    }
    // SAFETY: not null, and by the contract above it holds a `T`, which is plain data here.
    Ok(unsafe { place.read_unaligned() })
}

/// The caller's bytes.
pub(crate) fn bytes<'a>(place: *const u8, length: usize) -> Outcome<&'a [u8]> {
    if place.is_null() {
        return Err(status::INVALID_VALUE);
    }
    // SAFETY: not null, and by the contract above it has `length` bytes that stay as they are during the call.
    Ok(unsafe { std::slice::from_raw_parts(place, length) })
}

/// The caller's bytes, to be written.
pub(crate) fn bytes_mut<'a>(place: *mut u8, length: usize) -> Outcome<&'a mut [u8]> {
    if place.is_null() {
        return Err(status::INVALID_VALUE);
    }
    // SAFETY: not null, and by the contract above it has room for `length` bytes that nobody else uses meanwhile.
    Ok(unsafe { std::slice::from_raw_parts_mut(place, length) })
}

/// The caller's text.
pub(crate) fn text<'a>(place: *const c_char) -> Outcome<&'a str> {
    if place.is_null() {
        return Err(status::INVALID_VALUE);
    }
    // SAFETY: not null, and by the contract above it ends with a zero byte.
    let text = unsafe { CStr::from_ptr(place) };
    text.to_str().map_err(|_| status::INVALID_VALUE)
}

/// Stores a text with its closing zero byte, cut to the room there is.
pub(crate) fn put_text(place: *mut c_char, room: i32, text: &str) -> Outcome {
    let room = usize::try_from(room).ok().filter(|room| *room > 0).ok_or(status::INVALID_VALUE)?;
    let target = bytes_mut(place.cast(), room)?;
    let length = text.len().min(room - 1);
    target[..length].copy_from_slice(&text.as_bytes()[..length]);
    target[length] = 0;
    Ok(())
}
