//! What the agent says over its socket: one JSON object per task, event, container and node.

use crate::cluster::{MasterLine, NodeRank};
use crate::labels::Mode;
use serde::{Deserialize, Serialize};

/// The places of an agent when nobody says otherwise.
pub const SOCKET: &str = "/run/leeway/agent.sock";

/// One task, running or finished: `tasks --json`, one object a line.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TaskLine {
    /// The container's full id; null for a process outside any container.
    pub container: Option<String>,
    /// The container's name; null for a process outside any container.
    pub name: Option<String>,
    /// The process, as the host sees it.
    pub pid: u32,
    /// The GPU, by index.
    pub gpu: u16,
    /// What delimits the task.
    pub mode: Mode,
    /// When it started, as RFC 3339.
    pub start: String,
    /// When it ended; null while it runs.
    pub end: Option<String>,
    /// How long it took, or has taken so far.
    pub run_us: i64,
    /// How long it may take; null if it has no deadline.
    pub deadline_us: Option<i64>,
    /// What is left of that, or was left at the end; negative once missed.
    pub float_us: Option<i64>,
    /// Whether it made its deadline; null while it runs in time, and without a deadline.
    pub hit: Option<bool>,
    /// How long holds kept it standing.
    pub held_us: i64,
    /// It stands because of a hold.
    #[serde(default)]
    pub held: bool,
    /// The most GPU memory it had, its context not counted.
    pub gpu_memory_bytes: u64,
    /// The most of the GPU's core it was seen to use, from 0 to 1.
    pub gpu_core_ratio: f64,
    /// Its start was not seen.
    pub approximate: bool,
}

/// One piece of news: `events --json`, one object a line.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EventLine {
    /// When it happened, as RFC 3339.
    pub time: String,
    /// What happened: `started`, `missed`, `finished`, …
    pub event: String,
    /// The container's full id; null for a process outside any container.
    pub container: Option<String>,
    /// The container's name.
    pub name: Option<String>,
    /// The node it happened on.
    pub node: String,
    /// Why, as a sentence.
    pub reason: String,
    /// The process, where there is one.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub pid: Option<u32>,
    /// The GPU, where there is one.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub gpu: Option<u16>,
}

/// What the one who asks may do: `/v1/access`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct AccessLine {
    /// Change the policy, and release containers.
    pub may_change: bool,
}

/// How many deadlines were met and missed in a stretch of time: `/v1/history`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HistoryLine {
    /// When the stretch begins, as RFC 3339.
    pub time: String,
    /// Tasks that ended in it and made their deadline.
    pub hits: u64,
    /// Those that did not.
    pub misses: u64,
}

/// What has changed: `/v1/live`, one server-sent event each. The first has everything. A master tells of itself and of nodes, an agent
/// of its machine, containers and tasks; both have news.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct LiveLine {
    /// When it was so, as RFC 3339.
    pub time: String,
    /// The first: whatever was known before is over.
    pub all: bool,
    /// The machine, if it has changed.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub node: Option<NodeLine>,
    /// The master, if it has changed.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub master: Option<MasterLine>,
    /// The node list in rank order, if something in it has changed.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub nodes: Option<Vec<NodeRank>>,
    /// Containers that are new, or have changed.
    pub containers: Vec<ContainerLine>,
    /// Ids of containers that are gone.
    pub gone: Vec<String>,
    /// Tasks that are new, have changed, or have ended. A task is a pid, a GPU and a start.
    pub tasks: Vec<TaskLine>,
    /// The news.
    pub events: Vec<EventLine>,
}

/// What a container does now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// It has no task.
    Idle,
    /// A task of it runs.
    Running,
    /// Its tasks are kept from submitting more GPU work.
    Held,
    /// It is stopped as a whole.
    Frozen,
    /// Its GPU memory is in host memory.
    Swapped,
}

impl State {
    /// Its name in tables and JSON.
    pub const fn name(self) -> &'static str {
        match self {
            State::Idle => "idle",
            State::Running => "running",
            State::Held => "held",
            State::Frozen => "frozen",
            State::Swapped => "swapped",
        }
    }
}

/// The part of a container that only an agent knows; `ps --json` has the same keys.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Live {
    /// The GPU its latest task used; null before its first.
    pub gpu: Option<u16>,
    /// What it does now.
    pub state: State,
    /// The least float of its running tasks, else the float of its latest finished one.
    pub float_us: Option<i64>,
    /// Finished tasks that made their deadline, since the agent knows the container.
    pub hits: u64,
    /// Finished tasks that did not.
    pub misses: u64,
}

/// One container: `/v1/containers`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ContainerLine {
    /// The full id.
    pub id: String,
    /// Its name.
    pub name: String,
    /// The image it was made from; null for a plain cgroup.
    #[serde(default)]
    pub image: Option<String>,
    /// The Kubernetes namespace of its pod, where it has one.
    #[serde(default)]
    pub namespace: Option<String>,
    /// Its pod's name.
    #[serde(default)]
    pub pod: Option<String>,
    /// The deadline that counts now, override or label.
    pub deadline_us: Option<i64>,
    /// What delimits its tasks.
    pub mode: Mode,
    /// Whether it may be touched at all.
    pub managed: bool,
    /// Tasks that run now.
    pub tasks: usize,
    /// When the first of them is due, as RFC 3339; null if none has a deadline.
    #[serde(default)]
    pub due: Option<String>,
    /// Why it waits, as a clause; null while it does not.
    #[serde(default)]
    pub reason: Option<String>,
    /// GPU memory its tasks have allocated now, contexts not counted.
    #[serde(default)]
    pub gpu_memory_bytes: u64,
    /// Share of a GPU's core they use now, from 0 to 1; more than 1 on several GPUs.
    #[serde(default)]
    pub gpu_core_ratio: f64,
    /// What only an agent knows.
    #[serde(flatten)]
    pub live: Live,
}

