//! `leeway work hold`: takes device memory, keeps it for a while, and looks whether it is still what it was.

use super::device::Device;
use super::phases::Phases;
use anyhow::Result;
use std::time::Duration;
use wire::work::WorkReport;

/// What is written at the start of the memory.
const NUMBERS: usize = 1_024;
/// The least that can be held: what is written must fit.
pub(crate) const BYTES_MIN: u64 = (NUMBERS * size_of::<f32>()) as u64;

/// What to hold.
pub(crate) struct Hold {
    pub(crate) bytes: u64,
    /// Managed memory, which cannot be swapped out.
    pub(crate) managed: bool,
    pub(crate) span: Duration,
}

impl Hold {
    /// As little as can be held, for so long.
    pub(crate) fn least(span: Duration) -> Self {
        Self { bytes: BYTES_MIN, managed: false, span }
    }
}

/// Holds so much memory for so long.
pub(crate) fn run(device: Device, mut phases: Phases, hold: &Hold) -> Result<WorkReport> {
    let memory =
        if hold.managed { device.allocate_managed(hold.bytes)? } else { device.allocate(hold.bytes)? };
    phases.allocated();
    let written: Vec<f32> = (0..NUMBERS).map(|number| number as f32).collect();
    device.copy_in(memory, 0, &written)?;
    phases.input();
    std::thread::sleep(hold.span);
    phases.kernel();
    let mut read = vec![0.0; NUMBERS];
    device.copy_out(&mut read, memory, 0)?;
    phases.output();
    device.free(memory)?;
    device.close()?;
    Ok(phases.end(read == written))
}
