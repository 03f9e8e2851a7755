//! `leeway bench detect`: how far the agent's starts and ends are from the truth, and what it costs to run.
//!
//! The truth: a program writes down when it first calls the driver, and its parent (we) sees when it exits. The programs run as plain
//! processes, because only a parent knows the exit exactly; for the agent they differ from a container's in their cgroup only.

use super::cost;
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
use wire::agent::TaskLine;
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
    /// How tasks are seen
    #[arg(long, value_enum, default_value = "polling")]
    tier: Tier,
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
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// What really happened to one task, in microseconds since 1970.
struct Truth {
    pid: u32,
    start_us: i64,
    end_us: i64,
}

impl Detect {
    pub(super) fn run(self) -> Result<()> {
        let stage = Stage::set(self.driver.as_deref(), MEMORY, self.poll_ms, self.tier)?;
        let node = stage.node().ok_or_else(|| Failure::new("the agent went away"))?;
        let mut results = Vec::new();
        if self.tasks > 0 {
            results.push(self.errors("errors", &stage, || self.perform(&stage))?);
        }
        if self.lone > 0 {
            let alone = || (0..self.lone).map(|_| after_quiet(&stage)).collect();
            results.push(self.errors("errors of tasks that start alone", &stage, alone)?);
        }
        if self.requests > 0 && self.tier == Tier::Probes {
            results.push(super::requests::errors(&stage, self.requests)?);
        }
        for containers in &self.containers {
            // What other programs would take is measured once, for ten.
            let known = results.iter().any(|result| !result["docker_top_ms"].is_null());
            let costs = cost::of_agent(&stage, *containers, self.plain, self.cost_for)?;
            results.extend(costs.into_iter().take(if known { 1 } else { 2 }));
        }
        if !results.iter().any(|result| result.get("docker_top_ms").is_some()) {
            results.push(cost::of_spawning(None));
        }
        if self.tier == Tier::Polling {
            results.push(self.bound());
        }
        super::print(&super::report("detect", &node, results), self.json)
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

    /// Runs the tasks, and compares what the agent says with what was so.
    fn errors(
        &self,
        case: &str,
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
        let (mut starts, mut ends) = (Vec::new(), Vec::new());
        for truth in &truths {
            let found = told.iter().filter(|task| task.pid == truth.pid);
            let error =
                |task: &TaskLine| Some(((us(&task.start)? - truth.start_us).abs(), us(task.end.as_ref()?)?));
            if let Some((start, end_us)) = found.filter_map(error).min_by_key(|(start, _)| *start) {
                starts.push(start);
                ends.push((end_us - truth.end_us).abs());
            }
        }
        let mut result = compared(case, self.tier, truths.len(), starts, ends);
        (result["agent_cpu_ratio"], result["load_before"]) = (json!(cpu_ratio), json!(load));
        Ok(result)
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

/// How far the starts and ends of those tasks are off that were seen.
pub(super) fn compared(
    case: &str,
    tier: Tier,
    tasks: usize,
    mut starts: Vec<i64>,
    mut ends: Vec<i64>,
) -> Value {
    starts.sort_unstable();
    ends.sort_unstable();
    let at = |sorted: &[i64], percent| crate::commands::tasks::quantile(sorted, percent);
    json!({
        "case": case,
        "tier": tier.name(),
        "tasks": tasks,
        "unseen": tasks - starts.len(),
        "start_error_us_p50": at(&starts, 50),
        "start_error_us_p99": at(&starts, 99),
        "start_error_us_max": starts.last(),
        "end_error_us_p50": at(&ends, 50),
        "end_error_us_p99": at(&ends, 99),
        "end_error_us_max": ends.last(),
    })
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

/// The results for people: a line per case, a word per figure.
pub(super) fn table(gpu: &str, results: &[Value]) -> String {
    let mut text = format!("on: {gpu}\n");
    let costs = results.iter().filter(|result| result["case"] == cost::CASE).count();
    for result in results.iter().filter_map(Value::as_object) {
        if result["case"] == cost::CASE {
            continue;
        }
        text += &format!("\n{}\n", result["case"].as_str().unwrap_or_default());
        for (name, value) in result.iter().filter(|(name, _)| *name != "case") {
            text += &format!(
                "  {name:<28} {}\n",
                value.as_str().map_or_else(|| value.to_string(), str::to_owned)
            );
        }
    }
    if costs > 0 { text + &cost::table(results) } else { text }
}
