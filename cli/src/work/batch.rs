//! `leeway work batch`: kernel after kernel, several queued ahead, as training does.

use super::device::{Device, Memory, Spin};
use super::phases::Phases;
use anyhow::{Context, Result};
use std::io::Write;
use std::time::{Duration, Instant};
use wire::work::WorkReport;

/// What to run.
pub(crate) struct Batch {
    /// How long each kernel takes.
    pub(crate) kernel_us: u64,
    /// How many are queued before the program waits for them.
    pub(crate) depth: u64,
    /// How long to do something else before it waits for them.
    pub(crate) prepare: Duration,
    pub(crate) until: Until,
    /// How long to do nothing before the first.
    pub(crate) after: Duration,
    /// Once for each line that is read, instead of once; what it took is printed as a line, in seconds.
    pub(crate) each_line: bool,
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
    if batch.each_line {
        for line in std::io::stdin().lines() {
            line.context("could not read from the standard input")?;
            let start = Instant::now();
            phases.kernels += kernels(&device, &spin, memory, batch)?;
            let taken = format!("{:.6}\n", start.elapsed().as_secs_f64());
            std::io::stdout().write_all(taken.as_bytes()).context("could not print what it took")?;
        }
    } else {
        phases.kernels = kernels(&device, &spin, memory, batch)?;
    }
    phases.kernel();
    phases.output();
    device.free(memory)?;
    device.close()?;
    Ok(phases.end(true))
}

/// Runs them once: how many there were.
fn kernels(device: &Device, spin: &Spin<'_>, memory: Memory, batch: &Batch) -> Result<u64> {
    let (start, mut done) = (Instant::now(), 0);
    loop {
        let depth = match batch.until {
            Until::Elapsed(span) if start.elapsed() < span => batch.depth,
            Until::Elapsed(_) => 0,
            Until::Count(count) => batch.depth.min(count - done),
        };
        if depth == 0 {
            return Ok(done);
        }
        for _ in 0..depth {
            spin.launch(memory)?;
        }
        if !batch.prepare.is_zero() {
            std::thread::sleep(batch.prepare);
        }
        device.finish()?;
        done += depth;
    }
}
