//! What it costs to watch: the agent's share of a core and its memory, beside what programs started every 0.2 s would take.

use crate::failure::Failure;
use crate::stage::{Player, Stage, wait_for};
use anyhow::{Context, Result};
use serde_json::{Value, json};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// The unit of the kernel's account of processor time: a hundredth of a second on every Linux.
const TICKS_PER_SECOND: f64 = 100.0;
/// How often the paper's monitor starts its programs.
const SPAWN_EVERY: Duration = Duration::from_millis(200);
/// How many rounds of programs are measured.
const SPAWN_ROUNDS: u32 = 10;
/// `nvidia-smi` on an H200, where there is none to measure.
const NVIDIA_SMI_MS: f64 = 26.0;

/// Puts programs on the GPU, and measures the agent while they hold memory there.
pub(super) fn of_agent(stage: &Stage, programs: usize, during: Duration) -> Result<Value> {
    // A day: they go when we are done with them.
    let hold = ["hold", "--memory", "1MiB", "--for", "24h"];
    let mut players = (0..programs)
        .map(|_| Player::start(stage.work(&hold)?.stdout(Stdio::null())))
        .collect::<Result<Vec<Player>>>()?;
    let tasks = || stage.node().map_or(0, |node| node.gpus.iter().map(|gpu| gpu.tasks).sum());
    wait_for("all programs on the GPU", || tasks() >= programs)?;
    // What a start costs is not what watching costs.
    std::thread::sleep(Duration::from_secs(1));
    let agent = stage.agent.pid();
    let (before, start) = (cpu_ns(agent)?, Instant::now());
    std::thread::sleep(during);
    let ratio = (cpu_ns(agent)? - before) as f64 / start.elapsed().as_nanos() as f64;
    let rss_bytes = rss_bytes(agent)?;
    players.iter_mut().for_each(Player::tell_to_end);
    drop(players);
    wait_for("an empty GPU", || tasks() == 0)?;
    Ok(json!({
        "case": "cost of the agent",
        "programs": programs,
        "agent_cpu_ratio": ratio,
        "agent_rss_bytes": rss_bytes,
    }))
}

/// What `nvidia-smi` and `docker top` every 0.2 s would take, as far as they are here.
pub(super) fn of_spawning() -> Value {
    let smi = cpu_ms("nvidia-smi", &["--query-compute-apps=pid,used_memory", "--format=csv"]);
    let docker = cpu_ms("docker", &["version", "--format", "{{.Client.Version}}"]);
    let ratio = |ms: f64| ms / SPAWN_EVERY.as_secs_f64() / 1000.0;
    let top = docker.map(|ms| ms * 10.0);
    json!({
        "case": "cost of nvidia-smi and docker top every 0.2 s",
        "nvidia_smi_ms": smi.unwrap_or(NVIDIA_SMI_MS),
        "nvidia_smi_measured_here": smi.is_some(),
        "docker_ms": docker,
        "docker_calls_for_ten_containers": 10,
        "cpu_ratio": ratio(smi.unwrap_or(NVIDIA_SMI_MS)) + top.map_or(0.0, ratio),
    })
}

/// Processor time of one run of a program, in milliseconds; nothing if it is not here. Docker's client takes as long
/// whatever it asks, so it need not have ten containers to ask about.
fn cpu_ms(program: &str, words: &[&str]) -> Option<f64> {
    let us = std::process::id();
    let before = ticks_of_children(us)?;
    for _ in 0..SPAWN_ROUNDS {
        let mut command = Command::new(program);
        command.args(words).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status().ok()?;
    }
    let taken = ticks_of_children(us)? - before;
    Some(taken as f64 / TICKS_PER_SECOND * 1000.0 / f64::from(SPAWN_ROUNDS))
}

/// Processor time of all threads of a process, in nanoseconds: the kernel counts it exactly, not by ticks.
fn cpu_ns(pid: u32) -> Result<u64> {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).context("the agent went away")?;
    let time = |thread: std::fs::DirEntry| {
        let text = std::fs::read_to_string(thread.path().join("schedstat")).ok()?;
        text.split(' ').next()?.parse::<u64>().ok()
    };
    Ok(threads.flatten().filter_map(time).sum())
}

/// Processor time of the programs that a process started and waited for: the 16th and 17th fields of its `stat`.
fn ticks_of_children(pid: u32) -> Option<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // After the name, which may hold anything, the 3rd field comes first.
    let fields = stat.rsplit_once(')')?.1.split_whitespace().skip(13);
    Some(fields.take(2).filter_map(|field| field.parse::<u64>().ok()).sum())
}

fn rss_bytes(pid: u32) -> Result<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).context("the agent went away")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    Ok(kib.ok_or_else(|| Failure::new("the kernel does not say how much memory the agent has"))? * 1024)
}
