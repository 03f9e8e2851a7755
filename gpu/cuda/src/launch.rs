//! Launches: they submit work and return; the one that would be too many waits for room.

use crate::driver::{ask, send};
use crate::pointers::{Outcome, code, get};
use crate::{context, graph, kernel, module, stream};
use gpu::costs::QUEUED_MAX;
use gpu::message::Request;
use std::ffi::c_void;
use std::ptr::null;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// So many launches go without a question; then the device is asked whether there is room.
const LAUNCHES_PER_QUESTION: u64 = 256;

/// `CUlaunchConfig`, as far as it matters: its attributes do not change how long a kernel runs here.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Configuration {
    grid: [u32; 3],
    block: [u32; 3],
    shared_bytes: u32,
    stream: u64,
    attributes: *const c_void,
    attribute_count: u32,
}

#[rustfmt::skip]
pub(crate) extern "C" fn kernel(
    function: u64, grid_x: u32, grid_y: u32, grid_z: u32, block_x: u32, block_y: u32, block_z: u32,
    _shared_bytes: u32, on: u64, parameters: *const *const c_void, _extra: *const *const c_void,
) -> u32 {
    code(launch(function, &[grid_x, grid_y, grid_z, block_x, block_y, block_z], on, parameters))
}

#[rustfmt::skip]
pub(crate) extern "C" fn kernel_per_thread(
    function: u64, grid_x: u32, grid_y: u32, grid_z: u32, block_x: u32, block_y: u32, block_z: u32,
    shared_bytes: u32, on: u64, parameters: *const *const c_void, extra: *const *const c_void,
) -> u32 {
    let on = stream::per_thread(on);
    kernel(function, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes, on, parameters, extra)
}

/// A cooperative launch has no further parameters, and takes as long as any other.
#[rustfmt::skip]
pub(crate) extern "C" fn cooperative(
    function: u64, grid_x: u32, grid_y: u32, grid_z: u32, block_x: u32, block_y: u32, block_z: u32,
    shared_bytes: u32, on: u64, parameters: *const *const c_void,
) -> u32 {
    kernel(function, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes, on, parameters, null())
}

#[rustfmt::skip]
pub(crate) extern "C" fn cooperative_per_thread(
    function: u64, grid_x: u32, grid_y: u32, grid_z: u32, block_x: u32, block_y: u32, block_z: u32,
    shared_bytes: u32, on: u64, parameters: *const *const c_void,
) -> u32 {
    let on = stream::per_thread(on);
    kernel(function, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes, on, parameters, null())
}

pub(crate) extern "C" fn kernel_ex(
    configuration: *const Configuration,
    function: u64,
    parameters: *const *const c_void,
    _extra: *const *const c_void,
) -> u32 {
    code(launch_ex(configuration, function, parameters, |on| on))
}

pub(crate) extern "C" fn kernel_ex_per_thread(
    configuration: *const Configuration,
    function: u64,
    parameters: *const *const c_void,
    _extra: *const *const c_void,
) -> u32 {
    code(launch_ex(configuration, function, parameters, stream::per_thread))
}

fn launch_ex(
    configuration: *const Configuration,
    function: u64,
    parameters: *const *const c_void,
    stream_of: fn(u64) -> u64,
) -> Outcome {
    let configuration = get(configuration)?;
    launch(function, &configuration.dimensions(), stream_of(configuration.stream), parameters)
}

impl Configuration {
    fn dimensions(&self) -> [u32; 6] {
        let ([gx, gy, gz], [bx, by, bz]) = (self.grid, self.block);
        [gx, gy, gz, bx, by, bz]
    }
}

fn launch(function: u64, dimensions: &[u32; 6], on: u64, parameters: *const *const c_void) -> Outcome {
    context::current()?;
    let entry = module::entry(function)?;
    let stream = stream::resolve(on)?;
    let threads = dimensions.iter().fold(1_u64, |product, count| product.saturating_mul(u64::from(*count)));
    let work_ns = kernel::work_ns(&entry, threads, |place, size| parameter(parameters, place, size));
    submit(stream, work_ns)
}

/// Submits a kernel, or keeps it for the graph that the stream is recording.
pub(crate) fn submit(stream: u64, work_ns: u64) -> Outcome {
    static LAUNCHES: AtomicU64 = AtomicU64::new(0);
    if graph::capture(stream, work_ns) {
        return Ok(());
    }
    send(Request::Kernel { stream, work_ns })?;
    if LAUNCHES.fetch_add(1, Relaxed) % LAUNCHES_PER_QUESTION == LAUNCHES_PER_QUESTION - 1 {
        ask(Request::Throttle { queued: QUEUED_MAX - LAUNCHES_PER_QUESTION })?;
    }
    Ok(())
}

/// The parameter in a place, from the caller's list of pointers to them.
fn parameter(parameters: *const *const c_void, place: usize, size: usize) -> Option<u64> {
    if parameters.is_null() {
        return None;
    }
    let value = get(parameters.wrapping_add(place)).ok()?;
    match size {
        8 => get(value.cast::<u64>()).ok(),
        4 => get(value.cast::<u32>()).ok().map(u64::from),
        _ => None,
    }
}
