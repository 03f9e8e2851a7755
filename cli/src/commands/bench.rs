//! `leeway bench`: measurements that anybody can repeat.

mod agents;
mod cgroup;
mod contention;
mod cost;
mod crowd;
mod deadlines;
mod detect;
mod figures;
mod hold;
mod latency;
mod launches;
mod nodelist;
mod overhead;
mod recording;
mod report;
mod requests;
mod stop;
mod swap;
mod troupe;

use crate::failure::Failure;
use anyhow::{Context, Result};
use indicatif::{ProgressBar, ProgressStyle};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Measure Leeway on this machine
#[derive(clap::Args)]
pub struct Bench {
    #[command(subcommand)]
    which: Which,
}

#[derive(clap::Subcommand)]
enum Which {
    Agents(agents::Agents),
    Contention(contention::Contention),
    Deadlines(deadlines::Deadlines),
    Detect(detect::Detect),
    Hold(hold::Hold),
    Latency(latency::Latency),
    Launches(launches::Launches),
    Nodelist(nodelist::Nodelist),
    Overhead(overhead::Overhead),
    Swap(swap::Swap),
}

impl Bench {
    pub(crate) fn run(self) -> Result<()> {
        match self.which {
            Which::Agents(agents) => agents.run(),
            Which::Contention(contention) => contention.run(),
            Which::Deadlines(deadlines) => deadlines.run(),
            Which::Detect(detect) => detect.run(),
            Which::Hold(hold) => hold.run(),
            Which::Latency(latency) => latency.run(),
            Which::Launches(launches) => launches.run(),
            Which::Nodelist(nodelist) => nodelist.run(),
            Which::Overhead(overhead) => overhead.run(),
            Which::Swap(swap) => swap.run(),
        }
    }
}

/// Exit code of a program that Ctrl-C ended.
const INTERRUPTED: u8 = 130;

/// Ctrl-C, which is looked for between two runs, so that everything on the stage ends in good order.
struct Interruption(Arc<AtomicBool>);

impl Interruption {
    fn expect() -> Result<Self> {
        let seen = Arc::new(AtomicBool::new(false));
        // A terminal that is closed says SIGHUP, and so does the kernel to a group of processes whose last relative outside it ends while one
        // of them is stopped, as whoever is held is: it happened.
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            signal_hook::flag::register(signal, Arc::clone(&seen)).context("could not wait for Ctrl-C")?;
        }
        Ok(Self(seen))
    }

    /// An error, if it was seen.
    fn check(&self) -> Result<(), Failure> {
        if self.0.load(Ordering::Relaxed) {
            return Err(Failure::new("interrupted").exit(INTERRUPTED));
        }
        Ok(())
    }
}

/// On stderr, and only where somebody watches.
fn progress_bar(runs: u64) -> ProgressBar {
    let style = ProgressStyle::with_template("{wide_bar} {pos}/{len} runs, {eta} left")
        .unwrap_or_else(|_| ProgressStyle::default_bar());
    ProgressBar::new(runs).with_style(style)
}

/// A progress bar where runs take different times: it counts seconds that they are expected to take, so that what is left is about right.
struct Progress(ProgressBar);

impl Progress {
    fn new(seconds: f64) -> Self {
        let style = ProgressStyle::with_template("{wide_bar} {msg}, {eta} left")
            .unwrap_or_else(|_| ProgressStyle::default_bar());
        Self(ProgressBar::new((seconds * 1e3) as u64).with_style(style))
    }

    /// What is measured now.
    fn now(&self, what: &str) {
        self.0.set_message(what.to_owned());
    }

    /// What was expected to take so long is done.
    fn done(&self, seconds: f64) {
        self.0.inc((seconds * 1e3) as u64);
    }

    fn end(&self) {
        self.0.finish_and_clear();
    }
}
