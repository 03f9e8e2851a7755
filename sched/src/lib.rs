//! The pure scheduler: facts in, actions out.
#![no_std]

extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod admission;
pub mod node;
pub mod placement;
pub mod time;
