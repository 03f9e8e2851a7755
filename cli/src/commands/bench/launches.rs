//! `leeway bench launches`: what being watched costs a program that launches as fast as it can.
//!
//! The same program without an agent, alone with one, and beside another program that may be held, so that its launches are probed. In each
//! round it is one process that launches all three times; without an agent and alone in this order and the other in turn, so that whatever
//! else the machine does meets both alike; beside another last, because its probes stay for a while. A run of a second takes a tenth more
//! or less on a machine that is shared: what all runs take together is compared, and its error tells how much there is to see.

use super::cgroup::Cgroup;
use super::figures::{Spread, error_of_mean, mean, round};
use super::report::{Output, Report, Table};
use super::{Interruption, progress_bar};
use crate::failure::Failure;
use crate::stage::{Player, Stage, Tier, wait_for};
use anyhow::{Context, Result};
use serde_json::json;
use std::io::{BufRead, BufReader, Lines, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Stdio};
use std::time::Duration;
use wire::agent::TaskLine;
use wire::client;

/// Memory of the simulated GPU.
const MEMORY: &str = "80GiB";
/// How many launches are queued before the program waits for them.
const DEPTH: &str = "1000";
/// How long the program waits when somebody has come or gone, so that its probes have, too: they take a tenth of a second.
const SETTLED_AFTER: Duration = Duration::from_millis(700);
/// The kernels that are not empty.
const KERNEL_US: u64 = 20;
/// Of them there are that many times fewer, in that many times fewer rounds: each takes longer, and they differ less.
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
    /// How many runs of each kind. With kernels of 20 µs a quarter as many
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
        let fewer_rounds = self.rounds.div_ceil(FEWER);
        let bar = progress_bar((self.rounds + fewer_rounds) * KINDS.len() as u64);
        let heading =
            ["KERNELS", "LAUNCHES", "WITHOUT", "ALONE", "SHARING", "ALONE TO WITHOUT", "SHARING MORE"];
        let mut table = Table::new(
            "microseconds per launch: without an agent, alone with one, sharing the GPU",
            &heading,
        );
        for kernel_us in [0, KERNEL_US] {
            let (count, rounds) =
                if kernel_us == 0 { (self.count, self.rounds) } else { (self.count / FEWER, fewer_rounds) };
            let mut taken = [const { Vec::new() }; KINDS.len()];
            for round in 0..rounds {
                let kinds = if round % 2 == 0 { [0, 1, 2] } else { [1, 0, 2] };
                let program = Program::start(&stage, kernel_us, count);
                interruption.check()?;
                let mut program = program?;
                for kind in kinds {
                    let each_us = program.beside(&mut stage, KINDS[kind]);
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

/// A program that launches whenever it is told to.
struct Program {
    child: Child,
    lines: ChildStdin,
    taken: Lines<BufReader<ChildStdout>>,
    count: u64,
    /// Dropped last: nobody is in a cgroup that goes.
    _own: Cgroup,
}

impl Program {
    /// Starts it, and lets it launch once: the first time takes longer.
    fn start(stage: &Stage, kernel_us: u64, count: u64) -> Result<Self> {
        let own = Cgroup::new("launches", &LABELS)?;
        let (kernel, number) = (kernel_us.to_string(), count.to_string());
        let words = ["batch", "--each-line", "--kernel-us", &kernel, "--count", &number, "--depth", DEPTH];
        let mut command = own.inside(&stage.work(&words)?);
        let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut child = child.context("could not start a CUDA program")?;
        let (lines, taken) =
            child.stdin.take().zip(child.stdout.take()).context("a CUDA program has no pipes")?;
        let mut program = Self { child, lines, taken: BufReader::new(taken).lines(), count, _own: own };
        program.launch()?;
        Ok(program)
    }

    /// Microseconds per launch, by the program's own clock.
    fn beside(&mut self, stage: &mut Stage, kind: Beside) -> Result<f64> {
        if kind == Beside::Nobody {
            stage.leave_agent();
        } else if stage.agent_pid().is_err() {
            stage.enter_agent()?;
        }
        let others = Cgroup::new("beside", &LABELS)?;
        let another = match kind {
            Beside::AgentAndAnother => Some(Player::start(&mut others.inside(&stage.work(&BESIDE)?))?),
            Beside::Nobody | Beside::Agent => None,
        };
        let there = 1 + usize::from(another.is_some());
        if kind != Beside::Nobody {
            // Who interrupts us interrupts it, too: then there is nothing to wait for.
            wait_for("all programs on the GPU", || tasks(stage) == there || self.has_ended())?;
        }
        std::thread::sleep(SETTLED_AFTER);
        let each_us = self.launch();
        drop(another);
        if kind != Beside::Nobody {
            wait_for("the other program's end", || tasks(stage) <= 1)?;
        }
        each_us
    }

    fn has_ended(&mut self) -> bool {
        !matches!(self.child.try_wait(), Ok(None))
    }

    /// Lets it launch once.
    fn launch(&mut self) -> Result<f64> {
        self.lines.write_all(b"\n").context("could not tell a CUDA program to launch")?;
        let taken = self.taken.next().and_then(Result::ok).and_then(|line| line.parse::<f64>().ok());
        Ok(taken.context("a CUDA program failed")? * 1e6 / self.count as f64)
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// How many tasks run.
fn tasks(stage: &Stage) -> usize {
    let tasks: Vec<TaskLine> = client::get(&stage.socket(), "/v1/tasks").unwrap_or_default();
    tasks.iter().filter(|task| task.end.is_none()).count()
}

fn compare(table: &mut Table, kernel_us: u64, count: u64, taken: [Vec<f64>; 3]) {
    let case = if kernel_us == 0 { "empty kernels".to_owned() } else { format!("kernels of {kernel_us} us") };
    let more = |kind: usize| -> Vec<f64> {
        taken[kind].iter().zip(&taken[0]).map(|(with, without)| with - without).collect()
    };
    let base = mean(&taken[0]);
    // Of the totals, not the mean of the ratios: that is above 1 for two that differ by chance only.
    let ratio = |kind: usize| mean(&taken[kind]) / base;
    let (alone_ratio, shared_ratio) = (ratio(1), ratio(2));
    // One round says nothing of the next.
    let alone_error = (taken[0].len() > 1).then(|| error_of_mean(&more(1)) / base);
    let more = Spread::of(more(2));
    let [without, alone, shared] = taken.map(Spread::of);
    let figures = json!({
        "case": case,
        "launches": count,
        "without_agent_us": round(without.median),
        "alone_us": round(alone.median),
        "alone_ratio": round(alone_ratio),
        "alone_ratio_error": alone_error.map(round),
        "shared_us": round(shared.median),
        "shared_ratio": round(shared_ratio),
        "shared_more_us": round(more.median),
    });
    let [without, alone, shared, more] = [without, alone, shared, more].map(|spread| spread.to_string());
    let error = alone_error.map(|error| format!(" ± {error:.3}")).unwrap_or_default();
    let alone_ratio = format!("{alone_ratio:.3}{error}");
    table.row(figures, [case, count.to_string(), without, alone, shared, alone_ratio, more]);
}
