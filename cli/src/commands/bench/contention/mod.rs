//! `leeway bench contention`: tasks that start together on one GPU, and what becomes of them under each way to share it.
//!
//! Times are the programs' own: a task's turnaround is from just before its first call of the driver until everything is freed, and all make
//! that call at the same moment. No way to share that runs one kernel at a time can be faster than the lower
//! bound: what one task does on the host, and all kernels one after another, as they take alone. Round by round everything is run once, every
//! other round in the opposite order, so that whatever else the machine does meets all ways alike.

mod cases;
mod shown;

use super::report::Output;
use super::troupe::{Ground, Times, Troupe, began_late, empty, mps_runs, set_policy, tell_late};
use super::{Interruption, Progress};
use crate::failure::Failure;
use crate::stage::{Folder, Setting, Stage, Tier};
use anyhow::Result;
use cases::{Case, Mode, Preset, Work};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::Duration;

/// Between two runs that no agent watches: the GPU is empty when the programs have ended.
const GAP: Duration = Duration::from_millis(200);
/// A deadline that nobody misses: what matters here is time, not who is late.
const DEADLINE_S: f64 = 60.0;
const DEADLINE_FACTOR: f64 = 5.0;
/// How often each kind of task is run alone in a round; the medians count, for everything else is compared with them.
const ALONE: usize = 3;

/// Measure tasks that start together, under every way to share a GPU
#[derive(clap::Args)]
#[command(after_help = "Examples:
  leeway bench contention --preset 001-figure-8 --counts 1,5,10
  leeway bench contention --tasks 8192:3+13312:2 --mode none,least-slack --report out
  leeway bench contention --tasks 13312:10 --mode none,fifo --tier polling        the paper's own way")]
pub(super) struct Contention {
    /// Tasks that start together: the side of their matrices and how many; may be given several times [default: 13312:10]
    #[arg(long, value_name = "N:COUNT+…", value_parser = Case::parse)]
    tasks: Vec<Case>,
    /// An experiment of the papers
    #[arg(long, value_enum, conflicts_with = "tasks")]
    preset: Option<Preset>,
    /// Only these numbers of the preset's tasks
    #[arg(long, value_name = "N,…", value_delimiter = ',', requires = "preset", value_parser = clap::value_parser!(u32).range(1..=200))]
    counts: Vec<u32>,
    /// How the GPU is shared [default: the preset's, or all that there are here]
    #[arg(long = "mode", value_enum, value_name = "MODE,…", value_delimiter = ',')]
    modes: Vec<Mode>,
    /// How often each is run; the median counts
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100))]
    rounds: u32,
    /// Make each task's deadline from its own work, so that the shortest is due first; without it all have the same
    #[arg(long)]
    own_deadlines: bool,
    /// What the tasks run in
    #[arg(long, value_enum, default_value = "cgroups")]
    ground: Ground,
    /// How the agent sees tasks; as well as it can, if not given
    #[arg(long, value_enum)]
    tier: Option<Tier>,
    /// Memory of the simulated GPU
    #[arg(long, value_name = "M", default_value = "140GiB", value_parser = wire::bytes::normalised)]
    memory: String,
    /// The folder of the driver's libraries; without it, a simulated GPU is started
    #[arg(long, value_name = "DIR")]
    driver: Option<PathBuf>,
    #[command(flatten)]
    output: Output,
}

/// What was run.
#[derive(Default)]
struct Runs {
    /// Each kind of task alone, without an agent: for each round what it wrote down each time.
    alone: BTreeMap<Work, Vec<Vec<Times>>>,
    /// Each case under each mode: for each round what each of its tasks wrote down.
    shared: BTreeMap<(Case, Mode), Vec<Vec<Times>>>,
}

impl Contention {
    pub(super) fn run(self) -> Result<()> {
        self.output.prepare()?;
        let (cases, modes) = self.plan()?;
        let interruption = Interruption::expect()?;
        let setting = Setting {
            driver: self.driver.as_deref(),
            memory: &self.memory,
            listed_after_ms: 140,
            poll_ms: 5,
            policy: "none",
            run_dir: None,
            tier: self.tier,
            http: None,
        };
        let mut stage = Stage::set_in(Folder::new("leeway")?, &setting)?;
        let node = stage.node().ok_or_else(|| Failure::new("the agent went away"))?;
        let troupe = Troupe::new(self.ground, &interruption)?;
        let runs = self.perform(&mut stage, troupe, &cases, &modes)?;
        let tier = if modes.iter().any(|mode| mode.policy().is_some()) { node.tier.as_str() } else { "" };
        drop(stage);
        self.output.show(&shown::report(&node, tier, &cases, &modes, &runs))
    }

