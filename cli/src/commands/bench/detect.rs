//! `leeway bench detect`: how far the agent's starts and ends are from the truth, and what it costs to run.
//!
//! The truth: a program writes down when it first calls the driver, and its parent (we) sees when it exits. The programs are our own children,
//! because only a parent knows the exit exactly; each is in a labelled cgroup of its own, which is a container to the agent.

mod errors;
mod shown;

use super::cost;
use super::report::Output;
use super::{Interruption, Progress};
use crate::failure::Failure;
use crate::stage::{Stage, Tier};
use anyhow::Result;
use errors::{QUIET, after_quiet, measured};
use shown::Found;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

pub(super) use errors::{Errors, Measured, load, now_us, us};

/// Memory of the simulated GPU: room for the contexts of a thousand programs.
const MEMORY: &str = "1000GiB";
/// What a program, a server's request, and the coming and going of a container take, in seconds, roughly: for the progress bar only.
const PROGRAM_S: f64 = 0.4;
const REQUEST_S: f64 = 0.02;
const CONTAINER_S: f64 = 0.03;

/// Measure how exactly tasks are seen, and what that costs
#[derive(clap::Args)]
pub(super) struct Detect {
    /// How tasks are seen, one way after another; all that this machine can, if not given
    #[arg(long = "tier", value_enum, value_name = "TIER,…", value_delimiter = ',')]
    tiers: Vec<Tier>,
    /// How many tasks to measure; 0: none
    #[arg(long, value_name = "N", default_value_t = 200, value_parser = clap::value_parser!(u32).range(..=100_000))]
    tasks: u32,
    /// How many requests of a server to measure, where requests are seen: with probes; 0: none
    #[arg(long, value_name = "N", default_value_t = 200, value_parser = clap::value_parser!(u32).range(..=100_000))]
    requests: u32,
    /// How many tasks at a time
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=1000))]
    at_once: u32,
    /// How many tasks to measure that start alone, each after a quiet second; 0: none
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(..=10_000))]
    lone: u32,
    /// With how many containers on the GPU to measure the agent's cost
    #[arg(long, value_name = "N,…", value_delimiter = ',', default_value = "10", value_parser = clap::value_parser!(u32).range(..=1000))]
    containers: Vec<u32>,
    /// How often each is measured; the median counts
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: u32,
    /// Plain cgroups instead of Docker's containers, also where Docker answers
    #[arg(long)]
    plain: bool,
    /// For how long to measure the cost
    #[arg(long, value_name = "D", default_value = "10s", value_parser = wire::duration::parse)]
    cost_for: Duration,
    /// Milliseconds between two looks at the GPU
    #[arg(long, value_name = "MS", default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=1000))]
    poll_ms: u64,
    /// The folder of the driver's libraries; without it, a simulated GPU is started
    #[arg(long, value_name = "DIR")]
    driver: Option<PathBuf>,
    #[command(flatten)]
    output: Output,
}

impl Detect {
    pub(super) fn run(self) -> Result<()> {
        self.output.prepare()?;
        let interruption = Interruption::expect()?;
        let tiers = if self.tiers.is_empty() { self.possible()? } else { self.tiers.clone() };
        let about = tiers.iter().flat_map(|tier| self.plan(*tier)).map(|(_, seconds)| seconds);
        let progress = Progress::new(about.sum::<f64>() * f64::from(self.rounds));
        let (mut found, mut node) = (Found::default(), None);
        for tier in &tiers {
            let mut stage = Stage::set(self.driver.as_deref(), MEMORY, self.poll_ms, Some(*tier))?;
            node = stage.node();
            for _ in 0..self.rounds {
                for (what, seconds) in self.plan(*tier) {
                    progress.now(&format!("{what}, {}", tier.name()));
                    let measured = self.measure(&stage, *tier, what, &mut found, &interruption);
                    // Ctrl-C ends our programs, too, and that is no failure of theirs.
                    interruption.check()?;
                    measured?;
                    stage.check_agent()?;
                    progress.done(seconds);
                }
            }
        }
        if found.others.is_empty() {
            found.others.push(cost::of_spawning(None));
        }
        progress.end();
        let node = node.ok_or_else(|| Failure::new("the agent went away"))?;
        self.output.show(&found.report(&node, self.rounds as usize))
    }

    /// The ways of seeing that this machine can: an agent that may choose takes the best.
    fn possible(&self) -> Result<Vec<Tier>> {
        let driver = self.driver.as_deref();
        let stage = Stage::set(driver, MEMORY, self.poll_ms, None)?;
        let best = stage.node().map(|node| node.tier);
        let probes = (best.as_deref() == Some(Tier::Probes.name())).then_some(Tier::Probes);
        Ok([Tier::Polling].into_iter().chain(probes).collect())
    }

    /// What is measured in one way of seeing, and about how many seconds each takes.
    fn plan(&self, tier: Tier) -> Vec<(What, f64)> {
        let mut plan = Vec::new();
        if self.tasks > 0 {
            plan.push((What::Tasks, f64::from(self.tasks) / f64::from(self.at_once) * PROGRAM_S));
        }
        if self.lone > 0 {
            plan.push((What::Lone, f64::from(self.lone) * (QUIET.as_secs_f64() + PROGRAM_S)));
        }
        if self.requests > 0 && tier == Tier::Probes {
            plan.push((What::Requests, f64::from(self.requests) * REQUEST_S + PROGRAM_S));
        }
        let cost = |containers: &u32| {
            let coming = f64::from(*containers) * CONTAINER_S;
            (
                What::Cost(*containers),
                self.cost_for.as_secs_f64() + cost::SETTLED_AFTER.as_secs_f64() + coming,
            )
        };
        plan.extend(self.containers.iter().map(cost));
        plan
    }

    fn measure(
        &self,
        stage: &Stage,
        tier: Tier,
        what: What,
        found: &mut Found,
        interruption: &Interruption,
    ) -> Result<()> {
        match what {
            What::Tasks => {
                let tasks = || self.perform(stage, interruption);
                found.errors.push(measured("errors", tier, stage, tasks)?);
            }
            What::Lone => {
                let alone = || {
                    (0..self.lone as usize).map(|number| after_quiet(stage, number, interruption)).collect()
                };
                found.errors.push(measured("errors of tasks that start alone", tier, stage, alone)?);
            }
            What::Requests => {
                found.errors.push(super::requests::errors(stage, self.requests, interruption)?);
            }
            What::Cost(containers) => {
                // What other programs would take is measured once, for ten.
                let known = found.others.iter().any(|result| !result["docker_top_ms"].is_null());
                let (during, containers) = (self.cost_for, containers as usize);
                let costs = cost::of_agent(stage, tier, containers, self.plain, during, interruption)?;
                let mut costs = costs.into_iter();
                found.costs.extend(costs.next());
                found.others.extend(costs.filter(|_| !known));
            }
        }
        Ok(())
    }
}

/// One thing that is measured.
#[derive(Clone, Copy)]
enum What {
    Tasks,
    Lone,
    Requests,
    /// Of the agent, with so many containers.
    Cost(u32),
}

impl fmt::Display for What {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            What::Tasks => f.write_str("tasks"),
            What::Lone => f.write_str("tasks that start alone"),
            What::Requests => f.write_str("requests"),
            What::Cost(containers) => write!(f, "the agent's cost with {containers} containers"),
        }
    }
}
