//! Who should wait: one policy per file.
//!
//! A policy looks at one GPU and names the tasks that should wait, each with its reason; everybody
//! else runs. It remembers nothing and does nothing: what changes because of its judgement is the
//! scheduler's affair, and so are the rules that hold for every policy (memory, patience, whom we
//! may touch at all).

mod earliest_deadline;
mod fifo;
mod in_flight;
mod least_slack;
pub mod memory;
mod none;
pub mod swap;
mod turns;

pub use earliest_deadline::EarliestDeadline;
pub use fifo::Fifo;
pub use least_slack::LeastSlack;
pub use none::None;

use crate::action::Reason;
use crate::forecast::Forecast;
use crate::scheduler::Settings;
use crate::task::{Task, TaskId};
use crate::time::{Instant, Span};
use crate::tracker::Gpu;
use alloc::boxed::Box;
use alloc::vec::Vec;

/// A rule for sharing one GPU.
pub trait Policy {
    /// Its name on the command line.
    fn name(&self) -> &'static str;

    /// Who should wait, and why.
    fn judge(&self, scene: &Scene<'_>) -> Judgement;

    /// Whether tasks without a deadline must make way the moment others launch.
    fn knows_urgency(&self) -> bool {
        false
    }

    /// Whether a task, once it launches, leaves no time for tasks without a deadline, or with one far off.
    fn is_urgent(&self, _now: Instant, _settings: &Settings, _candidate: &Candidate<'_>) -> bool {
        false
    }

    /// Whether it acts at all. One that does not is spared the rules every policy shares.
    fn acts(&self) -> bool {
        true
    }
}

/// The names of all policies, in the order they are shown.
pub const NAMES: [&str; 4] = ["none", "fifo", "earliest-deadline", "least-slack"];

/// The policy of that name.
pub fn by_name(name: &str) -> Option<Box<dyn Policy>> {
    Some(match name {
        "none" => Box::new(None),
        "fifo" => Box::new(Fifo),
        "earliest-deadline" => Box::new(EarliestDeadline),
        "least-slack" => Box::new(LeastSlack),
        _ => return Option::None,
    })
}

/// One GPU at one moment, as a policy sees it.
pub struct Scene<'a> {
    /// The moment.
    pub now: Instant,
    /// The numbers to judge by.
    pub settings: &'a Settings,
    /// The GPU.
    pub gpu: &'a Gpu,
    /// The tasks we may hold and that could run if we let them, in the order they started.
    pub candidates: Vec<Candidate<'a>>,
    /// Whether one of them needs the GPU now.
    pub someone_contends: bool,
}

/// A task and what is expected of it.
#[derive(Clone, Copy)]
pub struct Candidate<'a> {
    /// The task.
    pub task: &'a Task,
    /// What was forecast for it.
    pub forecast: Forecast,
    /// When it must be done, if it still can be; of a dormant task, if it began now.
    pub due: Option<Instant>,
    /// How long it has really run; a dormant one not at all.
    pub served: Span,
    /// It needs the GPU's core now.
    pub contends: bool,
    /// Its GPU memory may be swapped out.
    pub swappable: bool,
}

impl Scene<'_> {
    /// Whether holding a task costs less than it saves. Time slicing makes kernels slower by a share
    /// of their length, a hold costs a fixed time: below the break-even the task is better let
    /// through (paper 001, Fig. 9, where small tasks got slower).
    pub fn worth_holding(&self, candidate: &Candidate<'_>) -> bool {
        !is_shorter(candidate, self.settings.small_task())
    }

    /// The scene without some of its tasks.
    #[must_use]
    pub fn without(mut self, out: impl Fn(TaskId) -> bool) -> Self {
        self.candidates.retain(|candidate| !out(candidate.task.id));
        self.someone_contends = self.candidates.iter().any(|candidate| candidate.contends);
        self
    }

    /// Whether to hold a task behind another. While nobody needs the GPU, nobody is newly held, but for
    /// tasks that have not launched yet: of those that start together, all but the first ask once at their
    /// gate, or they would all launch within the same microseconds and share the GPU for a whole kernel.
    pub fn may_hold(&self, candidate: &Candidate<'_>) -> bool {
        let asks_once = !candidate.task.launched || candidate.task.is_gripped();
        self.worth_holding(candidate) && (self.someone_contends || asks_once)
    }

    /// When the next task that drained stops counting as needing the GPU.
    pub fn linger_ends(&self) -> Option<Instant> {
        let drained = self.candidates.iter().filter(|candidate| candidate.contends);
        drained
            .filter_map(|candidate| match candidate.task.demand {
                crate::task::Demand::Drained(since) => Some(since + self.settings.linger),
                _ => Option::None,
            })
            .min()
    }
}

/// What a policy says of one GPU.
#[derive(Default)]
pub struct Judgement {
    /// Who should wait, and why.
    pub holds: Vec<(TaskId, Reason)>,
    /// When to ask again, if no fact comes first.
    pub wake: Option<Instant>,
}

impl Judgement {
    fn hold(&mut self, candidate: &Candidate<'_>, because: Reason) {
        self.holds.push((candidate.task.id, because));
    }

    fn wake_at(&mut self, moment: Option<Instant>) {
        self.wake = self.wake.into_iter().chain(moment).min();
    }
}

/// Whether a task is known to take no longer than that.
fn is_shorter(candidate: &Candidate<'_>, than: Span) -> bool {
    candidate.forecast.is_known() && candidate.forecast.upper <= than && candidate.served <= than
}

/// What is left of a task's slack: its float less the work that must be done first.
fn slack(due: Instant, now: Instant, work: Span) -> Span {
    due.since(now) - work
}
