//! `leeway sim`: a workload under one or all policies, in a made-up world.

mod picture;
mod table;
mod timeline;

use crate::failure::Failure;
use anyhow::Context;
use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use sim::outcome::Outcome;
use sim::workload::{self, Generator, Workload};
use sim::world::{self, Costs, Setup};
use std::path::{Path, PathBuf};
use wire::sim::{SimBound, SimPolicy, SimReport};

/// How many tasks are generated where the command line does not say.
const TASKS: usize = 1_000;
/// The most tasks a run takes: a day of a busy service, and minutes of simulation.
const TASKS_MAX: usize = 100_000;
/// The load where the command line does not say.
const LOAD: f64 = 0.9;
/// The loads that are generated: below, hours pass between tasks; above, nearly everything misses. Neither
/// says anything.
const LOAD_MIN: f64 = 0.01;
const LOAD_MAX: f64 = 10.0;
/// The workloads that are built in.
const PRESETS: [&str; 1] = ["paper"];

/// Run a workload under one or all policies in a simulated world
///
/// A workload is a story file (one line per task: `100ms infer work 50ms due 200ms`), a preset, generated
/// from a seed, or the arrivals of a recorded trace. Without any of these, it is the preset `paper`.
#[derive(Args)]
#[command(after_help = "Examples:
  leeway sim --preset paper --timeline
  leeway sim --seed 1 --tasks 1000 --load 0.9 --json
  leeway sim story.txt --policy least-slack --svg story.svg

A story has one line per task: when it starts, its name, then words with a value each.
    0ms  train  work 400ms  due 900ms
  100ms  infer  work  50ms  due 200ms  expect 50ms
Words: work, due, expect, kernel, depth, gap, context, host, input, output, memory, gpu, container, task,
rounds, think, managed. A line `gpu memory 24GiB` gives the node a GPU of that size.")]
pub struct Sim {
    /// A story: one line per task
    #[arg(value_name = "STORY", conflicts_with_all = ["preset", "arrivals", "seed", "tasks", "load"])]
    story: Option<PathBuf>,
    /// A workload that is built in
    #[arg(long, value_parser = PRESETS, conflicts_with_all = ["arrivals", "seed", "tasks", "load"])]
    preset: Option<String>,
    /// Arrivals from a CSV file: inference requests or pods of a cluster
    #[arg(long, value_name = "FILE")]
    arrivals: Option<PathBuf>,
    /// The seed that decides everything
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// How many tasks to generate, or to take from the arrivals [default: 1000, or all]
    #[arg(long, value_name = "K", value_parser = tasks)]
    tasks: Option<usize>,
    /// GPU work that arrives per unit of time [default: 0.9, or as the arrivals have it]
    #[arg(long, value_name = "L", value_parser = load, allow_negative_numbers = true)]
    load: Option<f64>,
    /// The policy to run: all, none, fifo, earliest-deadline or least-slack
    #[arg(long, default_value = "all", value_parser = policies)]
    policy: Policies,
    /// Draw each task's life
    #[arg(long, conflicts_with = "json")]
    timeline: bool,
    /// Print one JSON object instead of a table
    #[arg(long)]
    json: bool,
    /// Draw each task's life into a file
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
}

