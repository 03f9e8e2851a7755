//! What a master says over its socket, and what it is asked: JSON.

use serde::{Deserialize, Serialize};

/// The master's socket when nobody says otherwise.
pub const SOCKET: &str = "/run/leeway/master.sock";

/// What a master has news of.
pub const EVENTS: [&str; 3] = ["placed", "refused", "moved"];

/// Which service a container belongs to, as swarm labels its containers.
pub const SWARM_SERVICE: &str = "com.docker.swarm.service.name";
/// How a service came to its node: `auto`, or the node's name.
pub const NODE: &str = "leeway.node";
/// One placement; a worker that admitted it knows its container by this label.
pub const PLACEMENT: &str = "leeway.placement";
/// What a container runs: what is learnt of one is believed of the next.
pub const KIND: &str = "leeway.kind";

/// One GPU of the node list: `nodes --json`, one object a line in rank order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeRank {
    /// The node's name.
    pub node: String,
    /// Which of its GPUs.
    pub gpu: u8,
    /// Whether it takes another container.
    pub provisionable: bool,
    /// Why not, or that it does: `ready`, `missed`, `memory full`, `core full`, `silent`, `barred` (the engine does not use the node).
    pub state: String,
    /// The same as a sentence; null while it does.
    #[serde(default)]
    pub reason: Option<String>,
    /// Free GPU memory, less what is reserved.
    pub gpu_memory_free_bytes: u64,
    /// GPU memory there is.
    pub gpu_memory_total_bytes: u64,
    /// What a newcomer may use up; null: unlimited.
    pub float_us: Option<i64>,
    /// How old its report is.
    pub age_us: i64,
    /// The services that are placed on the node, on whichever of its GPUs.
    #[serde(default)]
    pub services: Vec<String>,
}

/// What a placement is asked for: `POST /v1/place` and `POST /v1/placements`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PlaceWanted {
    /// How long its tasks may take.
    pub deadline_us: Option<i64>,
    /// GPU memory it needs; 0 if nobody knows.
    pub gpu_memory_bytes: u64,
    /// `spread`, `memory` or `best-fit`; the master's own if absent.
    pub strategy: Option<String>,
    /// How long a task takes, as declared; believed until one was measured.
    pub expect_us: Option<i64>,
    /// What it runs, where that is known.
    pub kind: Option<String>,
    /// The node's name; `auto` or absent: the best.
    pub node: Option<String>,
}

/// Where a container would go: `place --json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlaceLine {
    /// The node; null if none fits.
    pub node: Option<String>,
    /// Which of its GPUs.
    pub gpu: Option<u8>,
    /// Why, as a sentence.
    pub reason: String,
    /// Every GPU of every node, in rank order.
    pub nodes: Vec<PlaceNode>,
}

/// One GPU of a dry run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlaceNode {
    /// The node's name.
    pub node: String,
    /// Which of its GPUs.
    pub gpu: u8,
    /// Whether it was chosen.
    pub chosen: bool,
    /// Why, or why not.
    pub reason: String,
}

/// A place that was found, reserved, and admitted by its worker: `POST /v1/placements`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Placed {
    /// The node's name.
    pub node: String,
    /// What the engine calls it; empty without an engine.
    pub engine_id: String,
    /// Which of its GPUs.
    pub gpu: u8,
    /// Why, as a sentence.
    pub reason: String,
    /// Names the placement; the container has it as the label `leeway.placement`.
    pub placement: String,
    /// Workers that refused before.
    pub refusals: u32,
    /// How long it took to find, with the worker's word.
    pub took_us: i64,
}

/// A service to be created: `POST /v1/services`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunWanted {
    /// Where, and what for.
    pub place: PlaceWanted,
    /// Names the request: who asks again with the same name means the same service.
    pub request: String,
    /// The engine's own description of the service.
    pub spec: serde_json::Value,
}

/// A service that was created: `run --node`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunLine {
    /// The engine's id of it.
    pub service: String,
    /// Its name.
    pub name: String,
    /// Where it is.
    pub placed: Placed,
    /// How long the engine took to create it.
    pub created_us: i64,
}

/// A master: `/v1/master`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MasterLine {
    /// Its version.
    pub version: String,
    /// Where agents reach it.
    pub address: String,
    /// Whether it places: the engine's leader is where it is.
    pub active: bool,
    /// The engine: `swarm` or `none`.
    pub engine: String,
    /// Where the engine's leader is; empty if it has none.
    #[serde(default)]
    pub leader: String,
    /// Agents that report.
    pub agents: usize,
    /// Reports taken in so far, heartbeats too.
    pub reports: u64,
    /// Their bytes, without gRPC's and TLS's own.
    pub report_bytes: u64,
    /// How old reports were when they came, at the 99th percentile: only where senders say when they sent them.
    pub report_lag_p99_us: Option<u64>,
    /// Places found so far, with the worker's word.
    #[serde(default)]
    pub placements: u64,
    /// How long that took, at the median and the 99th percentile; null before the first.
    #[serde(default)]
    pub placement_p50_us: Option<u64>,
    /// See above.
    #[serde(default)]
    pub placement_p99_us: Option<u64>,
}
