//! `leeway bench detect`: how far the agent's starts and ends are from the truth, and what it costs to run.
//!
//! The truth: a program writes down when it first calls the driver, and its parent (we) sees when it exits. The programs run as plain
//! processes, because only a parent knows the exit exactly; for the agent they differ from a container's in their cgroup only.

use super::cost;
use super::report::{Output, Report, Table};
use super::{Interruption, progress_bar};
use crate::failure::Failure;
use crate::stage::{Stage, Tier};
use anyhow::{Context, Result};
use node::facts::gpu::QUIET_MAX;
use serde_json::{Value, json};
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use wire::agent::{NodeLine, TaskLine};
use wire::client;

/// What NVML adds on a real GPU: it lists a process that long after its first call into the driver (measured on an H200).
const NVML_LISTS_AFTER_US: i64 = 140_000;
/// Programs that start at the same moment wait for each other's processor, and not for the agent: they start apart.
const APART: Duration = Duration::from_millis(30);
/// How long news may be on its way.
const SETTLE: Duration = Duration::from_millis(200);
/// How long nobody starts before a task that starts alone.
const QUIET: Duration = Duration::from_secs(1);
/// A program that must wait for a processor between the time it writes down and the call it means spoils the measurement: the
/// programs come before the rest of the machine, and after the agent.
const PROGRAM_NICENESS: i32 = -5;
/// As the agent's own.
const NICENESS: i32 = -10;
/// Memory of the simulated GPU: room for the contexts of a thousand programs.
const MEMORY: &str = "1000GiB";

/// Measure how exactly tasks are seen, and what that costs
#[derive(clap::Args)]
pub(super) struct Detect {
    /// How tasks are seen; several are measured one after another
    #[arg(
        long = "tier",
        value_enum,
        value_name = "TIER,…",
        value_delimiter = ',',
        default_value = "polling"
    )]
    tiers: Vec<Tier>,
    /// How many tasks to measure
    #[arg(long, value_name = "N", default_value_t = 200)]
    tasks: usize,
    /// How many requests of a server to measure, where requests are seen: with probes
    #[arg(long, value_name = "N", default_value_t = 200)]
    requests: usize,
    /// How many of them at a time
    #[arg(long, value_name = "N", default_value_t = 10)]
    at_once: usize,
    /// How many tasks to measure that start alone, each after a quiet second
    #[arg(long, value_name = "N", default_value_t = 20)]
    lone: usize,
    /// With how many containers on the GPU to measure the agent's cost
    #[arg(long, value_name = "N,…", value_delimiter = ',', default_value = "10")]
    containers: Vec<usize>,
    /// Plain cgroups instead of Docker's containers, also where Docker answers
    #[arg(long)]
    plain: bool,
    /// For how long to measure the cost
    #[arg(long, value_name = "D", default_value = "10s", value_parser = wire::duration::parse)]
    cost_for: Duration,
    /// Milliseconds between two looks at the GPU
    #[arg(long, value_name = "MS", default_value_t = 5)]
    poll_ms: u64,
    /// The folder of the driver's libraries; without it, a simulated GPU is started
    #[arg(long, value_name = "DIR")]
    driver: Option<PathBuf>,
    #[command(flatten)]
    output: Output,
}

/// What really happened to one task, in microseconds since 1970.
struct Truth {
    pid: u32,
    start_us: i64,
    end_us: i64,
}

impl Detect {
    pub(super) fn run(self) -> Result<()> {
        self.output.prepare()?;
        let interruption = Interruption::expect()?;
        let bar = progress_bar(self.steps() * self.tiers.len() as u64);
        let (mut found, mut node) = (Found::default(), None);
        for tier in &self.tiers {
            let stage = Stage::set(self.driver.as_deref(), MEMORY, self.poll_ms, *tier)?;
            node = stage.node();
            self.measure(&stage, *tier, &mut found, || {
                bar.inc(1);
                interruption.check()
            })?;
        }
        bar.finish_and_clear();
        let node = node.ok_or_else(|| Failure::new("the agent went away"))?;
        self.output.show(&found.report(&node))
    }

    /// How many things are measured in each way of seeing.
    fn steps(&self) -> u64 {
        let counts = [self.tasks, self.lone, self.requests];
        (counts.iter().filter(|count| **count > 0).count() + self.containers.len()) as u64
    }

