//! A `libcuda.so.1` that talks to the simulated GPU: the real names and signatures of the calls that programs use.
//!
//! The library keeps what only the process itself needs: handles, modules, the beginning of each allocation's
//! contents. Memory, work and time are the device's: see the crate `gpu`.
#![allow(unsafe_code, reason = "callers are C: they hand over raw pointers")]

pub mod entries;

mod checkpoint;
mod context;
mod device;
mod driver;
mod errors;
mod event;
mod graph;
mod kernel;
mod launch;
mod lookup;
mod memory;
mod module;
mod pointers;
mod ptx;
mod stream;
