//! `leeway work fork`: a program that forks, as those do whose data is loaded by processes of their own.
//!
//! Before it calls the driver, both halves may use the GPU; after that only the parent may, and the child inherits open
//! files of the driver that it never uses.
#![allow(unsafe_code, reason = "forking is a call of the C library")]

use super::device::Device;
use super::hold;
use super::phases::Phases;
use anyhow::{Context, Result};
use std::time::Duration;
use wire::work::WorkReport;

/// When a program forks.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum When {
    /// Before the driver is initialised: parent and child use the GPU
    Before,
    /// After: the child does not use the GPU
    After,
}

/// How long parent and child stay.
#[derive(Clone, Copy)]
pub(crate) struct Stay {
    pub(crate) parent: Duration,
    pub(crate) child: Duration,
}

// SAFETY: both are declared as the C library has them, and take nothing that could be wrong. What a fork may break, locks that
// other threads hold, is for its caller to mind.
unsafe extern "C" {
    safe fn fork() -> i32;
    safe fn _exit(code: i32) -> !;
}

/// Returns in each process that used the GPU, with what it did there. Nobody waits for the other.
pub(crate) fn run(
    open: impl FnOnce() -> Result<(Device, Phases)>,
    when: When,
    stay: Stay,
) -> Result<WorkReport> {
    if when == When::Before {
        let span = if is_child()? { stay.child } else { stay.parent };
        let (device, phases) = open()?;
        return hold::run(device, phases, &hold::Hold::least(span));
    }
    let (device, phases) = open()?;
    if is_child()? {
        std::thread::sleep(stay.child);
        // The driver's own tidying up at exit belongs to the parent.
        _exit(0);
    }
    hold::run(device, phases, &hold::Hold::least(stay.parent))
}

/// Forks; whether this is the child. The caller has no threads of its own, so nobody holds a lock that the child needs.
fn is_child() -> Result<bool> {
    match fork() {
        0 => Ok(true),
        child if child > 0 => Ok(false),
        _ => Err(std::io::Error::last_os_error()).context("could not fork"),
    }
}
