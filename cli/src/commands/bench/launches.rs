//! `leeway bench launches`: what being watched costs a program that launches as fast as it can.
//!
//! The same program without an agent, alone with one, and beside another program that may be held, so that its launches are probed. In each
//! round it is one process that launches all three times; without an agent and alone in this order and the other in turn, so that whatever
//! else the machine does meets both alike; beside another last, because its probes stay for a while. Whether there are probes is seen in the
//! program's memory, before each run and after it.
//!
//! A run of a second takes a tenth more or less on a machine that is shared: enough to see a probe, and not what an agent costs that has none in
//! place. So alone the program launches in pieces of about a tenth of a second, and for every other piece or so the agent is stopped as
//! Ctrl-Z does: what changes from second to second meets both kinds alike. The bounds of the medians tell how much there is to see; what an agent
//! does more seldom than in every other piece they do not show, so its processor time is told, too.

mod probed;
mod shown;

use super::cgroup::Cgroup;
use super::cost;
use super::figures::mean;
use super::report::{Output, Report};
use super::{Interruption, progress_bar};
use crate::failure::Failure;
use crate::stage::{Player, Stage, Tier};
use anyhow::{Context, Result};
use rustix::process::{Pid, Signal, kill_process};
use std::io::{BufRead, BufReader, Lines, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Stdio};
use std::time::{Duration, Instant};
use wire::agent::TaskLine;
use wire::client;

/// Memory of the simulated GPU.
const MEMORY: &str = "80GiB";
/// How many launches of empty kernels a piece has, at the most: a twentieth of a second or so.
const PIECE: u64 = 20_000;
/// How many launches are queued before the program waits for them.
const DEPTH: &str = "1000";
/// How long the program waits when somebody has come or gone, so that its probes have, too: they take a tenth of a second.
const SETTLED_AFTER: Duration = Duration::from_millis(700);
/// What a run takes, in seconds, roughly: for the progress bar only.
const RUN_S: f64 = 2.5;
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
    #[arg(long = "launches", value_name = "N", default_value_t = 200_000, value_parser = clap::value_parser!(u64).range(1000..=1_000_000_000))]
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
        let mut stage = Stage::set(self.driver.as_deref(), MEMORY, 5, Some(Tier::Probes))?;
        let node = stage.node().ok_or_else(|| Failure::new("the agent went away"))?;
        let fewer_rounds = self.rounds.div_ceil(FEWER);
        let bar = progress_bar((self.rounds + fewer_rounds) * KINDS.len() as u64, RUN_S);
        let mut report = Report::new("launches", &node);
        let mut table = shown::table();
        for kernel_us in [0, KERNEL_US] {
            let (count, rounds) =
                if kernel_us == 0 { (self.count, self.rounds) } else { (self.count / FEWER, fewer_rounds) };
            let mut taken = Taken::default();
            for round in 0..rounds {
                let kinds = if round % 2 == 0 { [0, 1, 2] } else { [1, 0, 2] };
                let program = Program::start(&stage, &interruption, kernel_us, count);
                interruption.check()?;
                let mut program = program?;
                for kind in kinds {
                    let done = program.beside(&mut stage, KINDS[kind], &mut taken);
                    interruption.check()?;
                    done?;
                    bar.inc(1);
                }
            }
            shown::compare(&mut table, kernel_us, count, &taken);
            shown::curves(&mut report, kernel_us, &taken);
        }
        bar.finish_and_clear();
        report.table(table);
        self.output.show(&report)
    }
}

/// Microseconds per launch.
#[derive(Default)]
struct Taken {
    without: Vec<f64>,
    alone: Vec<f64>,
    sharing: Vec<f64>,
    /// Each piece while the agent was stopped, and the one beside it while it ran.
    pieces: Vec<(f64, f64)>,
    /// What the agent took of one core while the program was alone with it.
    agent_cpu: Vec<f64>,
    /// Whether its launches were probed in the last run of each kind that has an agent.
    alone_probed: Option<bool>,
    sharing_probed: Option<bool>,
}

/// An agent that is stopped for a moment, far shorter than its guard waits for a sign of it.
struct Stopped(Pid);

impl Stopped {
    fn now(agent: Pid) -> Result<Self> {
        kill_process(agent, Signal::STOP).context("could not stop the agent")?;
        Ok(Self(agent))
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        let _ = kill_process(self.0, Signal::CONT);
    }
}

/// A program that launches whenever it is told to.
struct Program<'a> {
    interruption: &'a Interruption,
    child: Child,
    lines: ChildStdin,
    taken: Lines<BufReader<ChildStdout>>,
    /// How many launches a piece has, and how many of them a run.
    piece: u64,
    pieces: u64,
    /// Dropped last: nobody is in a cgroup that goes.
    _own: Cgroup,
}

