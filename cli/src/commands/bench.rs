//! `leeway bench`: measurements that anybody can repeat.

mod agents;
mod cgroup;
mod cost;
mod crowd;
mod detect;
mod hold;
mod launches;
mod requests;

use anyhow::{Context, Result};
use serde_json::Value;
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
    Launches(launches::Launches),
}

impl Bench {
    pub(crate) fn run(self) -> Result<()> {
        match self.which {
            Which::Agents(agents) => agents.run(),
            Which::Detect(detect) => detect.run(),
            Which::Hold(hold) => hold.run(),
            Which::Launches(launches) => launches.run(),
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

fn in_json(report: &BenchReport) -> Result<String> {
    Ok(serde_json::to_string(report).context("could not write the report as JSON")? + "\n")
}
