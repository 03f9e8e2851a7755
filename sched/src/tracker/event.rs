//! What happened: the news that logs, tables, ledgers and people are told.

use crate::action::Reason;
use crate::fact::{ContainerId, GpuId, Process};
use crate::task::{Deadline, TaskId};
use crate::time::{Instant, Span};

/// One piece of news.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Event {
    /// A task started.
    Started {
        /// Which task.
        task: TaskId,
        /// When.
        at: Instant,
    },
    /// A task's deadline passed before it was done. Said at that moment, not at its end.
    Missed {
        /// Which task.
        task: TaskId,
        /// When its deadline was.
        at: Instant,
    },
    /// A task came to a stand because of a hold.
    Held {
        /// Which task.
        task: TaskId,
        /// When.
        at: Instant,
        /// Why, unless it was stopped by a hold that had been lifted meanwhile.
        because: Option<Reason>,
    },
    /// A task that stood still because of a hold goes on.
    Released {
        /// Which task.
        task: TaskId,
        /// When.
        at: Instant,
        /// Why.
        because: Option<Reason>,
        /// How long it stood.
        waited: Span,
    },
    /// A task's GPU memory was swapped out.
    SwappedOut {
        /// Which task.
        task: TaskId,
        /// When.
        at: Instant,
        /// Why, unless it was found so.
        because: Option<Reason>,
        /// How much room it takes to bring it back.
        bytes: u64,
    },
    /// A task's GPU memory is back.
    SwappedIn {
        /// Which task.
        task: TaskId,
        /// When.
        at: Instant,
        /// Why.
        because: Option<Reason>,
        /// How long it was out.
        away: Span,
    },
    /// A task is over.
    Finished(Finished),
    /// A process whose one task outlived several deadlines, with gaps in its work: it looks like a server, whose requests
    /// would each have a deadline in `burst` mode. Said once for a process.
    Suggested {
        /// Which task.
        task: TaskId,
        /// When.
        at: Instant,
        /// How often it came back to the GPU after a while without work.
        gaps: u32,
    },
    /// What looked like a task was none: only now it is known what delimits its container's tasks.
    Forgotten {
        /// Which task.
        task: TaskId,
    },
}

/// A finished task, as the ledger keeps it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Finished {
    /// Which task.
    pub task: TaskId,
    /// The process that did it.
    pub process: Process,
    /// Whose it was.
    pub container: Option<ContainerId>,
    /// The GPU it used.
    pub gpu: GpuId,
    /// When it started.
    pub start: Instant,
    /// When it ended.
    pub end: Instant,
    /// Its start was not seen.
    pub approximate: bool,
    /// How long it was allowed to take.
    pub deadline: Option<Deadline>,
    /// What was left of that; negative if it missed.
    pub float: Option<Span>,
    /// How long holds kept it standing.
    pub waited: Span,
    /// How long it really ran: neither held nor waiting for others' kernels.
    pub served: Span,
    /// How often it was held.
    pub stops: u32,
    /// The most GPU memory it had.
    pub memory_peak: u64,
    /// The most of the GPU's core it was seen to use, in thousandths.
    pub core_permille: u16,
}

impl Finished {
    /// Whether it made its deadline; none if it had none. The end decides: a miss that was announced
    /// because word of the end came late is taken back here.
    pub fn hit(&self) -> Option<bool> {
        self.float.map(|float| float >= Span::ZERO)
    }
}
