//! What `leeway sim --json` prints: one object.

use serde::Serialize;

/// One workload under one or all policies.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SimReport {
    /// Where the workload came from, in words: a preset, a story, a seed, an arrivals file.
    pub workload: String,
    /// How many tasks it has.
    pub tasks: usize,
    /// Deadline over solo run time, least and most, where the workload was generated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub alpha: Option<[f64; 2]>,
    /// What a clairvoyant scheduler could reach at most.
    pub bound: SimBound,
    /// One entry per policy, in the order they were asked for.
    pub policies: Vec<SimPolicy>,
}

/// What no scheduler can exceed.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SimBound {
    /// Share of the tasks with a deadline that could meet it; null if none has one.
    pub hit_rate: Option<f64>,
    /// From the first arrival to the last end, at best, if every task runs to its end.
    pub makespan_us: i64,
}

/// How one policy did.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SimPolicy {
    /// Its name on the command line.
    pub policy: String,
    /// From the first arrival to the last end.
    pub makespan_us: i64,
    /// Mean of end − arrival over all tasks.
    pub mean_turnaround_us: i64,
    /// 99th percentile of end − arrival over all tasks.
    pub p99_turnaround_us: i64,
    /// Share of the tasks with a deadline that met it; null if none has one.
    pub hit_rate: Option<f64>,
    /// How often a task was held.
    pub holds: u64,
    /// Tasks that ran out of GPU memory. They end early, so with any the makespan says little.
    pub failed: usize,
}
