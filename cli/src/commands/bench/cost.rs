//! What it costs to watch: the share of a core that the agent takes with its guard, and their memory, beside what programs started every 0.2 s would take.

use super::Interruption;
use super::crowd::Crowd;
use super::figures::{read, round};
use super::report::Table;
use crate::failure::Failure;
use crate::stage::{Stage, Tier};
use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// The unit of the kernel's account of processor time: a hundredth of a second on every Linux.
const TICKS_PER_SECOND: f64 = 100.0;
/// How often the paper's monitor starts its programs.
const SPAWN_EVERY: Duration = Duration::from_millis(200);
/// How many rounds of programs are measured.
const SPAWN_ROUNDS: u32 = 20;
/// For how many containers the paper's monitor asks.
const SPAWN_CONTAINERS: f64 = 10.0;
/// `nvidia-smi` on an H200, where there is none to measure.
const NVIDIA_SMI_MS: f64 = 26.0;
/// The agent's thread that looks at the GPUs.
const LOOKER: &str = "gpu";

/// How long after their start containers only do what they do all the time.
pub(super) const SETTLED_AFTER: Duration = Duration::from_secs(2);
/// What a case is called.
pub(super) const CASE: &str = "cost of the agent";

/// What a process has used, with those that it started: the agent, which never runs without its guard.
#[derive(Clone, Copy, Default)]
pub(super) struct Used {
    pub(super) cpu_ns: u64,
    /// How often the thread that looks was woken, and what that took: nearly always, a look each.
    looks: u64,
    looking_ns: u64,
}

/// What the agent uses from one moment on.
pub(super) struct Meter {
    agent: u32,
    before: Used,
    since: Instant,
}

/// How the agent looks at the GPU.
pub(super) struct Looks {
    pub(super) per_second: f64,
    pub(super) cpu_us: f64,
}

impl Meter {
    pub(super) fn start(stage: &Stage) -> Result<Self> {
        let agent = stage.agent_pid()?;
        Ok(Self { agent, before: used(agent)?, since: Instant::now() })
    }

    /// Its share of a core until now.
    pub(super) fn cpu_ratio(&self) -> Result<f64> {
        // A thread that ended meanwhile took its account along.
        let cpu_ns = used(self.agent)?.cpu_ns.saturating_sub(self.before.cpu_ns);
        Ok(round(cpu_ns as f64 / self.since.elapsed().as_nanos() as f64))
    }

    /// Its memory.
    pub(super) fn rss_bytes(&self) -> Result<u64> {
        let children = household(self.agent)?.into_iter().skip(1);
        // Of one that has just ended there is none.
        Ok(rss_bytes(self.agent)? + children.filter_map(|pid| rss_bytes(pid).ok()).sum::<u64>())
    }

    pub(super) fn looks(&self) -> Result<Looks> {
        let now = used(self.agent)?;
        let looks = now.looks.saturating_sub(self.before.looks) as f64;
        let cpu_us = now.looking_ns.saturating_sub(self.before.looking_ns) as f64 / 1e3 / looks.max(1.0);
        Ok(Looks { per_second: round(looks / self.since.elapsed().as_secs_f64()), cpu_us: round(cpu_us) })
    }
}

/// Measures the agent while a crowd holds GPU memory, and where that is Docker's, what asking Docker would take.
pub(super) fn of_agent(
    stage: &Stage,
    tier: Tier,
    containers: usize,
    plain: bool,
    during: Duration,
    interruption: &Interruption,
) -> Result<Vec<Value>> {
    let crowd = Crowd::gather(stage, containers, plain, interruption)?;
    let tasks = || stage.node().map_or(0, |node| node.gpus.iter().map(|gpu| gpu.tasks).sum());
    interruption.wait_for("all containers on the GPU", || tasks() >= containers)?;
    // What a start costs is not what watching costs.
    interruption.sleep(SETTLED_AFTER)?;
    let meter = Meter::start(stage)?;
    interruption.sleep(during)?;
    let (cpu_ratio, looks) = (meter.cpu_ratio()?, meter.looks()?);
    let mut results = vec![json!({
        "case": CASE,
        "tier": tier.name(),
        "containers": containers,
        "kind": crowd.kind(),
        "agent_cpu_ratio": cpu_ratio,
        "agent_rss_bytes": meter.rss_bytes()?,
        "looks_per_second": looks.per_second,
        "look_cpu_us": looks.cpu_us,
        "look_cpu_us_per_container": round(looks.cpu_us / containers.max(1) as f64),
    })];
    results.extend(crowd.first_id().map(|id| of_spawning(Some(id))));
    drop(crowd);
    interruption.wait_for("an empty GPU", || tasks() == 0)?;
    Ok(results)
}

