//! `leeway bench launches`: what being watched costs a program that launches as fast as it can.
//!
//! The same program without an agent, alone with one, and beside another program that may be held, so that its launches are probed. One
//! after another, round by round and every other round backwards, so that whatever else the machine does meets all three alike; they are
//! compared within each round, and the median of that counts.

use super::cgroup::Cgroup;
use super::figures::{Spread, round};
use super::report::{Output, Report, Table};
use super::{Interruption, progress_bar};
use crate::failure::Failure;
use crate::stage::{Player, Stage, Tier, wait_for};
use anyhow::{Context, Result};
use serde_json::{Value, json};
use std::path::PathBuf;
use std::process::Stdio;
use wire::agent::TaskLine;
use wire::client;

/// Memory of the simulated GPU.
const MEMORY: &str = "80GiB";
/// How many launches are queued before the program waits for them.
const DEPTH: &str = "1000";
/// Before its first launch the program waits, so that its probes are there: they take a tenth of a second.
const AFTER: &str = "700ms";
/// The kernels that are not empty.
const KERNEL_US: u64 = 20;
/// Of them there are that many times fewer: each takes longer.
const FEWER: u64 = 4;
/// The labels of both programs. No deadline that matters: all that counts is that they may be held.
const LABELS: [(&str, &str); 1] = [("leeway.deadline", "12h")];
/// What runs beside it: hardly anything, but it launches, so that it is known to be idle in between.
const BESIDE: [&str; 7] = ["serve", "--requests", "1000000", "--kernel-us", "1", "--every", "200ms"];

/// Measure what launches cost without an agent, alone with one, and while sharing the GPU
#[derive(clap::Args)]
pub(super) struct Launches {
    /// How many empty kernels a run launches; of 20 µs a quarter as many
    #[arg(long = "launches", value_name = "N", default_value_t = 200_000, value_parser = clap::value_parser!(u64).range(1000..))]
    count: u64,
    /// How many runs of each kind; their median counts
    #[arg(long, value_name = "N", default_value_t = 9, value_parser = clap::value_parser!(u64).range(1..=1000))]
    rounds: u64,
    /// The folder of the driver's libraries; without it, a simulated GPU is started
    #[arg(long, value_name = "DIR")]
    driver: Option<PathBuf>,
    #[command(flatten)]
    output: Output,
}

/// Who is there besides the program.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Beside {
    Nobody,
    Agent,
    AgentAndAnother,
}

const KINDS: [Beside; 3] = [Beside::Nobody, Beside::Agent, Beside::AgentAndAnother];

impl Launches {
    pub(super) fn run(self) -> Result<()> {
        self.output.prepare()?;
        let interruption = Interruption::expect()?;
        let mut stage = Stage::set(self.driver.as_deref(), MEMORY, 5, Tier::Probes)?;
        let node = stage.node().ok_or_else(|| Failure::new("the agent went away"))?;
        let bar = progress_bar(self.rounds * 2 * KINDS.len() as u64);
        let heading =
            ["KERNELS", "LAUNCHES", "WITHOUT", "ALONE", "SHARING", "ALONE TO WITHOUT", "SHARING MORE"];
        let mut table = Table::new(
            "microseconds per launch: without an agent, alone with one, sharing the GPU",
            &heading,
        );
        for kernel_us in [0, KERNEL_US] {
            let count = if kernel_us == 0 { self.count } else { self.count / FEWER };
            let mut taken = [const { Vec::new() }; KINDS.len()];
            for round in 0..self.rounds {
                for place in 0..KINDS.len() {
                    let kind = if round % 2 == 0 { place } else { KINDS.len() - 1 - place };
                    let each_us = one(&mut stage, KINDS[kind], kernel_us, count);
                    interruption.check()?;
                    taken[kind].push(each_us?);
                    bar.inc(1);
                }
            }
            compare(&mut table, kernel_us, count, taken);
        }
        bar.finish_and_clear();
        let mut report = Report::new("launches", &node);
        report.table(table);
        self.output.show(&report)
    }
}

/// One run: microseconds per launch, by the program's own clock.
fn one(stage: &mut Stage, kind: Beside, kernel_us: u64, count: u64) -> Result<f64> {
    let (own, others) = (Cgroup::new("launches", &LABELS)?, Cgroup::new("beside", &LABELS)?);
    if kind == Beside::Nobody {
        stage.leave_agent();
    } else if stage.agent_pid().is_err() {
        stage.enter_agent()?;
    }
    let another = match kind {
        Beside::AgentAndAnother => {
            let another = Player::start(&mut others.inside(&stage.work(&BESIDE)?))?;
            wait_for("a program on the GPU", || tasks(stage) > 0)?;
            Some(another)
        }
        Beside::Nobody | Beside::Agent => None,
    };
    let (kernel, number) = (kernel_us.to_string(), count.to_string());
    let words =
        ["batch", "--json", "--kernel-us", &kernel, "--count", &number, "--depth", DEPTH, "--after", AFTER];
    let child = own.inside(&stage.work(&words)?).stdout(Stdio::piped()).spawn();
    let printed = child.and_then(|child| child.wait_with_output()).context("could not run a CUDA program")?;
    let printed: Value = serde_json::from_slice(&printed.stdout).context("a CUDA program failed")?;
    drop(another);
    if kind != Beside::Nobody {
        wait_for("an empty GPU", || tasks(stage) == 0)?;
    }
    let time = |phase: &str| printed[phase].as_f64().unwrap_or_default();
    Ok((time("kernel") - time("input")) * 1e6 / count as f64)
}

/// How many tasks run.
fn tasks(stage: &Stage) -> usize {
    let tasks: Vec<TaskLine> = client::get(&stage.socket(), "/v1/tasks").unwrap_or_default();
    tasks.iter().filter(|task| task.end.is_none()).count()
}

fn compare(table: &mut Table, kernel_us: u64, count: u64, taken: [Vec<f64>; 3]) {
    let case = if kernel_us == 0 { "empty kernels".to_owned() } else { format!("kernels of {kernel_us} us") };
    let within_rounds = |kind: usize, compare: fn(f64, f64) -> f64| {
        Spread::of(taken[kind].iter().zip(&taken[0]).map(|(with, without)| compare(*with, *without)))
    };
    let ratio: fn(f64, f64) -> f64 = |with, without| with / without;
    let alone_ratio = within_rounds(1, ratio);
    let shared_ratio = within_rounds(2, ratio);
    let more = within_rounds(2, |with, without| with - without);
    let [without, alone, shared] = taken.map(Spread::of);
    let figures = json!({
        "case": case,
        "launches": count,
        "without_agent_us": round(without.median),
        "alone_us": round(alone.median),
        "alone_ratio": round(alone_ratio.median),
        "shared_us": round(shared.median),
        "shared_ratio": round(shared_ratio.median),
        "shared_more_us": round(more.median),
    });
    let spreads = [without, alone, shared, alone_ratio, more].map(|spread| spread.to_string());
    let [without, alone, shared, alone_ratio, more] = spreads;
    table.row(figures, [case, count.to_string(), without, alone, shared, alone_ratio, more]);
}
