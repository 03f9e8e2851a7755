//! `leeway bench`: measurements that anybody can repeat.

mod agents;
mod cgroup;
mod cost;
mod crowd;
mod detect;
mod hold;
mod latency;
mod launches;
mod recording;
mod requests;
mod stop;
mod swap;

use crate::failure::Failure;
use anyhow::{Context, Result};
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::Value;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use wire::agent::NodeLine;
use wire::bench::{BenchMachine, BenchReport};

/// Measure Leeway on this machine
#[derive(clap::Args)]
pub struct Bench {
    #[command(subcommand)]
    which: Which,
}

#[derive(clap::Subcommand)]
enum Which {
    Agents(agents::Agents),
    Detect(detect::Detect),
    Hold(hold::Hold),
    Latency(latency::Latency),
    Launches(launches::Launches),
    Swap(swap::Swap),
}

impl Bench {
    pub(crate) fn run(self) -> Result<()> {
        match self.which {
            Which::Agents(agents) => agents.run(),
            Which::Detect(detect) => detect.run(),
            Which::Hold(hold) => hold.run(),
            Which::Latency(latency) => latency.run(),
            Which::Launches(launches) => launches.run(),
            Which::Swap(swap) => swap.run(),
        }
    }
}

/// The report of a benchmark on the first GPU of a machine.
fn report(benchmark: &str, node: &NodeLine, results: Vec<Value>) -> BenchReport {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let gpu = node.gpus.first().map(|gpu| gpu.name.clone()).unwrap_or_default();
    let simulated = gpu == ::gpu::NAME;
    let driver = std::fs::read_to_string("/sys/module/nvidia/version").ok();
    let driver = if simulated { Some(::gpu::DRIVER_VERSION.to_owned()) } else { driver };
    BenchReport {
        benchmark: benchmark.to_owned(),
        command: format!("leeway {}", words.join(" ")),
        machine: BenchMachine { gpu, driver: driver.map(|version| version.trim().to_owned()), simulated },
        results,
    }
}

/// On stdout: for programs, or for people.
fn print(report: &BenchReport, json: bool) -> Result<()> {
    let text = if json {
        serde_json::to_string(report).context("could not write the report as JSON")? + "\n"
    } else {
        detect::table(&report.machine.gpu, &report.results)
    };
    super::print_all(text.as_bytes())
}

/// Exit code of a program that Ctrl-C ended.
const INTERRUPTED: u8 = 130;

/// Ctrl-C, which is looked for between two runs, so that everything on the stage ends in good order.
struct Interruption(Arc<AtomicBool>);

impl Interruption {
    fn expect() -> Result<Self> {
        let seen = Arc::new(AtomicBool::new(false));
        for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
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
