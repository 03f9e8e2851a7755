//! A `libnvidia-ml.so.1` that tells of the simulated GPU: the calls that a monitor uses, with their real layouts.
//!
//! One question to the device answers several calls: a monitor asks for processes, memory and utilisation in a row,
//! and gets them from one snapshot that is a millisecond old at most.
#![allow(unsafe_code, reason = "callers are C: they hand over raw pointers")]

mod answers;
mod pointers;
mod session;

pub mod device;
pub mod processes;
pub mod system;
