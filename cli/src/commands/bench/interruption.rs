//! Ctrl-C, a plain `kill` and a closed terminal: a benchmark looks for them, so that everything on the stage ends in good order.

use crate::failure::Failure;
use crate::stage::{self, Stage};
use anyhow::{Context, Result};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Exit code of a program that Ctrl-C ended.
const INTERRUPTED: u8 = 130;
/// How often to look while we wait.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Whether one was seen.
pub(super) struct Interruption(Arc<AtomicBool>);

impl Interruption {
    pub(super) fn expect() -> Result<Self> {
        let seen = Arc::new(AtomicBool::new(false));
        // A terminal that is closed says SIGHUP, and so does the kernel to a group of processes whose last relative outside it ends while one
        // of them is stopped, as whoever is held is: it happened.
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            signal_hook::flag::register(signal, Arc::clone(&seen)).context("could not wait for Ctrl-C")?;
        }
        Ok(Self(seen))
    }

    /// An error, if it was seen.
    pub(super) fn check(&self) -> Result<(), Failure> {
        if self.0.load(Ordering::Relaxed) {
            return Err(Failure::new("interrupted").exit(INTERRUPTED));
        }
        Ok(())
    }

    /// Lets time pass, unless it is seen.
    pub(super) fn sleep(&self, span: Duration) -> Result<(), Failure> {
        let start = Instant::now();
        while start.elapsed() < span {
            self.check()?;
            std::thread::sleep(LOOK_EVERY.min(span.saturating_sub(start.elapsed())));
        }
        self.check()
    }

    /// Waits until something is so, unless it is seen.
    pub(super) fn wait_for(&self, what: &str, mut is_so: impl FnMut() -> bool) -> Result<(), Failure> {
        let waited = stage::wait_for(what, || self.check().is_err() || is_so());
        self.check()?;
        waited
    }

    /// What was measured, or that we were interrupted: Ctrl-C ends our programs, too, and then it is no failure of theirs. Where there is
    /// nothing, everybody is let go, because who is held cannot end.
    pub(super) fn or_let_go<T>(&self, stage: &mut Stage, measured: Result<T>) -> Result<T> {
        let measured = measured.and_then(|measured| self.check().map(|()| measured).map_err(Into::into));
        if measured.is_err() {
            stage.leave_agent();
            self.check()?;
        }
        measured
    }
}
