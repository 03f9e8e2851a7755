//! `leeway bench latency`: how long a request waits beside batches that keep the GPU full.
//!
//! A server with a deadline has one kernel of ten milliseconds to run ten times a second. It runs alone, beside two batches that the GPU's own
//! time slicing shares it with (no agent runs), and beside the same two with an agent. What that costs the batches is compared, too. Round by
//! round everything is run once, every other round in the opposite order, and compared with what the same round gave. Alone the server runs
//! before all else and after it, and both count together: whatever else the machine does may grow or shrink meanwhile.
//!
//! A request's time begins when it is due to arrive, whatever the server does then: one that waits behind a slow one is slow, too.

mod shown;

use super::cgroup::Cgroup;
use super::program::Program;
use super::report::Output;
use super::{Interruption, Progress};
use crate::commands::tasks::quantile;
use crate::failure::Failure;
use crate::stage::{Folder, Setting, Stage, Tier};
use anyhow::Result;
use serde_json::Value;
use std::path::PathBuf;
use std::time::Duration;

/// Memory of the simulated GPU.
const MEMORY: &str = "80GiB";
/// How many batches there are.
const NEIGHBOURS: usize = 2;
/// How long each request's kernel takes.
const REQUEST_US: &str = "10000";
/// How often one arrives.
const EVERY: Duration = Duration::from_millis(100);
/// How long the batches are alone with each other before the first arrives: a program takes a while to come up.
const FIRST_AFTER: Duration = Duration::from_secs(2);
/// How long the batches go on after the last has arrived: the server starts after them, and no request is to be alone.
const LAST_BEFORE: Duration = Duration::from_secs(1);
/// How many requests are not counted: while the first are served, the agent learns what the neighbours' kernels take.
const WARM: usize = 10;
/// What a run takes besides: for the progress bar only.
const COMING_AND_GOING: Duration = Duration::from_millis(500);
/// The longest kernel, and the most kernels queued ahead: more than this no batch has, and no run ends.
const KERNEL_US_MAX: u64 = 10_000_000;
const DEPTH_MAX: u64 = 100_000;

/// Measure a request's time beside batches, and what that costs them
#[derive(clap::Args)]
pub(super) struct Latency {
    /// How long the batches' kernels take, in microseconds, and how many each queues ahead; may be given several times
    #[arg(long = "case", value_name = "US:DEPTH", value_parser = Case::parse, default_values = ["5000:1", "5000:8", "5000:64", "100:1000"])]
    cases: Vec<Case>,
    /// Each request's deadline: with much time to spare the policy has no reason to make anybody wait
    #[arg(long, value_name = "D", default_value = "20ms", value_parser = wire::duration::parse)]
    deadline: Duration,
    /// Give the batches a deadline of their own; without it they have none
    #[arg(long, value_name = "D", value_parser = wire::duration::parse)]
    batch_deadline: Option<Duration>,
    /// How many requests arrive; the first ten are not counted
    #[arg(long, value_name = "N", default_value_t = 200, value_parser = clap::value_parser!(u32).range(20..=100_000))]
    requests: u32,
    /// How often each is run; the median counts
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: u32,
    /// The folder of the driver's libraries; without it, a simulated GPU is started
    #[arg(long, value_name = "DIR")]
    driver: Option<PathBuf>,
    #[command(flatten)]
    output: Output,
}

/// What the neighbours do.
#[derive(Clone, Copy)]
struct Case {
    kernel_us: u64,
    depth: u64,
}

impl Case {
    fn parse(text: &str) -> Result<Self, String> {
        let number = |text: &str, most| text.parse().ok().filter(|number| (1..=most).contains(number));
        let parts = text
            .split_once(':')
            .and_then(|(us, depth)| Some((number(us, KERNEL_US_MAX)?, number(depth, DEPTH_MAX)?)));
        let (kernel_us, depth) = parts.ok_or_else(|| {
            format!("accepted are two positive numbers, as in 5000:8, up to {KERNEL_US_MAX}:{DEPTH_MAX}")
        })?;
        Ok(Self { kernel_us, depth })
    }
}

