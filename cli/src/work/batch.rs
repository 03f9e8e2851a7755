//! `leeway work batch`: kernel after kernel, several queued ahead, as training does.

use super::device::Device;
use super::phases::Phases;
use anyhow::Result;
use std::time::{Duration, Instant};
use wire::work::WorkReport;

/// Runs kernels for a while; it queues `depth` of them before it waits for all of them.
pub(crate) fn run(
    device: Device,
    mut phases: Phases,
    kernel_us: u64,
    depth: u64,
    span: Duration,
) -> Result<WorkReport> {
    let memory = device.allocate(size_of::<f32>() as u64)?;
    phases.allocated();
    let spin = device.spin(kernel_us)?;
    phases.input();
    let start = Instant::now();
    while start.elapsed() < span {
        for _ in 0..depth {
            spin.launch(memory)?;
        }
        device.finish()?;
        phases.kernels += depth;
    }
    phases.kernel();
    phases.output();
    device.free(memory)?;
    device.close()?;
    Ok(phases.end(true))
}
