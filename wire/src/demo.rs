//! What `leeway demo --json` prints: one object a line. The key `demo` says which kind.

use crate::agent::EventLine;
use serde::Serialize;

/// One line.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "demo", rename_all = "lowercase")]
pub enum DemoLine {
    /// What the demonstration runs on: the first line.
    Stage(DemoStage),
    /// One piece of the agent's news about one of the containers, as it happens.
    Event(DemoEvent),
    /// One container's row of the closing table, from the agent's ledger.
    Row(DemoRow),
    /// The last line.
    End(DemoEnd),
}

/// What the demonstration runs on.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct DemoStage {
    /// What the containers are: `docker`, `cgroups` or `processes`.
    pub on: String,
    /// Why nothing better is used, a sentence each.
    pub because: Vec<String>,
    /// What the driver calls the GPU.
    pub gpu: String,
    /// How much memory it has.
    pub gpu_memory_bytes: u64,
    /// The agent's policy.
    pub policy: String,
    /// The agent's socket, while the demonstration lasts.
    pub socket: String,
}

/// One piece of news.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct DemoEvent {
    /// The container, by the name the demonstration gives it.
    pub who: String,
    /// The agent's own line.
    #[serde(flatten)]
    pub event: EventLine,
}

/// One container at the end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DemoRow {
    /// The container, by the name the demonstration gives it.
    pub who: String,
    /// Its full id; null for a plain process.
    pub container: Option<String>,
    /// How long a task of it may take; null if it has no deadline.
    pub deadline_us: Option<i64>,
    /// Its finished tasks.
    pub tasks: usize,
    /// How long they took together.
    pub run_us: i64,
    /// The least of their floats; null without a deadline.
    pub float_us: Option<i64>,
    /// How many made their deadline.
    pub hits: usize,
    /// How many did not.
    pub misses: usize,
}

/// What all of them made of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DemoEnd {
    /// Tasks that made their deadline.
    pub hits: usize,
    /// Tasks that did not.
    pub misses: usize,
    /// How long the show took.
    pub show_us: i64,
}
