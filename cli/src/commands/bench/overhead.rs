//! `leeway bench overhead`: what the agent takes, and what it takes from the tasks, while containers multiply matrices all the time.
//!
//! Paper 000, Figures 9 and 10: ten containers, each of which runs one program after another that multiplies two 5,120² matrices. Without an
//! agent, with one that only watches (by polling, by probes), and with one that also orders the tasks. Each is compared with what there was
//! without an agent in the same round, on the same stage: whatever else the machine does changes from minute to minute.

mod loops;
mod shown;

use super::cgroup::Cgroup;
use super::cost::{Looks, Meter};
use super::report::{Output, Report};
use super::troupe::{empty, set_policy};
use super::{Interruption, Progress};
use crate::failure::Failure;
use crate::stage::{Stage, Tier};
use anyhow::Result;
use loops::{Counted, Loops};
use std::path::PathBuf;
use std::time::Duration;

/// Memory of the simulated GPU.
const MEMORY: &str = "140GiB";
/// A deadline that no task misses: it makes the agent order them, where it orders any.
const LABEL: (&str, &str) = ("leeway.deadline", "5m");
/// How long the containers run before anything is counted, at least.
const WARM: Duration = Duration::from_secs(2);

/// Measure what the agent takes, and its effect on tasks that run all the time
#[derive(clap::Args)]
pub(super) struct Overhead {
    /// How many containers
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=100))]
    containers: u64,
    /// Rows and columns of the matrices
    #[arg(long, value_name = "N", default_value_t = 5_120, value_parser = clap::value_parser!(u32).range(16..=100_000))]
    n: u32,
    /// For how long each is measured
    #[arg(long = "for", value_name = "D", default_value = "8s", value_parser = wire::duration::parse)]
    span: Duration,
    /// How often each is measured; the median counts
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100))]
    rounds: u32,
    /// The folder of the driver's libraries; without it, a simulated GPU is started
    #[arg(long, value_name = "DIR")]
    driver: Option<PathBuf>,
    #[command(flatten)]
    output: Output,
}

/// Who watches.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Watch {
    /// On the stage of those who watch in this way, which are compared with it.
    Nobody(Tier),
    Agent(Tier, &'static str),
}

impl Watch {
    fn name(self) -> String {
        match self {
            Watch::Nobody(tier) => format!("no agent, beside {}", tier.name()),
            Watch::Agent(tier, policy) => format!("{}, {policy}", tier.name()),
        }
    }

    fn is_nobody(self) -> bool {
        matches!(self, Watch::Nobody(_))
    }
}

/// What one measurement gave.
struct Taken {
    tasks: Counted,
    /// What the agent used meanwhile, where there was one.
    agent: Option<Used>,
}

/// What the agent used.
struct Used {
    cpu_ratio: f64,
    rss_bytes: f64,
    looks: Looks,
}

impl Used {
    fn by(meter: &Meter) -> Result<Self> {
        let (cpu_ratio, rss_bytes) = (meter.cpu_ratio()?, meter.rss_bytes()? as f64);
        Ok(Self { cpu_ratio, rss_bytes, looks: meter.looks()? })
    }
}

impl Taken {
    /// A figure of the agent's; no number where there was none.
    fn agents(&self, of: fn(&Used) -> f64) -> f64 {
        self.agent.as_ref().map_or(f64::NAN, of)
    }
}

impl Overhead {
    pub(super) fn run(self) -> Result<()> {
        self.output.prepare()?;
        let interruption = Interruption::expect()?;
        let ways: [(Tier, &[Watch]); 2] = [
            (Tier::Polling, &[Watch::Nobody(Tier::Polling), Watch::Agent(Tier::Polling, "none")]),
            (
                Tier::Probes,
                &[
                    Watch::Nobody(Tier::Probes),
                    Watch::Agent(Tier::Probes, "none"),
                    Watch::Agent(Tier::Probes, "least-slack"),
                ],
            ),
        ];
        let each = (self.span + WARM).as_secs_f64();
        let runs: usize = ways.iter().map(|(_, watches)| watches.len()).sum();
        let progress = Progress::new(each * runs as f64 * f64::from(self.rounds));
        let (mut node, mut all) = (None, Vec::new());
        for (tier, watches) in ways {
            let mut stage = match Stage::set(self.driver.as_deref(), MEMORY, 5, Some(tier)) {
                Ok(stage) => stage,
                Err(error) if tier == Tier::Probes => {
                    eprintln!("notice: agents with probes are left out: {error:#}");
                    progress.done(each * watches.len() as f64 * f64::from(self.rounds));
                    continue;
                }
                Err(error) => return Err(error),
            };
            node = node.or(stage.node());
            let mut taken: Vec<Vec<Taken>> = watches.iter().map(|_| Vec::new()).collect();
            // Every other round goes back, as what else the machine does may grow or shrink meanwhile.
            let mut order: Vec<usize> = (0..watches.len()).collect();
            for _ in 0..self.rounds {
                for at in &order {
                    progress.now(&watches[*at].name());
                    taken[*at].push(self.one(&mut stage, watches[*at], &interruption)?);
                    progress.done(each);
                }
                order.reverse();
            }
            all.push(watches.iter().copied().zip(taken).collect::<Vec<_>>());
        }
        progress.end();
        let mut report = Report::new("overhead", &node.ok_or_else(|| Failure::new("the agent went away"))?);
        self.shown(&mut report, &all);
        self.output.show(&report)
    }

    /// All containers, for a while.
    fn one(&self, stage: &mut Stage, watch: Watch, interruption: &Interruption) -> Result<Taken> {
        match watch {
            Watch::Nobody(_) => stage.leave_agent(),
            Watch::Agent(_, policy) => {
                if stage.agent_pid().is_err() {
                    stage.enter_agent()?;
                }
                set_policy(stage, policy)?;
            }
        }
        let cgroup = |number: u64| Cgroup::new(&format!("loop{number}"), &[LABEL]);
        let cgroups = (0..self.containers).map(cgroup).collect::<Result<Vec<Cgroup>>>()?;
        let (tasks, agent) = Loops::during(stage, &cgroups, self.n, interruption, |loops| {
            interruption.sleep(WARM)?;
            loops.warm()?;
            let meter = if watch.is_nobody() { None } else { Some(Meter::start(stage)?) };
            let from = loops.now();
            interruption.sleep(self.span)?;
            let span = from..loops.now();
            let agent = meter.map(|meter| Used::by(&meter)).transpose()?;
            Ok((loops.counted(&span)?, agent))
        })?;
        if !watch.is_nobody() {
            empty(stage, interruption)?;
        }
        Ok(Taken { tasks, agent })
    }
}
