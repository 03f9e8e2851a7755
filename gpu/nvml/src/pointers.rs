//! What callers hand over as raw pointers, read and written in one place.
//!
//! NVML's contract is the condition of every block here: a pointer that is not null points to memory of the type
//! and size that the call documents, and nobody else uses it until the call returns.

use crate::answers::{INSUFFICIENT_SIZE, INVALID_ARGUMENT, Outcome};
use std::ffi::{CStr, c_char};

/// Stores a result where the caller wants it.
pub(crate) fn put<T>(place: *mut T, value: T) -> Outcome {
    if place.is_null() {
        return Err(INVALID_ARGUMENT);
    }
    // SAFETY: not null, and by the contract above it has room for a `T`.
    unsafe { place.write_unaligned(value) };
    Ok(())
}

/// Reads a value of the caller's.
pub(crate) fn get<T: Copy>(place: *const T) -> Outcome<T> {
    if place.is_null() {
        return Err(INVALID_ARGUMENT);
    }
    // SAFETY: not null, and by the contract above it holds a `T`, which is plain data here.
    Ok(unsafe { place.read_unaligned() })
}

/// The caller's text.
pub(crate) fn text<'a>(place: *const c_char) -> Outcome<&'a str> {
    if place.is_null() {
        return Err(INVALID_ARGUMENT);
    }
    // SAFETY: not null, and by the contract above it ends with a zero byte.
    let text = unsafe { CStr::from_ptr(place) };
    text.to_str().map_err(|_| INVALID_ARGUMENT)
}

/// Stores a text with its closing zero byte.
pub(crate) fn put_text(place: *mut c_char, room: u32, text: &str) -> Outcome {
    if text.len() >= room as usize {
        return Err(INSUFFICIENT_SIZE);
    }
    for (offset, byte) in text.bytes().chain([0]).enumerate() {
        put(place.wrapping_add(offset), byte as c_char)?;
    }
    Ok(())
}

/// Stores a list, as NVML does: the caller says how much room there is, and is told how much is needed.
pub(crate) fn put_list<T>(place: *mut T, count: *mut u32, list: Vec<T>) -> Outcome {
    let room = get(count)?;
    put(count, list.len() as u32)?;
    if list.is_empty() {
        return Ok(());
    }
    if place.is_null() || (room as usize) < list.len() {
        return Err(INSUFFICIENT_SIZE);
    }
    list.into_iter().enumerate().try_for_each(|(at, value)| put(place.wrapping_add(at), value))
}
