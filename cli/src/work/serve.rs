//! `leeway work serve`: a long-lived server, which has one short kernel to run for each request.

use super::device::Device;
use super::phases::Phases;
use anyhow::Result;
use rand::RngExt;
use sim::luck::{Luck, Purpose};
use std::ops::Range;
use std::time::{Duration, Instant};
use wire::work::{Moment, WorkReport, WorkRequest};

/// What a request brings: a few numbers.
const INPUT: [f32; 1_024] = [1.0; 1_024];

/// What arrives.
pub(crate) struct Serve {
    pub(crate) requests: u64,
    /// How long each one's kernel takes.
    pub(crate) kernel_us: u64,
    pub(crate) next: Next,
    /// What the pauses are drawn from.
    pub(crate) luck: Luck,
    /// How long after the start the first does.
    pub(crate) after: Duration,
}

/// When the next request arrives.
pub(crate) enum Next {
    /// So long after the one before it did, also where that one is late.
    Every(Duration),
    /// So long after the one before it was done, as of somebody who asks again, and now sooner, now later: of servers whose pauses are all alike,
    /// two meet at every request or at none.
    Pause(Duration),
}

/// How much of the pause there is.
const PAUSES: Range<f64> = 0.5..1.5;

/// Serves requests, one after another.
pub(crate) fn run(device: Device, mut phases: Phases, serve: &Serve) -> Result<WorkReport> {
    let memory = device.allocate(size_of_val(&INPUT) as u64)?;
    phases.allocated();
    let spin = device.spin(serve.kernel_us)?;
    phases.input();
    let mut pauses = serve.luck.stream(Purpose::Pauses);
    let mut arrival = Instant::now() + serve.after;
    for _ in 0..serve.requests {
        std::thread::sleep(arrival.saturating_duration_since(Instant::now()));
        // Behind a slow request the next has been waiting for a while. How long, a clock says that nobody sets.
        let waited = arrival.elapsed();
        let start = Moment::now();
        let arrived = start.earlier_by(waited);
        device.copy_in(memory, 0, &INPUT)?;
        let launch = Moment::now();
        spin.launch(memory)?;
        let launched = Moment::now();
        device.finish()?;
        phases.requests.push(WorkRequest { arrived, start, launch, launched, end: Moment::now() });
        phases.kernels += 1;
        arrival = match serve.next {
            Next::Every(span) => arrival + span,
            Next::Pause(span) => Instant::now() + span.mul_f64(pauses.random_range(PAUSES)),
        };
    }
    phases.kernel();
    phases.output();
    device.free(memory)?;
    device.close()?;
    Ok(phases.end(true))
}