    fn measure(
        &self,
        stage: &Stage,
        tier: Tier,
        found: &mut Found,
        step: impl Fn() -> Result<(), Failure>,
    ) -> Result<()> {
        if self.tasks > 0 {
            found.errors.push(errors("errors", tier, stage, || self.perform(stage))?);
            step()?;
        }
        if self.lone > 0 {
            let alone = || (0..self.lone).map(|_| after_quiet(stage)).collect();
            found.errors.push(errors("errors of tasks that start alone", tier, stage, alone)?);
            step()?;
        }
        if self.requests > 0 && tier == Tier::Probes {
            found.errors.push(super::requests::errors(stage, self.requests)?);
            step()?;
        }
        for containers in &self.containers {
            // What other programs would take is measured once, for ten.
            let known = found.others.iter().any(|result| !result["docker_top_ms"].is_null());
            let mut costs = cost::of_agent(stage, tier, *containers, self.plain, self.cost_for)?.into_iter();
            found.costs.extend(costs.next());
            found.others.extend(costs.filter(|_| !known));
            step()?;
        }
        if !found.others.iter().any(|result| result.get("docker_top_ms").is_some()) {
            found.others.push(cost::of_spawning(None));
        }
        if tier == Tier::Polling {
            found.others.push(self.bound());
        }
        Ok(())
    }

    fn bound(&self) -> Value {
        let poll_us = self.poll_ms as i64 * 1000;
        json!({
            "case": "bound on a real GPU",
            "nvml_lists_after_us": NVML_LISTS_AFTER_US,
            "poll_us": poll_us,
            "start_error_us_announced": NVML_LISTS_AFTER_US + poll_us,
            "start_error_us_max": NVML_LISTS_AFTER_US + poll_us.max(QUIET_MAX.as_micros()),
        })
    }