    /// Round by round, everything.
    fn perform(
        &self,
        stage: &mut Stage,
        mut troupe: Troupe<'_>,
        cases: &[Case],
        modes: &[Mode],
    ) -> Result<Runs> {
        let mut plan = planned(cases, modes);
        let kinds: BTreeSet<Work> = cases.iter().flat_map(Case::kinds).collect();
        let warm = warmed(modes);
        let alone_s: f64 = kinds.iter().map(|work| Case::alone(*work).about_s()).sum();
        let shared_s: f64 = plan.iter().map(|(case, _)| case.about_s()).sum();
        let rounds = f64::from(self.rounds);
        let progress =
            Progress::new(alone_s * (warm.len() as f64 + ALONE as f64 * rounds) + shared_s * rounds);
        let mut perform = |case: &Case, mode: Mode, what: &str| -> Result<Vec<Times>> {
            progress.now(&format!("{case}, {what}"));
            let times = self.one(stage, &mut troupe, case, mode)?;
            progress.done(case.about_s());
            Ok(times)
        };
        let mut runs = Runs::default();
        for mode in warm {
            for work in &kinds {
                perform(&Case::alone(*work), mode, "not counted")?;
            }
        }
        for _ in 0..self.rounds {
            for work in &kinds {
                let mut times = Vec::new();
                for _ in 0..ALONE {
                    times.extend(perform(&Case::alone(*work), Mode::None, "alone")?);
                }
                runs.alone.entry(*work).or_default().push(times);
            }
            for (case, mode) in &plan {
                let times = perform(case, *mode, mode.name())?;
                runs.shared.entry((case.clone(), *mode)).or_default().push(times);
            }
            plan.reverse();
        }
        progress.end();
        Ok(runs)
    }

    /// One run.
    fn one(&self, stage: &mut Stage, troupe: &mut Troupe<'_>, case: &Case, mode: Mode) -> Result<Vec<Times>> {
        match mode.policy() {
            None => stage.leave_agent(),
            Some(policy) => {
                if stage.agent_pid().is_err() {
                    stage.enter_agent()?;
                }
                set_policy(stage, policy)?;
            }
        }
        let deadline = |work: Work| {
            let about_s = if self.own_deadlines { work.about_s() } else { case.about_s() };
            Duration::from_secs_f64(DEADLINE_S + DEADLINE_FACTOR * about_s)
        };
        let parts = case.0.iter().enumerate().map(|(number, work)| work.part(number, deadline(*work)));
        let parts: Vec<_> = parts.collect();
        let times = if mode == Mode::Serial {
            let mut times = Vec::new();
            for part in parts.chunks(1) {
                times.extend(troupe.play(stage, part, false)?);
            }
            in_a_row(times)
        } else {
            troupe.play(stage, &parts, mode == Mode::Mps)?
        };
        tell_late(late(&times), &format!("{case} under {}", mode.name()));
        match mode.policy() {
            None => std::thread::sleep(GAP),
            Some(_) => empty(stage, troupe.interruption)?,
        }
        Ok(times)
    }

    /// Which cases under which modes.
    fn plan(&self) -> Result<(Vec<Case>, Vec<Mode>)> {
        let cases = match self.preset {
            Some(preset) => preset.cases(&self.counts),
            None if self.tasks.is_empty() => vec![Case(vec![Work::Matmul(13_312); 10])],
            None => self.tasks.clone(),
        };
        let without_mps = self.without_mps();
        let usual = || self.preset.map_or_else(|| Mode::all(without_mps.is_none()), Preset::modes);
        let modes = if self.modes.is_empty() { usual() } else { self.modes.clone() };
        if let Some(why) = without_mps.filter(|_| modes.contains(&Mode::Mps)) {
            return Err(why.into());
        }
        if cases.is_empty() {
            return Err(Failure::input("--counts: the preset has none of these numbers of tasks").into());
        }
        Ok((cases, modes))
    }