/// The machine: `/v1/node`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NodeLine {
    /// Its name.
    pub node: String,
    /// The agent's version.
    pub version: String,
    /// When the agent started.
    pub since: String,
    /// How tasks are seen: `probes`, `polling` or `none`.
    pub tier: String,
    /// How far a start or an end may be off behind NVML, in this tier.
    pub error_us: i64,
    /// The policy that runs.
    pub policy: String,
    /// Whether Docker answers.
    pub docker: bool,
    /// Events of probes that the kernel could not tell.
    #[serde(default)]
    pub probe_events_dropped: u64,
    /// Its GPUs.
    pub gpus: Vec<GpuLine>,
}

/// One GPU of the machine.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GpuLine {
    /// Its index.
    pub gpu: u16,
    /// The vendor's name for it.
    pub name: String,
    /// The vendor's id of it.
    pub uuid: String,
    /// The ids of its MIG devices, where it is divided.
    pub mig: Vec<String>,
    /// It does not answer any more.
    pub lost: bool,
    /// GPU memory there is.
    pub memory_total_bytes: u64,
    /// GPU memory in use, by anyone.
    pub memory_used_bytes: u64,
    /// Share of the last 200 ms or so in which some kernel ran, from 0 to 1.
    pub core_ratio: f64,
    /// Whether it takes another container.
    pub provisionable: bool,
    /// The least of (deadline − forecast) over its containers; null: unlimited.
    pub float_us: Option<i64>,
    /// Tasks that run now.
    pub tasks: usize,
}

/// One thing that was looked at: `doctor --json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Check {
    /// What.
    pub name: String,
    /// Whether it is as it should be.
    pub ok: bool,
    /// What was found.
    pub detail: String,
    /// What to do about it; null where there is nothing to do.
    pub help: Option<String>,
}

/// What this machine can do: `doctor --json`, one object.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Doctor {
    /// How tasks will be seen: `probes`, `polling` or `none`.
    pub tier: String,
    /// What was looked at.
    pub checks: Vec<Check>,
}

/// Which policy runs: `/v1/policy`, `policy get --json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PolicyLine {
    /// The policy of every GPU that has none of its own.
    pub policy: String,
    /// The policy of each GPU.
    pub gpus: Vec<GpuPolicy>,
}

/// The policy of one GPU.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GpuPolicy {
    /// Its index.
    pub gpu: u16,
    /// The policy's name.
    pub policy: String,
}

/// What `PUT /v1/policy` is told.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PolicyWanted {
    /// The policy's name.
    pub policy: String,
    /// For this GPU only.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub gpu: Option<u16>,
}

/// What `POST /v1/release` is told.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReleaseWanted {
    /// Name, id or start of the id; everything that is held if absent.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub container: Option<String>,
}

/// Who was let go: `release --json`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReleasedLine {
    /// The names of containers that were held.
    pub released: Vec<String>,
}

/// Why a container is, or is not, running: `/v1/containers/ID/explain`, `explain --json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ExplainLine {
    /// The container's full id.
    pub container: String,
    /// Its name.
    pub name: String,
    /// Whether it may be held at all.
    pub managed: bool,
    /// Docker or a person paused it.
    pub paused: bool,
    /// It was told to stop.
    pub stopping: bool,
    /// The deadline that counts now.
    pub deadline_us: Option<i64>,
    /// How long one of its tasks takes; null if nobody knows.
    pub forecast_us: Option<i64>,
    /// What that comes from: `3 runs`, `what was declared`.
    pub forecast_from: Option<String>,
    /// Its tasks.
    pub tasks: Vec<ExplainedTask>,
    /// All of it, for people.
    pub sentences: Vec<String>,
}

/// One task of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ExplainedTask {
    /// The process.
    pub pid: u32,
    /// The GPU.
    pub gpu: u16,
    /// The policy that runs there.
    pub policy: String,
    /// `running`, `held` or `frozen`.
    pub state: State,
    /// Since when, as RFC 3339.
    pub since: String,
    /// The same, as a length.
    pub since_us: i64,
    /// Why it waits; null while it runs.
    pub reason: Option<String>,
    /// Who runs before it.
    pub ahead: Vec<AheadLine>,
    /// What is left of its deadline.
    pub float_us: Option<i64>,
    /// How much of it is left to do; null if nobody knows.
    pub left_us: Option<i64>,
    /// How long holds kept it standing so far.
    pub held_us: i64,
    /// When it should run, from now; null while it runs, and where nobody knows.
    pub runs_in_us: Option<i64>,
}

/// Somebody ahead.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AheadLine {
    /// Its container's name.
    pub name: String,
    /// The process.
    pub pid: u32,
    /// Whether it runs, or waits as well.
    pub running: bool,
    /// What is left of its deadline.
    pub float_us: Option<i64>,
    /// How much of it is left to do; null if nobody knows.
    pub left_us: Option<i64>,
}
