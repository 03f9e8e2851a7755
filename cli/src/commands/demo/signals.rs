//! Ctrl-C, SIGTERM and the end of the terminal: the first is noted, so that things are put away; the second ends us at once.

use anyhow::{Context, Result};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// What has come so far.
pub(super) struct Signals(Arc<AtomicUsize>);

impl Signals {
    pub(super) fn catch() -> Result<Self> {
        let (which, again) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            // In this order: the first signal must not be taken for the second.
            signal_hook::flag::register_conditional_default(signal, Arc::clone(&again))
                .and_then(|_| signal_hook::flag::register(signal, Arc::clone(&again)))
                .and_then(|_| signal_hook::flag::register_usize(signal, Arc::clone(&which), signal as usize))
                .context("could not catch signals")?;
        }
        Ok(Self(which))
    }

    /// The signal that came, if one did.
    pub(super) fn came(&self) -> Option<u8> {
        Some(self.0.load(Ordering::Relaxed) as u8).filter(|signal| *signal != 0)
    }
}