    /// Why NVIDIA's Multi-Process Service cannot be measured, where it cannot: what is told of it would be plain time slicing.
    fn without_mps(&self) -> Option<Failure> {
        let simulated = self.driver.as_ref().is_none_or(|driver| driver.join(::gpu::SOCKET).exists());
        if simulated {
            let why = "--mode mps: a simulated GPU has no Multi-Process Service";
            return Some(Failure::input(why).help("name a real driver's folder with `--driver`"));
        }
        if self.ground == Ground::Docker {
            let why = "--mode mps: containers do not reach the Multi-Process Service";
            return Some(Failure::input(why).help("leave `--ground docker` out: processes in cgroups"));
        }
        let why = "no control daemon of NVIDIA's Multi-Process Service runs here";
        let help = "start one with `nvidia-cuda-mps-control -d`";
        (!mps_runs()).then(|| Failure::new(why).help(help))
    }
}

/// Everything that was asked for, once each: first what needs no agent.
fn planned(cases: &[Case], modes: &[Mode]) -> Vec<(Case, Mode)> {
    let all = modes.iter().flat_map(|mode| cases.iter().map(|case| (case.clone(), *mode)));
    let mut plan: Vec<(Case, Mode)> = all.collect();
    plan.sort_by_key(|(case, mode)| (mode.policy().is_some(), *mode, case.clone()));
    plan.dedup();
    plan
}

/// How each kind of task is run once before anything counts. The first run after a while may wait for the driver to wake the GPU, or to compile a
/// kernel; and the Multi-Process Service starts its server for its first program.
fn warmed(modes: &[Mode]) -> Vec<Mode> {
    [Mode::None, Mode::Mps].into_iter().filter(|mode| *mode == Mode::None || modes.contains(mode)).collect()
}

/// How many programs of a run did not begin with the first: those in a row all wait from its start on.
fn late(times: &[Times]) -> usize {
    began_late(times.iter().map(|task| task.init))
}

/// One after another as if each began when the one before it ended, and all had been there from the start: the time it takes us to start a
/// program is left out.
fn in_a_row(mut times: Vec<Times>) -> Vec<Times> {
    let Some(first) = times.first().map(|task| task.init) else { return times };
    let mut end = first;
    for task in &mut times {
        let earlier = task.init - end;
        for phase in [&mut task.allocated, &mut task.input, &mut task.kernel, &mut task.output, &mut task.end]
        {
            *phase -= earlier;
        }
        task.init = first;
        end = task.end;
    }
    times
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tasks_in_a_row_wait_from_the_first_start() {
        let task = |init: f64| Times { init, kernel: init + 2.0, end: init + 3.0, ..Times::default() };
        let row = in_a_row(vec![task(10.0), task(14.0), task(20.0)]);
        let told: Vec<(f64, f64)> = row.iter().map(|task| (task.init, task.end)).collect();
        assert_eq!(told, [(10.0, 13.0), (10.0, 16.0), (10.0, 19.0)]);
        assert!((row[2].kernel - 18.0).abs() < 1e-9);
    }

    #[test]
    fn what_needs_no_agent_comes_first_and_nothing_twice() {
        let cases = ["8192:2", "8192:1+64:1", "8192:2"].map(|text| Case::parse(text).unwrap());
        let plan = planned(&cases, &[Mode::LeastSlack, Mode::None]);
        let told: Vec<String> = plan.iter().map(|(case, mode)| format!("{case} {}", mode.name())).collect();
        let both = ["1 × 64² + 1 × 8192²", "2 × 8192²"];
        let expected = ["none", "least-slack"].map(|mode| both.map(|case| format!("{case} {mode}")));
        assert_eq!(told, expected.concat());
    }

    #[test]
    fn a_service_that_starts_with_its_first_program_has_had_one_before_anything_counts() {
        assert_eq!(warmed(&[Mode::LeastSlack]), [Mode::None]);
        assert_eq!(warmed(&[Mode::Mps, Mode::LeastSlack]), [Mode::None, Mode::Mps]);
    }
}
