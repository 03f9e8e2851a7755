//! What came of a workload, as the world itself saw it: the judge of every policy.

use crate::world::Logged;
use sched::{Instant, Span};

/// One run.
#[derive(Debug)]
pub struct Outcome {
    /// The tasks, in the order of the workload.
    pub tasks: Vec<TaskOutcome>,
    /// What happened, if a log was kept.
    pub log: Vec<Logged>,
    /// The first promise that was broken.
    pub broken: Option<String>,
    /// What the scheduler says of the tasks it saw finish, in its own words. A process is known by the
    /// place of its task in the workload, as its start time.
    pub records: Vec<sched::Finished>,
    /// What every task did when, if a log was kept.
    pub stretches: Vec<Stretch>,
}

/// One task.
#[derive(Clone, Debug)]
pub struct TaskOutcome {
    /// What it is called.
    pub name: String,
    /// When it started.
    pub arrived: Instant,
    /// When its process exited.
    pub ended: Instant,
    /// How long it was allowed to take.
    pub deadline: Option<Span>,
    /// It ran out of memory, was killed, or never started.
    pub failed: bool,
    /// It ran out of GPU memory.
    pub out_of_memory: bool,
    /// Of a server: requests that missed. Its deadline is each request's, not that of its whole life.
    pub requests_missed: Option<usize>,
    /// How often it was made to stand.
    pub stops: u64,
    /// For how long.
    pub waited: Span,
}

/// What a task did during a stretch of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stretch {
    /// Which task, by its place in the workload.
    pub task: usize,
    /// What it did.
    pub kind: StretchKind,
    /// From then.
    pub from: Instant,
    /// Until then.
    pub until: Instant,
}

/// What a task can be doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StretchKind {
    /// Context and host work.
    Prepares,
    /// Input or output copy.
    Copies,
    /// Kernels, with the GPU to itself.
    Runs,
    /// Kernels, time-sliced with others.
    Shares,
    /// It stands, held.
    Waits,
}

impl TaskOutcome {
    /// From start to exit.
    pub fn turnaround(&self) -> Span {
        self.ended.since(self.arrived)
    }

    /// Whether it made its deadline, a server that of every request; none if it had none.
    pub fn hit(&self) -> Option<bool> {
        let in_time = |deadline| match self.requests_missed {
            Some(missed) => missed == 0,
            None => self.turnaround() <= deadline,
        };
        self.deadline.map(|deadline| !self.failed && in_time(deadline))
    }
}

impl Outcome {
    /// From the first arrival to the last end.
    pub fn makespan(&self) -> Span {
        let first = self.tasks.iter().map(|task| task.arrived).min().unwrap_or_default();
        let last = self.tasks.iter().map(|task| task.ended).max().unwrap_or_default();
        last.since(first)
    }

    /// Mean of start to exit.
    pub fn mean_turnaround(&self) -> Span {
        let sum: Span = self.tasks.iter().map(TaskOutcome::turnaround).sum();
        sum.scaled(1, self.tasks.len().max(1) as i64)
    }

    /// The turnaround that 99 tasks in 100 do not exceed.
    pub fn p99_turnaround(&self) -> Span {
        let mut spans: Vec<Span> = self.tasks.iter().map(TaskOutcome::turnaround).collect();
        spans.sort_unstable();
        let rank = (spans.len() * 99).div_ceil(100);
        spans.get(rank.saturating_sub(1)).copied().unwrap_or_default()
    }

    /// Deadlines met, of the tasks that have one; none if none has.
    pub fn hit_rate(&self) -> Option<f64> {
        let hits: Vec<bool> = self.tasks.iter().filter_map(TaskOutcome::hit).collect();
        let met = hits.iter().filter(|hit| **hit).count();
        (!hits.is_empty()).then(|| met as f64 / hits.len() as f64)
    }

    /// How often a task was made to stand.
    pub fn holds(&self) -> u64 {
        self.tasks.iter().map(|task| task.stops).sum()
    }
}
