//! The simulated GPU: a process on the host that is the device, and the messages by which programs use it.
//!
//! Problem: on a machine without a GPU, the real agent, real containers and real CUDA programs must meet something
//! that behaves like one, and nobody may be able to block it: not a client that is stopped, frozen or killed.
//!
//! Approach: the device is one thread with one socket and its own clock. A client sends what it submits and asks
//! for what it wants to know; the device computes when work is done, whether or not anybody still listens. Nothing
//! is shared: no memory, no lock. Peer credentials give a client's pid as the host sees it, the closed socket its
//! exit.
//!
//! Units: times are nanoseconds of `CLOCK_MONOTONIC`, work is nanoseconds at full speed, sizes are bytes.
//!
//! Reading order: [`costs`], [`message`], [`world`], [`server`], [`client`].

pub mod costs;
pub mod message;
pub mod status;

mod checkpoint;
mod flow;
mod kinds;
mod listing;
mod news;
mod process;
mod requests;
#[cfg(test)]
mod stories;
mod stream;
mod usage;
mod waiting;
pub mod world;

pub mod client;
pub mod server;

/// The name of the device's socket in its folder.
pub const SOCKET: &str = "device.sock";

/// Where the device's folder is in a container: the simulated libraries look for the socket there.
pub const FOLDER_IN_CONTAINER: &str = "/run/leeway-gpu";

/// The name a program is told. It says what the device is, so that nobody trusts its arithmetic.
pub const NAME: &str = "Leeway Simulated GPU";

/// The driver's version as NVML tells it. The second half is not a driver's anywhere.
pub const DRIVER_VERSION: &str = "580.00.leeway";

/// CUDA 13.0, as `cuDriverGetVersion` tells it.
pub const CUDA_VERSION: i32 = 13_000;

/// The device's universal identifier: the same for one place in the list, whoever asks.
pub fn uuid(device: usize) -> [u8; 16] {
    let mut bytes = *b"leeway-gpu\0\0\0\0\0\0";
    bytes[15] = device as u8;
    bytes
}

/// `CLOCK_MONOTONIC`, which all processes of a machine share.
pub fn monotonic_ns() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}
