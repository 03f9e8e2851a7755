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
mod interruption;
mod latency;
mod launches;
mod nodelist;
mod overhead;
mod program;
mod progress;
mod recording;
mod report;
mod requests;
mod stop;
mod swap;
mod troupe;

use anyhow::Result;
use interruption::Interruption;
use progress::{Progress, progress_bar};

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
