//! How exactly the requests of a long-lived server are seen: each is a task, and the server wrote down when it began and ended.

use super::Interruption;
use super::cgroup::Cgroup;
use super::detect::{Errors, Measured, now_us, us};
use super::program::Program;
use crate::failure::Failure;
use crate::stage::{Stage, Tier};
use anyhow::Result;
use serde_json::Value;
use wire::agent::TaskLine;
use wire::client;

/// What is asked of the server: a kernel of two milliseconds, fifty times a second.
const SERVE: [&str; 6] = ["serve", "--kernel-us", "2000", "--every", "20ms", "--json"];

/// Runs a server, and compares its own record with the agent's.
pub(super) fn errors(stage: &Stage, requests: u32, interruption: &Interruption) -> Result<Measured> {
    let since_us = now_us();
    let cgroup = Cgroup::new("serve", &[("leeway.deadline", "1s"), ("leeway.task", "burst")])?;
    let count = requests.to_string();
    let mut server = Program::start(stage, &cgroup, &[SERVE.as_slice(), &["--requests", &count]].concat())?;
    let pid = server.pid();
    let printed = server.report(interruption)?;
    let tasks = || -> Vec<TaskLine> {
        let told: Vec<TaskLine> =
            client::get(&stage.socket(), &format!("/v1/tasks?since_us={since_us}")).unwrap_or_default();
        told.into_iter().filter(|task| task.pid == pid).collect()
    };
    interruption.wait_for("tasks that have ended", || tasks().iter().all(|task| task.end.is_some()))?;
    let told: Vec<(i64, i64)> =
        tasks().iter().filter_map(|task| Some((us(&task.start)?, us(task.end.as_ref()?)?))).collect();
    let served = printed["requests"].as_array().ok_or_else(|| Failure::new("a server served nobody"))?;
    let micros = |time: &Value| time.as_f64().map_or(0, |seconds| (seconds * 1e6).round() as i64);
    let mut errors = Errors::default();
    for request in served {
        let (start, end) = (micros(&request["start"]), micros(&request["end"]));
        // A request has a task if one began while it was served.
        let task = told.iter().find(|(began, _)| (start - 1000..end).contains(began));
        errors.extend(task.copied(), (start, end));
    }
    let mut measured =
        errors.compared("errors of a server's requests, each a task", Tier::Probes, served.len());
    measured.figures["tasks_told"] = told.len().into();
    Ok(measured)
}
