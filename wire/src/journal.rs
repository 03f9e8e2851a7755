//! What the agent records: every fact, every decision, and every change of policy, one JSON object a line.
//!
//! A recording is a series of files, `<time>-<part>.jsonl`, each beginning with [`Line::Begin`]. The facts of a whole recording, fed to
//! the scheduler again, give the same actions. Times are microseconds since boot. Reasons are text: they are compared, not
//! understood.

use serde::{Deserialize, Serialize};

/// The layout's version.
pub const VERSION: u32 = 1;

/// One line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Line {
    /// The first line of every file.
    Begin {
        /// The layout's version.
        version: u32,
        /// The program's version: another one may decide otherwise.
        program: String,
        /// How long a burst must stay drained before it is over: the one setting of the scheduler that is the operator's.
        burst_gap_us: i64,
        /// Which file of the recording this is, from 0 on.
        part: u32,
    },
    /// A policy from here on, for one GPU or for all.
    Policy {
        /// When.
        at: u64,
        /// Which GPU; every one if absent.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        gpu: Option<u16>,
        /// Its name.
        policy: String,
    },
    /// A fact was taken in.
    Fact {
        /// Since when it is true.
        at: u64,
        /// What.
        fact: FactLine,
    },
    /// It was decided.
    Decide {
        /// When.
        at: u64,
        /// What is to be done.
        #[serde(skip_serializing_if = "Vec::is_empty", default)]
        actions: Vec<ActionLine>,
    },
    /// That many lines could not be written: what follows cannot be replayed.
    Lost(u64),
}

/// A process: its pid and its start.
pub type ProcessPair = (u32, u64);

/// A fact, as it is written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[expect(missing_docs, reason = "each is the scheduler's fact of the same name")]
pub enum FactLine {
    Container {
        container: u32,
        terms: TermsLine,
        paused: bool,
    },
    ContainerGone {
        container: u32,
    },
    ContainerPaused {
        container: u32,
    },
    ContainerResumed {
        container: u32,
    },
    ContainerStopping {
        container: u32,
    },
    ContainerStarted {
        container: u32,
    },
    Process {
        process: ProcessPair,
        container: Option<u32>,
        gpu: u16,
        launches_seen: bool,
        approximate: bool,
    },
    ProcessGone {
        process: ProcessPair,
    },
    Memory {
        process: ProcessPair,
        gpu: u16,
        bytes: u64,
    },
    Core {
        process: ProcessPair,
        gpu: u16,
        permille: u16,
    },
    Copying {
        process: ProcessPair,
        gpu: u16,
    },
    /// See the scheduler's facts.
    Submitted {
        process: ProcessPair,
        gpu: u16,
    },
    Drained {
        process: ProcessPair,
        gpu: u16,
    },
    AtLaunch {
        process: ProcessPair,
        gpu: u16,
    },
    AtAllocation {
        process: ProcessPair,
        gpu: u16,
        bytes: u64,
    },
    Stopped {
        process: ProcessPair,
        gpu: u16,
    },
    Resumed {
        process: ProcessPair,
        gpu: u16,
    },
    LetGo {
        process: ProcessPair,
        gpu: u16,
    },
    SwappedOut {
        process: ProcessPair,
        gpu: u16,
        bytes: u64,
    },
    SwappedIn {
        process: ProcessPair,
        gpu: u16,
        /// Whether it is held at its next allocation; in recordings from before there was that, it is not.
        #[serde(default)]
        asks: bool,
    },
    Heard,
    Gpu {
        gpu: u16,
        core_permille: u16,
        memory_used: u64,
        memory_total: u64,
    },
    Answer {
        request: u64,
        outcome: OutcomeLine,
    },
}

/// A container's terms, as they are written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TermsLine {
    /// How long one of its tasks may take.
    pub deadline_us: Option<i64>,
    /// What delimits a task.
    pub mode: crate::labels::Mode,
    /// How long one should take.
    pub expect_us: Option<i64>,
    /// How much GPU memory one needs.
    pub memory_bytes: Option<u64>,
    /// The longest hold.
    pub hold_max_us: Option<i64>,
    /// Whether its GPU memory may be swapped out; recordings from before there was swapping do not say.
    #[serde(default)]
    pub swap: bool,
    /// Whether it may be touched.
    pub managed: bool,
}

/// How a request ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OutcomeLine {
    /// It is held.
    Held,
    /// It runs.
    Released,
    /// It could not be done.
    Failed,
}

/// An action, as it is written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ActionLine {
    /// Its number.
    pub request: u64,
    /// The task's number.
    pub task: u64,
    /// `hold at launches`, `hold at allocations`, `hold at once`, `release`, `pass`, `swap out` or `swap in`.
    pub action: String,
    /// Why, with tasks by their numbers.
    pub because: String,
}