impl<'a> Program<'a> {
    /// Starts it, and lets it launch once: the first time takes longer.
    fn start(stage: &Stage, interruption: &'a Interruption, kernel_us: u64, count: u64) -> Result<Self> {
        let own = Cgroup::new("launches", &LABELS)?;
        // Kernels that are not empty take longer.
        let piece = if kernel_us == 0 { PIECE } else { PIECE / FEWER }.min(count);
        let (kernel, number) = (kernel_us.to_string(), piece.to_string());
        let words = ["batch", "--each-line", "--kernel-us", &kernel, "--count", &number, "--depth", DEPTH];
        let mut command = own.inside(&stage.work(&words)?);
        let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut child = child.context("could not start a CUDA program")?;
        let (lines, taken) =
            child.stdin.take().zip(child.stdout.take()).context("a CUDA program has no pipes")?;
        let (taken, pieces) = (BufReader::new(taken).lines(), count / piece);
        let mut program = Self { interruption, child, lines, taken, piece, pieces, _own: own };
        program.run()?;
        Ok(program)
    }

    fn beside(&mut self, stage: &mut Stage, kind: Beside, taken: &mut Taken) -> Result<()> {
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
            let interruption = self.interruption;
            interruption.wait_for("all programs on the GPU", || tasks(stage) == there || self.has_ended())?;
        }
        std::thread::sleep(SETTLED_AFTER);
        self.check_probes(kind)?;
        match kind {
            Beside::Nobody => taken.without.push(self.run()?),
            Beside::Agent => {
                let agent = stage.agent_pid()?;
                let (start, before) = (Instant::now(), cost::used(agent)?.cpu_ns);
                taken.alone.push(self.run()?);
                let cpu_ns = cost::used(agent)?.cpu_ns.saturating_sub(before);
                taken.agent_cpu.push(cpu_ns as f64 / start.elapsed().as_nanos() as f64);
                taken.pieces.extend(self.each_piece_twice(agent)?);
                taken.alone_probed = Some(self.check_probes(kind)?);
            }
            Beside::AgentAndAnother => {
                taken.sharing.push(self.run()?);
                taken.sharing_probed = Some(self.check_probes(kind)?);
            }
        }
        stage.check_agent()?;
        drop(another);
        if kind != Beside::Nobody {
            self.interruption.wait_for("the other program's end", || tasks(stage) <= 1)?;
        }
        Ok(())
    }

    /// Whether its launches are probed: beside another they are, and else not, or something else than meant would be measured.
    fn check_probes(&mut self, kind: Beside) -> Result<bool> {
        let probed = match probed::are_probed(self.child.id()) {
            // Who has ended has no memory, and that is told elsewhere.
            Err(_) if self.has_ended() => return Ok(false),
            probed => probed?,
        };
        if probed != (kind == Beside::AgentAndAnother) {
            let whose = if probed { "that is alone are" } else { "that shares the GPU are not" };
            return Err(Failure::new(format!("the launches of a program {whose} probed")).into());
        }
        Ok(probed)
    }

    fn has_ended(&mut self) -> bool {
        !matches!(self.child.try_wait(), Ok(None))
    }

    /// All its launches.
    fn run(&mut self) -> Result<f64> {
        let pieces: Result<Vec<f64>> = (0..self.pieces).map(|_| self.launch()).collect();
        Ok(mean(&pieces?))
    }

    /// All its launches, each piece twice: while the agent is stopped, and while it runs.
    fn each_piece_twice(&mut self, agent: u32) -> Result<Vec<(f64, f64)>> {
        let agent = Pid::from_raw(agent.cast_signed()).context("the agent has no pid")?;
        let mut pairs = Vec::new();
        for piece in 0..self.pieces {
            pairs.push(if piece.is_multiple_of(2) {
                let stopped = self.launch_while_stopped(agent)?;
                (stopped, self.launch()?)
            } else {
                let runs = self.launch()?;
                (self.launch_while_stopped(agent)?, runs)
            });
        }
        Ok(pairs)
    }

    fn launch_while_stopped(&mut self, agent: Pid) -> Result<f64> {
        let _stopped = Stopped::now(agent)?;
        self.launch()
    }

    /// One piece: microseconds per launch, by the program's own clock.
    fn launch(&mut self) -> Result<f64> {
        self.interruption.check()?;
        self.lines.write_all(b"\n").context("could not tell a CUDA program to launch")?;
        let taken = self.taken.next().and_then(Result::ok).and_then(|line| line.parse::<f64>().ok());
        Ok(taken.context("a CUDA program failed")? * 1e6 / self.piece as f64)
    }
}

impl Drop for Program<'_> {
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
