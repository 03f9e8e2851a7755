//! How far the agent's starts and ends are from the truth: programs that write down when they began, and whose end we see.

use super::Detect;
use crate::commands::bench::Interruption;
use crate::commands::bench::cgroup::Cgroup;
use crate::commands::bench::{cost, program};
use crate::failure::Failure;
use crate::stage::{Stage, Tier};
use anyhow::{Context, Result};
use rustix::process::{Pid, WaitId, WaitIdOptions, geteuid, waitid};
use serde_json::{Value, json};
use std::process::{Child, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use wire::agent::TaskLine;
use wire::client;

/// Programs that start at the same moment wait for each other's processor, and not for the agent: they start apart.
const APART: Duration = Duration::from_millis(30);
/// How long news may be on its way.
const SETTLE: Duration = Duration::from_millis(200);
/// How long nobody starts before a task that starts alone.
pub(super) const QUIET: Duration = Duration::from_secs(1);
/// A program that must wait for a processor between the time it writes down and the call it means spoils the measurement: the
/// programs come before the rest of the machine, and after the agent.
const PROGRAM_NICENESS: i32 = -5;
/// As the agent's own.
const NICENESS: i32 = -10;
/// The label of each program's cgroup, as of a container: a deadline that none misses.
const LABEL: (&str, &str) = ("leeway.deadline", "1h");

/// What really happened to one task, in microseconds since 1970.
pub(super) struct Truth {
    pid: u32,
    start_us: i64,
    end_us: i64,
}

/// What one round gave: its figures, and what they are figures of.
pub(in super::super) struct Measured {
    pub(in super::super) figures: Value,
    pub(super) errors: Errors,
}

/// Runs the tasks, and compares what the agent says with what was so.
pub(super) fn measured(
    case: &str,
    tier: Tier,
    stage: &Stage,
    perform: impl FnOnce() -> Result<Vec<Truth>>,
) -> Result<Measured> {
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
    let mut measured = errors.compared(case, tier, truths.len());
    (measured.figures["agent_cpu_ratio"], measured.figures["load_before"]) = (json!(cpu_ratio), json!(load));
    Ok(measured)
}

/// How far the starts, ends and run times of those tasks are off that were seen, in microseconds.
#[derive(Default)]
pub(in super::super) struct Errors {
    pub(super) starts: Vec<i64>,
    pub(super) ends: Vec<i64>,
    runs: Vec<i64>,
    /// How much later than in truth an end was told, and how much earlier: nothing where it was the other.
    ends_late: Vec<i64>,
    ends_early: Vec<i64>,
}

impl Errors {
    /// What was told of a task, if anything was, and what was so: its start and its end.
    pub(in super::super) fn extend(&mut self, told: Option<(i64, i64)>, truth: (i64, i64)) {
        let Some((start, end)) = told else { return };
        self.starts.push((start - truth.0).abs());
        self.ends.push((end - truth.1).abs());
        self.ends_late.push((end - truth.1).max(0));
        self.ends_early.push((truth.1 - end).max(0));
        self.runs.push(((end - start) - (truth.1 - truth.0)).abs());
    }

    pub(in super::super) fn compared(mut self, case: &str, tier: Tier, tasks: usize) -> Measured {
        let mut figures = json!({
            "case": case,
            "tier": tier.name(),
            "tasks": tasks,
            "unseen": tasks - self.starts.len(),
        });
        let kinds = [("start", &mut self.starts), ("end", &mut self.ends), ("run", &mut self.runs)];
        for (name, errors) in kinds {
            errors.sort_unstable();
            for (of, percent) in [("p50", 50), ("p99", 99), ("max", 100)] {
                figures[format!("{name}_error_us_{of}")] =
                    json!(crate::commands::tasks::quantile(errors, percent));
            }
        }
        // No agent sees an end before it happens: told earlier than we saw it, we were late ourselves.
        for (name, errors) in [("late", &mut self.ends_late), ("early", &mut self.ends_early)] {
            errors.sort_unstable();
            figures[format!("end_{name}_us_p99")] = json!(crate::commands::tasks::quantile(errors, 99));
        }
        Measured { figures, errors: self }
    }
}

impl Detect {
    /// All tasks, so many at a time.
    pub(super) fn perform(&self, stage: &Stage, interruption: &Interruption) -> Result<Vec<Truth>> {
        let started = AtomicUsize::new(0);
        let truths = Mutex::new(Ok(Vec::new()));
        std::thread::scope(|scope| {
            for number in 0..self.at_once {
                let (started, truths) = (&started, &truths);
                scope.spawn(move || {
                    std::thread::sleep(APART * number);
                    loop {
                        let number = started.fetch_add(1, Ordering::Relaxed);
                        if number >= self.tasks as usize {
                            return;
                        }
                        let truth = one(stage, number, interruption);
                        let mut truths = truths.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
                        match (&mut *truths, truth) {
                            (Ok(list), Ok(truth)) => list.push(truth),
                            (_, Err(error)) => *truths = Err(error),
                            (Err(_), Ok(_)) => {}
                        }
                        // One that failed ends all.
                        if truths.is_err() {
                            return;
                        }
                    }
                });
            }
        });
        truths.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

/// One program, once nobody has started for a while: the agent looks at its quiet pace then.
pub(super) fn after_quiet(stage: &Stage, number: usize, interruption: &Interruption) -> Result<Truth> {
    interruption.sleep(QUIET)?;
    one(stage, number, interruption)
}

/// One program, from its first call into the driver to its exit. It takes less than a second, and who looks now and then sees the exit late,
/// so an interruption is looked for before it and after it.
fn one(stage: &Stage, number: usize, interruption: &Interruption) -> Result<Truth> {
    interruption.check()?;
    let work = stage.work(&["matmul", "--n", "512", "--json"])?;
    // Who is not root makes no cgroups; by polling the agent sees its programs all the same.
    let name = format!("program{number}");
    let cgroup = geteuid().is_root().then(|| Cgroup::new(&name, &[LABEL])).transpose()?;
    let mut command = if let Some(cgroup) = &cgroup { cgroup.inside(&work) } else { work };
    be_nice(PROGRAM_NICENESS);
    let mut child = command.stdout(Stdio::piped()).spawn().context("could not start a CUDA program")?;
    let pid = child.id();
    // A parent that waits for a busy processor sees the exit late. Programs inherit this, so only now.
    be_nice(NICENESS);
    // What it prints fits the pipe, so waiting first does not keep it from ending.
    let end_us = exit_of(&child)?;
    let status = child.wait().context("could not wait for a CUDA program")?;
    // Ctrl-C ends it, too, and that is no failure of its own.
    interruption.check()?;
    let mut printed = String::new();
    if let Some(mut stdout) = child.stdout.take() {
        std::io::Read::read_to_string(&mut stdout, &mut printed)
            .context("could not read what a CUDA program printed")?;
    }
    let report = program::report(status, &printed)?;
    let start_us = report["init"].as_f64().map(|seconds| (seconds * 1e6).round() as i64);
    let start_us = start_us.ok_or_else(|| Failure::new("a CUDA program did not say when it began"))?;
    Ok(Truth { pid, start_us, end_us })
}

/// When a child exited. It is only looked at: whoever waits for a child has the kernel put away what is left of it first, which takes time.
fn exit_of(child: &Child) -> Result<i64> {
    let exited = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
    rustix::io::retry_on_intr(|| waitid(WaitId::Pid(Pid::from_child(child)), exited))
        .context("could not wait for a CUDA program")?;
    Ok(now_us())
}

/// Sets how this thread, and what it starts, stands back for others. Who is not root stays as it is.
fn be_nice(niceness: i32) {
    let _ = rustix::process::setpriority_process(None, niceness);
}

/// How many processes wanted a processor in the last minute: beside many others, a program waits for one between the time it writes
/// down and the call it means, and that counts as an error of the agent's.
pub(in super::super) fn load() -> Option<f64> {
    std::fs::read_to_string("/proc/loadavg").ok()?.split(' ').next()?.parse().ok()
}

pub(in super::super) fn now_us() -> i64 {
    jiff::Timestamp::now().as_microsecond()
}

pub(in super::super) fn us(time: &str) -> Option<i64> {
    time.parse::<jiff::Timestamp>().ok().map(jiff::Timestamp::as_microsecond)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_end_is_told_late_or_early_and_either_is_an_error() {
        let mut errors = Errors::default();
        // The agent was 30 us later than we with the first, and 7 us earlier with the second; the third it did not see.
        for (told, truth) in [(Some((0, 130)), (0, 100)), (Some((2, 193)), (0, 200)), (None, (0, 300))] {
            errors.extend(told, truth);
        }
        let figures = errors.compared("errors", Tier::Polling, 3).figures;
        let of = |name: &str| figures[name].as_i64();
        assert_eq!([of("end_late_us_p99"), of("end_early_us_p99")], [Some(30), Some(7)]);
        assert_eq!(
            [of("end_error_us_p50"), of("end_error_us_max"), of("unseen")],
            [Some(7), Some(30), Some(1)]
        );
    }
}
