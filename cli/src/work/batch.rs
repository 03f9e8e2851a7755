//! `leeway work batch`: kernel after kernel, several queued ahead, as training does.

use super::device::Device;
use super::phases::Phases;
use anyhow::Result;
use std::time::{Duration, Instant};
use wire::work::WorkReport;

/// What to run.
pub(crate) struct Batch {
    /// How long each kernel takes.
    pub(crate) kernel_us: u64,
    /// How many are queued before the program waits for them.
    pub(crate) depth: u64,
    pub(crate) until: Until,
    /// How long to do nothing before the first.
    pub(crate) after: Duration,
}

/// When to end.
pub(crate) enum Until {
    Elapsed(Duration),
    /// So many kernels were run.
    Count(u64),
}

/// Runs kernels for a while; it queues `depth` of them before it waits for all of them.
pub(crate) fn run(device: Device, mut phases: Phases, batch: &Batch) -> Result<WorkReport> {
    let memory = device.allocate(size_of::<f32>() as u64)?;
    phases.allocated();
    let spin = device.spin(batch.kernel_us)?;
    std::thread::sleep(batch.after);
    phases.input();
    let start = Instant::now();
    loop {
        let depth = match batch.until {
            Until::Elapsed(span) if start.elapsed() < span => batch.depth,
            Until::Elapsed(_) => 0,
            Until::Count(count) => batch.depth.min(count - phases.kernels),
        };
        if depth == 0 {
            break;
        }
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