    fn perform(&self, stage: &Stage) -> Result<Vec<Truth>> {
        let started = AtomicUsize::new(0);
        let truths = Mutex::new(Ok(Vec::new()));
        std::thread::scope(|scope| {
            for number in 0..self.at_once {
                let (started, truths) = (&started, &truths);
                scope.spawn(move || {
                    std::thread::sleep(APART * number as u32);
                    while started.fetch_add(1, Ordering::Relaxed) < self.tasks {
                        let truth = one(stage);
                        let mut truths = truths.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
                        match (&mut *truths, truth) {
                            (Ok(list), Ok(truth)) => list.push(truth),
                            (_, Err(error)) => *truths = Err(error),
                            (Err(_), Ok(_)) => return,
                        }
                    }
                });
            }
        });
        truths.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

/// What was found, by kind.
#[derive(Default)]
struct Found {
    errors: Vec<Value>,
    costs: Vec<Value>,
    others: Vec<Value>,
}

impl Found {
    fn report(self, node: &NodeLine) -> Report {
        let mut report = Report::new("detect", node);
        let heading = [
            "CASE",
            "TIER",
            "TASKS",
            "UNSEEN",
            "START P50, P99, MAX",
            "END P50, P99, MAX",
            "RUN TIME P50, P99, MAX",
        ];
        let mut table =
            Table::new("how far the agent is off the program's own clock, in milliseconds", &heading);
        for errors in self.errors {
            let ms = |name: &str| {
                let figure =
                    |of: &str| errors[format!("{name}_error_us_{of}")].as_f64().unwrap_or(f64::NAN) / 1e3;
                format!("{:.3}, {:.3}, {:.3}", figure("p50"), figure("p99"), figure("max"))
            };
            let word =
                |name: &str| errors[name].as_str().map_or_else(|| errors[name].to_string(), str::to_owned);
            let cells = [
                word("case"),
                word("tier"),
                word("tasks"),
                word("unseen"),
                ms("start"),
                ms("end"),
                ms("run"),
            ];
            table.row(errors.clone(), cells);
        }
        report.table(table);
        self.others.into_iter().for_each(|case| report.case(case));
        report.table(cost::table(&self.costs));
        report
    }
}

/// Runs the tasks, and compares what the agent says with what was so.
fn errors(
    case: &str,
    tier: Tier,
    stage: &Stage,
    perform: impl FnOnce() -> Result<Vec<Truth>>,
) -> Result<Value> {
    let since_us = now_us();
    let load = load();
    let meter = cost::Meter::start(stage)?;
    let truths = perform()?;
    let cpu_ratio = meter.cpu_ratio()?;
    // The exit of the last one may still be on its way to the agent.
    std::thread::sleep(SETTLE);
    let path = format!("/v1/tasks?since_us={since_us}");
    let told: Vec<TaskLine> =
        client::get(&stage.socket(), &path).map_err(|error| crate::ask::failure(&error))?;
    let mut errors = Errors::default();
    for truth in &truths {
        let found = told.iter().filter(|task| task.pid == truth.pid);
        let times = |task: &TaskLine| Some((us(&task.start)?, us(task.end.as_ref()?)?));
        let nearest = found.filter_map(times).min_by_key(|(start, _)| (start - truth.start_us).abs());
        errors.extend(nearest, (truth.start_us, truth.end_us));
    }
    let mut result = errors.compared(case, tier, truths.len());
    (result["agent_cpu_ratio"], result["load_before"]) = (json!(cpu_ratio), json!(load));
    Ok(result)
}

/// How far the starts, ends and run times of those tasks are off that were seen, in microseconds.
#[derive(Default)]
pub(super) struct Errors {
    starts: Vec<i64>,
    ends: Vec<i64>,
    runs: Vec<i64>,
}

impl Errors {
    /// What was told of a task, if anything was, and what was so: its start and its end.
    pub(super) fn extend(&mut self, told: Option<(i64, i64)>, truth: (i64, i64)) {
        let Some((start, end)) = told else { return };
        self.starts.push((start - truth.0).abs());
        self.ends.push((end - truth.1).abs());
        self.runs.push(((end - start) - (truth.1 - truth.0)).abs());
    }

    pub(super) fn compared(mut self, case: &str, tier: Tier, tasks: usize) -> Value {
        let mut result = json!({
            "case": case,
            "tier": tier.name(),
            "tasks": tasks,
            "unseen": tasks - self.starts.len(),
        });
        let kinds = [("start", &mut self.starts), ("end", &mut self.ends), ("run", &mut self.runs)];
        for (name, errors) in kinds {
            errors.sort_unstable();
            for (of, percent) in [("p50", 50), ("p99", 99), ("max", 100)] {
                result[format!("{name}_error_us_{of}")] =
                    json!(crate::commands::tasks::quantile(errors, percent));
            }
        }
        result
    }
}

/// One program, once nobody has started for a while: the agent looks at its quiet pace then.
fn after_quiet(stage: &Stage) -> Result<Truth> {
    std::thread::sleep(QUIET);
    one(stage)
}

/// One program, from its first call into the driver to its exit.
fn one(stage: &Stage) -> Result<Truth> {
    be_nice(PROGRAM_NICENESS);
    let mut command = stage.work(&["matmul", "--n", "512", "--json"])?;
    let mut child = command.stdout(Stdio::piped()).spawn().context("could not start a CUDA program")?;
    let pid = child.id();
    // A parent that waits for a busy processor sees the exit late. Programs inherit this, so only now.
    be_nice(NICENESS);
    // What it prints fits the pipe, so waiting first does not keep it from ending.
    child.wait().context("could not wait for a CUDA program")?;
    let end_us = now_us();
    let mut printed = String::new();
    if let Some(mut stdout) = child.stdout.take() {
        std::io::Read::read_to_string(&mut stdout, &mut printed)
            .context("could not read what a CUDA program printed")?;
    }
    let report: Value = serde_json::from_str(&printed)
        .map_err(|_| Failure::new(format!("a CUDA program failed and printed: {}", printed.trim())))?;
    let start_us = report["init"].as_f64().map(|seconds| (seconds * 1e6).round() as i64);
    let start_us = start_us.ok_or_else(|| Failure::new("a CUDA program did not say when it began"))?;
    Ok(Truth { pid, start_us, end_us })
}

/// Sets how this thread, and what it starts, stands back for others. Who is not root stays as it is.
fn be_nice(niceness: i32) {
    let _ = rustix::process::setpriority_process(None, niceness);
}

/// How many processes wanted a processor in the last minute: beside many others, a program waits for one between the time it writes
/// down and the call it means, and that counts as an error of the agent's.
pub(super) fn load() -> Option<f64> {
    std::fs::read_to_string("/proc/loadavg").ok()?.split(' ').next()?.parse().ok()
}

pub(super) fn now_us() -> i64 {
    jiff::Timestamp::now().as_microsecond()
}

pub(super) fn us(time: &str) -> Option<i64> {
    time.parse::<jiff::Timestamp>().ok().map(jiff::Timestamp::as_microsecond)
}
