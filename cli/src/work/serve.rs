//! `leeway work serve`: a long-lived server, which has one short kernel to run for each request.

use super::device::Device;
use super::phases::Phases;
use anyhow::Result;
use std::time::{Duration, Instant};
use wire::work::{Moment, WorkReport, WorkRequest};

/// What a request brings: a few numbers.
const INPUT: [f32; 1_024] = [1.0; 1_024];

/// Serves requests that arrive at fixed times, one after another: a late one does not delay the arrival of the next.
pub(crate) fn run(
    device: Device,
    mut phases: Phases,
    requests: u64,
    kernel_us: u64,
    every: Duration,
) -> Result<WorkReport> {
    let memory = device.allocate(size_of_val(&INPUT) as u64)?;
    phases.allocated();
    let spin = device.spin(kernel_us)?;
    phases.input();
    let mut arrival = Instant::now();
    for _ in 0..requests {
        std::thread::sleep(arrival.saturating_duration_since(Instant::now()));
        let start = Moment::now();
        device.copy_in(memory, 0, &INPUT)?;
        spin.launch(memory)?;
        device.finish()?;
        phases.requests.push(WorkRequest { start, end: Moment::now() });
        phases.kernels += 1;
        arrival += every;
    }
    phases.kernel();
    phases.output();
    device.free(memory)?;
    device.close()?;
    Ok(phases.end(true))
}