/// What one run gave.
struct Outcome {
    /// What each request took that counts, in milliseconds, from the shortest.
    times: Vec<f64>,
    /// The longest of those that do not count.
    warm_most: f64,
    /// Kernels of all neighbours together, each second.
    throughput: f64,
}

impl Outcome {
    fn at(&self, percent: usize) -> f64 {
        quantile(&self.times, percent).unwrap_or(f64::NAN)
    }

    /// Two runs of the server alone as one: no batches ran.
    fn with(mut self, other: Self) -> Self {
        self.times.extend(other.times);
        self.times.sort_by(f64::total_cmp);
        Self { warm_most: self.warm_most.max(other.warm_most), ..self }
    }
}

/// What one round gave: the server alone, and for each case shared by time slicing and by an agent.
struct Round {
    alone: Outcome,
    cases: Vec<(Outcome, Outcome)>,
}

impl Latency {
    pub(super) fn run(self) -> Result<()> {
        self.output.prepare()?;
        let interruption = Interruption::expect()?;
        let setting = Setting {
            driver: self.driver.as_deref(),
            memory: MEMORY,
            listed_after_ms: 0,
            poll_ms: 5,
            policy: "least-slack",
            run_dir: None,
            tier: Some(Tier::Probes),
            http: None,
        };
        let mut stage = Stage::set_in(Folder::new("leeway")?, &setting)?;
        let node = stage.node().ok_or_else(|| Failure::new("the agent went away"))?;
        let each = (self.span() + LAST_BEFORE + COMING_AND_GOING).as_secs_f64();
        let progress = Progress::new(each * f64::from(self.rounds) * (2 + 2 * self.cases.len()) as f64);
        let mut rounds = Vec::new();
        for number in 0..self.rounds {
            let perform = |what: &str, managed: bool, case| -> Result<Outcome> {
                progress.now(what);
                if managed {
                    stage.enter_agent()?;
                } else {
                    stage.leave_agent();
                }
                let outcome = self.perform(&mut stage, case, &interruption)?;
                stage.check_agent()?;
                progress.done(each);
                Ok(outcome)
            };
            rounds.push(self.round(number % 2 == 1, perform)?);
        }
        progress.end();
        drop(stage);
        self.output.show(&self.shown(&node, &rounds))
    }

    /// Everything once, the cases from the first to the last or backwards. `perform` is told what it is, whether there is an agent, and beside what.
    fn round(
        &self,
        backwards: bool,
        mut perform: impl FnMut(&str, bool, Option<Case>) -> Result<Outcome>,
    ) -> Result<Round> {
        let before = perform("alone", false, None)?;
        let mut order: Vec<usize> = (0..self.cases.len()).collect();
        if backwards {
            order.reverse();
        }
        let mut cases = Vec::new();
        for number in order {
            let case = self.cases[number];
            let beside = format!("beside {} us, {} deep", case.kernel_us, case.depth);
            let slicing = format!("{beside}, time slicing");
            cases.push(if backwards {
                let managed = perform(&beside, true, Some(case))?;
                (perform(&slicing, false, Some(case))?, managed)
            } else {
                let sliced = perform(&slicing, false, Some(case))?;
                (sliced, perform(&beside, true, Some(case))?)
            });
        }
        if backwards {
            cases.reverse();
        }
        Ok(Round { alone: before.with(perform("alone again", false, None)?), cases })
    }

    /// From the start of a run until the last request has arrived.
    fn span(&self) -> Duration {
        FIRST_AFTER + EVERY * self.requests
    }