/// The policies to run, in the order they are shown.
#[derive(Clone)]
struct Policies(Vec<&'static str>);

impl Sim {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        let workload = self.workload()?;
        // A picture that cannot be drawn is better known before minutes of simulation than after.
        if let Some(path) = &self.svg {
            let opened = std::fs::OpenOptions::new().create(true).append(true).open(path);
            opened.with_context(|| format!("could not draw into {}", path.display()))?;
        }
        let bound = sim::bound::bound(&workload);
        let outcomes = self.outcomes(&workload)?;
        let report = SimReport {
            workload: workload.name.clone(),
            tasks: workload.tasks.len(),
            alpha: workload.alpha,
            bound: SimBound { hit_rate: bound.hit_rate, makespan_us: bound.makespan.as_micros() },
            policies: outcomes.iter().map(|(name, outcome)| policy_report(name, outcome)).collect(),
        };
        if let Some(path) = &self.svg {
            let picture = picture::draw(&workload, &outcomes);
            std::fs::write(path, picture)
                .with_context(|| format!("could not draw into {}", path.display()))?;
        }
        super::print_all(self.told(&report, &workload, &outcomes)?.as_bytes())
    }

    fn told(
        &self,
        report: &SimReport,
        workload: &Workload,
        outcomes: &[(&'static str, Outcome)],
    ) -> anyhow::Result<String> {
        if self.json {
            return Ok(serde_json::to_string(report)? + "\n");
        }
        let mut text = table::of(report);
        if self.timeline {
            for (name, outcome) in outcomes {
                text += &format!("\n{}", timeline::of(name, workload, outcome));
            }
        }
        Ok(text)
    }

    fn workload(&self) -> anyhow::Result<Workload> {
        let seed = self.seed.unwrap_or(1);
        if let Some(path) = &self.story {
            let (name, text) = read(path)?;
            return workload::story(&name, &text).map_err(|error| wrong(path, &error));
        }
        if let Some(path) = &self.arrivals {
            let (name, text) = read(path)?;
            let read = workload::arrivals(&name, &text, seed, self.load, self.tasks);
            return read.map_err(|error| wrong(path, &error));
        }
        if self.seed.is_none() && self.tasks.is_none() && self.load.is_none() {
            return Ok(workload::paper());
        }
        let (tasks, load) = (self.tasks.unwrap_or(TASKS), self.load.unwrap_or(LOAD));
        Ok(Generator { seed, tasks, load }.workload())
    }

    fn outcomes(&self, workload: &Workload) -> anyhow::Result<Vec<(&'static str, Outcome)>> {
        let progress = progress_bar(workload.tasks.len() * self.policy.0.len());
        let mut outcomes = Vec::new();
        for (round, name) in self.policy.0.iter().copied().enumerate() {
            progress.set_message(name);
            let mut setup = Setup::plain(name, Costs::H200);
            setup.log = self.timeline || self.svg.is_some();
            let before = round * workload.tasks.len();
            let outcome = world::run(workload, setup, |done| progress.set_position((before + done) as u64));
            if let Some(broken) = &outcome.broken {
                anyhow::bail!("the simulation under {name} went wrong: {broken}");
            }
            outcomes.push((name, outcome));
        }
        progress.finish_and_clear();
        Ok(outcomes)
    }
}

fn policy_report(name: &str, outcome: &Outcome) -> SimPolicy {
    SimPolicy {
        policy: name.to_owned(),
        makespan_us: outcome.makespan().as_micros(),
        mean_turnaround_us: outcome.mean_turnaround().as_micros(),
        p99_turnaround_us: outcome.p99_turnaround().as_micros(),
        hit_rate: outcome.hit_rate(),
        holds: outcome.holds(),
        failed: outcome.tasks.iter().filter(|task| task.failed).count(),
    }
}

/// On stderr, and only where somebody watches.
fn progress_bar(tasks: usize) -> ProgressBar {
    let style = ProgressStyle::with_template("{msg:18} {wide_bar} {pos}/{len} tasks, {eta} left")
        .unwrap_or_else(|_| ProgressStyle::default_bar());
    ProgressBar::new(tasks as u64).with_style(style)
}

fn read(path: &Path) -> anyhow::Result<(String, String)> {
    let text = std::fs::read_to_string(path);
    let text = text.map_err(|error| Failure::input(format!("could not read {}: {error}", path.display())))?;
    let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned();
    Ok((name, text))
}

fn wrong(path: &Path, error: &dyn std::error::Error) -> anyhow::Error {
    Failure::input(format!("{}: {error}", path.display())).into()
}

fn policies(name: &str) -> Result<Policies, String> {
    let all = sched::policy::NAMES;
    if name == "all" {
        return Ok(Policies(all.to_vec()));
    }
    let known = all.iter().find(|known| **known == name);
    known
        .map(|name| Policies(vec![name]))
        .ok_or_else(|| format!("no such policy, accepted are all, {}", all.join(", ")))
}

fn load(text: &str) -> Result<f64, String> {
    let load = text.parse::<f64>().ok().filter(|load| (LOAD_MIN..=LOAD_MAX).contains(load));
    load.ok_or_else(|| format!("no load, accepted is {LOAD_MIN} to {LOAD_MAX}"))
}

fn tasks(text: &str) -> Result<usize, String> {
    let tasks = text.parse::<usize>().ok().filter(|tasks| (1..=TASKS_MAX).contains(tasks));
    tasks.ok_or_else(|| format!("no number of tasks, accepted are 1 to {TASKS_MAX}"))
}
