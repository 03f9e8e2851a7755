//! What is to be done, and why: every decision carries its reason, in the same words everywhere.

use crate::fact::RequestId;
use crate::task::{Gate, TaskId};
use crate::time::Span;
use alloc::string::String;
use core::fmt::Write;

/// One thing for the actuator to do. Its outcome comes back as a fact, under the same number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Keep the task from submitting more GPU work.
    Hold {
        /// The number to answer under.
        request: RequestId,
        /// Which task.
        task: TaskId,
        /// What its gate stops.
        gate: Gate,
        /// Why.
        because: Reason,
    },
    /// Let the task go.
    Release {
        /// The number to answer under.
        request: RequestId,
        /// Which task.
        task: TaskId,
        /// Why.
        because: Reason,
    },
    /// Let the task make the one allocation it stands at; its gate stays shut. Nobody waits for an answer.
    Pass {
        /// Its number.
        request: RequestId,
        /// Which task.
        task: TaskId,
        /// Why.
        because: Reason,
    },
    /// Take the GPU memory of the task's process off the GPU. That it is done comes back as a fact of its own; that it cannot be, as
    /// the answer.
    SwapOut {
        /// The number to answer under.
        request: RequestId,
        /// Which task.
        task: TaskId,
        /// Why.
        because: Reason,
    },
    /// Bring it back; there is room. Answered in the same way.
    SwapIn {
        /// The number to answer under.
        request: RequestId,
        /// Which task.
        task: TaskId,
        /// Its gate is to be shut for allocations before it is back: it has not made all of them.
        asks: bool,
        /// Why.
        because: Reason,
    },
}

impl Action {
    /// Which task it is about.
    pub const fn task(&self) -> TaskId {
        match *self {
            Action::Hold { task, .. }
            | Action::Release { task, .. }
            | Action::Pass { task, .. }
            | Action::SwapOut { task, .. }
            | Action::SwapIn { task, .. } => task,
        }
    }
}

/// Why a task is held or let go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// Another task is due sooner.
    DueSooner(TaskId),
    /// Another task's work is on the GPU, and this one can afford to let it finish.
    StillRuns(TaskId),
    /// Another task has a deadline, this one has none or has missed it.
    HasADeadline(TaskId),
    /// Another task has so little slack left that this one must not cost it any.
    SlackIsThin(TaskId, Span),
    /// This task cannot make its deadline any more, and yields to one that can.
    CannotMakeIt(TaskId),
    /// Among tasks without a deadline, it is the turn of another.
    NotItsTurn(TaskId),
    /// Another task came first (`fifo`).
    CameLater(TaskId),
    /// The GPU's core is full, or was not read since the last task was let in (`fifo`).
    CoreFull,
    /// The GPU's memory is nearly full (`fifo`).
    MemoryFull,
    /// It needs more GPU memory than is left.
    NoMemory {
        /// What it needs.
        need: u64,
        /// What is left.
        free: u64,
    },
    /// Nobody knows how much memory another task needs, and it has not allocated yet.
    SizeUnknown(TaskId),
    /// Nobody knows how much memory it needs: it goes on once its first allocation says so.
    AsksFirst,
    /// A task with a larger need has waited long, and memory is kept for it.
    MemoryKept(TaskId),
    /// There is GPU memory for what it asks for, or for what it had.
    MemoryFree,
    /// Everybody who has GPU memory waits for more of it: somebody must go on, and it came last.
    NobodyGivesWay,
    /// Another task needs its GPU memory, and it may be swapped out.
    SwappedFor(TaskId),
    /// Nobody is ahead of it any more.
    ItsTurn,
    /// It has waited as long as a task without a deadline may.
    WaitedLong(Span),
    /// It was held as long as its longest hold.
    HoldExpired(Span),
    /// It could not be held, and is not tried again for a while.
    CouldNotBeHeld,
    /// The guard or a person let it go.
    LetGo,
    /// Its container is being stopped.
    Stopping,
    /// It may not be touched any more.
    LeftAlone,
}

impl Reason {
    /// Whether it runs for a while because it had waited long; not because its own bound was reached.
    pub(crate) fn is_for_patience(&self) -> bool {
        matches!(self, Reason::WaitedLong(_))
    }

    /// The reason as a clause that follows "because"; `name` says what a task is called.
    pub fn words(&self, name: impl Fn(TaskId) -> String) -> String {
        let mut words = String::new();
        // Writing to a string cannot fail.
        let _ = match *self {
            Reason::DueSooner(of) => write!(words, "{} is due sooner", name(of)),
            Reason::StillRuns(of) => write!(words, "{} has work on the GPU that is soon done", name(of)),
            Reason::HasADeadline(of) => write!(words, "{} has a deadline to make", name(of)),
            Reason::SlackIsThin(of, slack) => write!(words, "{} has only {slack} to spare", name(of)),
            Reason::CannotMakeIt(of) => {
                write!(words, "it cannot make its deadline any more and yields to {}", name(of))
            }
            Reason::NotItsTurn(of) => write!(words, "it is the turn of {}", name(of)),
            Reason::CameLater(of) => write!(words, "{} came first", name(of)),
            Reason::CoreFull => write!(words, "the GPU core is full"),
            Reason::MemoryFull => write!(words, "the GPU memory is nearly full"),
            Reason::NoMemory { need, free } => {
                write!(words, "it needs {} of GPU memory and {} is left", mebibytes(need), mebibytes(free))
            }
            Reason::SizeUnknown(of) => write!(words, "{} is still allocating", name(of)),
            Reason::AsksFirst => write!(words, "it is not known how much GPU memory it needs"),
            Reason::MemoryKept(of) => write!(words, "GPU memory is kept for {}", name(of)),
            Reason::MemoryFree => write!(words, "there is GPU memory for it"),
            Reason::NobodyGivesWay => {
                write!(words, "everybody who has GPU memory waits for more of it, and it came last")
            }
            Reason::SwappedFor(other) => write!(words, "{} needs its GPU memory", name(other)),
            Reason::ItsTurn => write!(words, "nobody is ahead of it"),
            Reason::WaitedLong(span) => write!(words, "it has waited {span}"),
            Reason::HoldExpired(span) => write!(words, "it was held for {span}, its longest hold"),
            Reason::CouldNotBeHeld => write!(words, "it could not be held"),
            Reason::LetGo => write!(words, "the guard or a person let it go"),
            Reason::Stopping => write!(words, "its container is being stopped"),
            Reason::LeftAlone => write!(words, "it is not to be touched"),
        };
        words
    }
}

/// Bytes in MiB, rounded up so that a need is never shown as less than it is.
fn mebibytes(bytes: u64) -> String {
    alloc::format!("{} MiB", bytes.div_ceil(1 << 20))
}