    /// One run: the server, and its neighbours if it has any.
    fn perform(&self, stage: &mut Stage, case: Option<Case>, interruption: &Interruption) -> Result<Outcome> {
        let deadline = millis(self.deadline);
        let server = Cgroup::new("server", &[("leeway.deadline", &deadline), ("leeway.task", "burst")])?;
        let batch_deadline = self.batch_deadline.map(millis);
        let label = batch_deadline.as_deref().map_or(("leeway.manage", "true"), |d| ("leeway.deadline", d));
        let count = if case.is_some() { NEIGHBOURS } else { 0 };
        let cgroup = |number| Cgroup::new(&format!("batch{number}"), &[label]);
        let cgroups = (0..count).map(cgroup).collect::<Result<Vec<Cgroup>>>()?;
        let mut programs = Vec::new();
        let started = self.start(stage, &server, case.zip(Some(cgroups.as_slice())), &mut programs);
        let reports =
            started.and_then(|()| programs.iter_mut().map(|program| program.report(interruption)).collect());
        let reports: Vec<Value> = interruption.or_let_go(stage, reports)?;
        let batches = &reports[..count];
        let kernels = |batch: &Value| batch["kernels_per_second"].as_f64().unwrap_or_default();
        let throughput = batches.iter().map(kernels).sum();
        let served = reports.last().and_then(|report| report["requests"].as_array());
        let served = served.ok_or_else(|| Failure::new("a server served nobody"))?;
        let took = |request: &Value| Some((request["end"].as_f64()? - request["arrived"].as_f64()?) * 1e3);
        let warm_most = served.iter().take(WARM).filter_map(took).fold(0.0, f64::max);
        let mut times: Vec<f64> = served.iter().skip(WARM).filter_map(took).collect();
        times.sort_by(f64::total_cmp);
        Ok(Outcome { times, warm_most, throughput })
    }

    /// The batches, then the server, each in its cgroup.
    fn start(
        &self,
        stage: &Stage,
        server: &Cgroup,
        batches: Option<(Case, &[Cgroup])>,
        programs: &mut Vec<Program>,
    ) -> Result<()> {
        if let Some((Case { kernel_us, depth }, cgroups)) = batches {
            let (kernel, depth, span) =
                (kernel_us.to_string(), depth.to_string(), millis(self.span() + LAST_BEFORE));
            let words = ["batch", "--json", "--kernel-us", &kernel, "--depth", &depth, "--for", &span];
            for cgroup in cgroups {
                programs.push(Program::start(stage, cgroup, &words)?);
            }
        }
        let (every, after, requests) = (millis(EVERY), millis(FIRST_AFTER), self.requests.to_string());
        let words = ["serve", "--json", "--kernel-us", REQUEST_US, "--every", &every];
        let words = [words.as_slice(), &["--after", &after, "--requests", &requests]].concat();
        programs.push(Program::start(stage, server, &words)?);
        Ok(())
    }
}

fn millis(span: Duration) -> String {
    format!("{}ms", span.as_millis())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        latency: Latency,
    }

    #[test]
    fn every_other_round_goes_back_between_two_runs_alone() {
        let Line { latency } = Line::parse_from(["bench", "--case", "5000:1", "--case", "100:1000"]);
        let round = |backwards| {
            let mut told = Vec::new();
            let round = latency.round(backwards, |what, _, _| {
                told.push(what.to_owned());
                Ok(Outcome { times: vec![told.len() as f64], warm_most: 1.0, throughput: 0.0 })
            });
            (told, round.unwrap())
        };
        let (there, first) = round(false);
        let (mut back, second) = round(true);
        assert_eq!(there.len(), 6);
        assert_eq!(there[1..3], ["beside 5000 us, 1 deep, time slicing", "beside 5000 us, 1 deep"]);
        assert_eq!([&first, &second].map(|round| round.alone.times.clone()), [[1.0, 6.0], [1.0, 6.0]]);
        assert_eq!(
            [&first, &second].map(|round| round.cases[0].0.times.clone()),
            [[2.0], [5.0]],
            "time sliced"
        );
        back[1..5].reverse();
        assert_eq!(back, there);
    }

    #[test]
    fn a_case_is_two_positive_numbers() {
        assert!(Case::parse("5000:8").is_ok_and(|case| case.kernel_us == 5000 && case.depth == 8));
        for wrong in ["", "5000", "0:8", "5000:0", "5000:-1", "99999999999:1", "1:100001"] {
            assert!(Case::parse(wrong).is_err_and(|why| why.contains("as in 5000:8")), "{wrong}");
        }
    }
}
