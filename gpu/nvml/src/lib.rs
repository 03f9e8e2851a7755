//! A `libnvidia-ml.so.1` that tells of the simulated GPU: the calls that a monitor uses, with their real layouts.
//!
//! The device sends its figures whenever they change, so a monitor that asks hundreds of times a second costs a look
//! into a socket each time, and the device nothing.
#![allow(unsafe_code, reason = "callers are C: they hand over raw pointers")]

mod answers;
mod pointers;
mod session;

pub mod device;
pub mod processes;
pub mod system;