/// What `nvidia-smi` and `docker top` every 0.2 s would take, as far as they are here. Of Docker only its client is counted: what the
/// daemon does for each question comes on top.
pub(super) fn of_spawning(container: Option<&str>) -> Value {
    let smi = cpu_ms("nvidia-smi", &["--query-compute-apps=pid,used_memory", "--format=csv"]);
    let top = container.and_then(|id| cpu_ms("docker", &["top", id]));
    let ratio = |ms: f64| ms / 1e3 / SPAWN_EVERY.as_secs_f64();
    json!({
        "case": "cost of nvidia-smi and docker top every 0.2 s",
        "containers": SPAWN_CONTAINERS as u32,
        "nvidia_smi_ms": smi.unwrap_or(NVIDIA_SMI_MS),
        "nvidia_smi_measured_here": smi.is_some(),
        "docker_top_ms": top,
        "cpu_ratio": round(ratio(smi.unwrap_or(NVIDIA_SMI_MS)) + ratio(top.unwrap_or(0.0) * SPAWN_CONTAINERS)),
    })
}

/// Processor time of one run of a program, in milliseconds; nothing if it is not here.
fn cpu_ms(program: &str, words: &[&str]) -> Option<f64> {
    let us = std::process::id();
    let before = ticks_of_children(us)?;
    for _ in 0..SPAWN_ROUNDS {
        let mut command = Command::new(program);
        command.args(words).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command.status().ok().filter(std::process::ExitStatus::success)?;
    }
    let taken = ticks_of_children(us)? - before;
    Some(taken as f64 / TICKS_PER_SECOND * 1000.0 / f64::from(SPAWN_ROUNDS))
}

/// What all its threads have used: the kernel counts it exactly, not by ticks.
pub(super) fn used(pid: u32) -> Result<Used> {
    let mut used = Used::default();
    for thread in household(pid)?.into_iter().flat_map(threads) {
        let account = read_or_nothing(&thread.join("schedstat"));
        let mut figures = account.split_whitespace().filter_map(|figure| figure.parse::<u64>().ok());
        let (cpu_ns, turns) = (figures.next().unwrap_or(0), figures.nth(1).unwrap_or(0));
        used.cpu_ns += cpu_ns;
        if read_or_nothing(&thread.join("comm")).trim_end() == LOOKER {
            (used.looks, used.looking_ns) = (turns, cpu_ns);
        }
    }
    Ok(used)
}

/// A process and those that it has started, which still run.
fn household(pid: u32) -> Result<Vec<u32>> {
    let own = threads(pid);
    ensure!(!own.is_empty(), "the agent went away");
    let children = own.iter().map(|thread| read_or_nothing(&thread.join("children"))).collect::<String>();
    Ok(std::iter::once(pid).chain(children.split_whitespace().filter_map(|pid| pid.parse().ok())).collect())
}

/// What the kernel shows of each thread.
fn threads(pid: u32) -> Vec<PathBuf> {
    let all = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    all.map(|thread| thread.path()).collect()
}

/// Nothing of a thread that has just ended.
fn read_or_nothing(file: &Path) -> String {
    std::fs::read_to_string(file).unwrap_or_default()
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

/// One line for each number of containers.
pub(super) fn table(costs: &[Value]) -> Table {
    let mut table =
        Table::new(CASE, &["CONTAINERS", "KIND", "TIER", "CPU", "MEMORY", "LOOKS A SECOND", "CPU A LOOK"]);
    for cost in costs {
        let figure = |name: &str| read(cost, name);
        let word = |name: &str| cost[name].as_str().unwrap_or_default().to_owned();
        let cells = [
            cost["containers"].to_string(),
            word("kind"),
            word("tier"),
            format!("{:.2} %", figure("agent_cpu_ratio").scaled(100.0)),
            format!("{:.1} MiB", figure("agent_rss_bytes").scaled(1.0 / f64::from(1 << 20))),
            format!("{:.0}", figure("looks_per_second")),
            format!("{:.0} us", figure("look_cpu_us")),
        ];
        table.row(cost.clone(), cells);
    }
    table
}
