//! CUDA programs to share a GPU between: they run unchanged on a real GPU and on the simulated one.
//!
//! Each calls the driver's own library, as any CUDA program does in the end, and notes when each phase is over.

mod calls;
mod device;
mod kernels;
mod phases;

pub(crate) mod batch;
pub(crate) mod fork;
pub(crate) mod hold;
pub(crate) mod matmul;
pub(crate) mod serve;

pub(crate) use device::Device;
pub(crate) use phases::Phases;
