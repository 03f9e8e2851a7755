//! A task: one stretch of GPU work by one process of one container.

use crate::action::Reason;
use crate::fact::{ContainerId, GpuId, Process, RequestId};
use crate::time::{Instant, Span};

/// A task, numbered in the order in which tasks were seen to start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TaskId(pub u64);

impl TaskId {
    const DORMANT: u64 = 1 << 63;

    /// The number of a task that has not begun: after all that have.
    pub(crate) const fn dormant(number: u64) -> TaskId {
        TaskId(TaskId::DORMANT | number)
    }
}

/// How long a task may take, from its start: more than zero, at most a day.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Deadline(Span);

impl Deadline {
    /// The longest deadline.
    pub const MAX: Span = Span::from_secs(24 * 60 * 60);

    /// The deadline of that length, if there is one.
    pub fn new(span: Span) -> Option<Deadline> {
        (span > Span::ZERO && span <= Deadline::MAX).then_some(Deadline(span))
    }

    /// Its length.
    pub const fn span(self) -> Span {
        self.0
    }
}

/// What delimits a task.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// From a process's first GPU use until it exits.
    #[default]
    Process,
    /// From GPU memory above zero until it is back to zero.
    Memory,
    /// From the first work submitted after idle until all of it is drained: one request of a server.
    Burst,
}

/// What a task does with the GPU at this moment, as far as can be seen from outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Demand {
    /// Its launches are not seen; it may be using the GPU at any time.
    Unknown,
    /// It has nothing on the GPU and asks for nothing: context, host work, input copy.
    Host,
    /// Its work is on the GPU.
    Busy,
    /// Its work drained at that moment. Most programs launch again within microseconds.
    Drained(Instant),
    /// It stands at its shut gate, about to launch.
    AtLaunch,
    /// It stands at its shut gate, about to allocate that many bytes.
    AtAllocation(u64),
}

/// What a shut gate stops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gate {
    /// The next launch. Allocations and input copies go on, so that the task is ready when its turn comes.
    Launches,
    /// The next allocation too: there is no GPU memory for it yet.
    Allocations,
    /// Wherever it is: there is not even room for its context.
    Anywhere,
}

/// What was asked of the actuator and not answered yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ask {
    /// The request's number.
    pub request: RequestId,
    /// When it was made.
    pub at: Instant,
}

/// How a task is held. Half-done is a state: a hold is asked for, later it is confirmed or fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Grip {
    /// It runs.
    Free,
    /// A hold was asked for.
    Holding(Ask, Gate),
    /// It is held.
    Held(Gate),
    /// A release was asked for.
    Releasing(Ask),
}

/// How a task was held when it was asked to leave: should it be refused that, it is held so still.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Hold {
    pub(crate) gate: Option<Gate>,
    pub(crate) since: Option<Instant>,
    pub(crate) stopped_since: Option<Instant>,
    pub(crate) reason: Option<Reason>,
}

/// Where a task's GPU memory is. Half-done is a state here, too, and one that lasts: 40 GiB take half a minute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Swap {
    /// On the GPU, or nowhere yet.
    In,
    /// It was asked to leave; how it was held until then.
    Leaving(Ask, Hold),
    /// In host memory; so much room on the GPU brings it back.
    Out(u64),
    /// It was asked to come back, and that room is set aside for it.
    Returning(Ask, u64),
}

/// One task, as far as it is known now.
#[derive(Clone, Copy, Debug)]
pub struct Task {
    /// Its number.
    pub id: TaskId,
    /// The process that does it.
    pub process: Process,
    /// Whose it is; none for a process outside any container.
    pub container: Option<ContainerId>,
    /// The GPU it uses.
    pub gpu: GpuId,
    /// When it started, or when it was first seen.
    pub start: Instant,
    /// Its start was not seen.
    pub approximate: bool,
    /// What delimits it.
    pub mode: Mode,
    /// It has not begun: its process waits for its next request or allocation. Nobody counts it, but its gate
    /// can be shut.
    pub dormant: bool,
    /// How long it may take.
    pub deadline: Option<Deadline>,
    /// Its deadline passed, and that was reported.
    pub missed: bool,
    /// What it does now.
    pub demand: Demand,
    /// Since when that is so.
    pub demand_at: Instant,
    /// GPU memory it has allocated now.
    pub memory: u64,
    /// The most it had.
    pub memory_peak: u64,
    /// What it would have with what it asks for now.
    pub memory_asked: Option<u64>,
    /// The most of the GPU's core it was seen to use, in thousandths.
    pub core_permille: u16,
    /// It has launched at least once, so its allocations are made: most programs allocate first.
    pub launched: bool,
    /// What it has submitted since it last had nothing on the GPU are copies.
    pub only_copies: bool,
    /// GPU memory is set aside for it: it may allocate.
    pub admitted: bool,
    /// When it was first seen to have a context: at a gate, with memory, or with work on the GPU.
    pub context_at: Option<Instant>,
    /// Where that memory is.
    pub swap: Swap,
    /// Since when it is there; of one that moves, since when it was where it was before.
    pub swap_at: Instant,
    /// The driver refused to swap it out, and is not asked again.
    pub unswappable: bool,
    /// It could not be brought back; until then nobody tries again.
    pub swap_retry: Option<Instant>,
    /// A policy has seen it and let it run.
    pub let_in: bool,
    /// How it is held.
    pub grip: Grip,
    /// Why it is held, or why it was last let go.
    pub reason: Option<Reason>,
    /// When the present hold was first asked for.
    pub held_since: Option<Instant>,
    /// When the present hold came into force.
    pub held_at: Option<Instant>,
    /// When it was last let go, or arrived.
    pub free_since: Instant,
    /// It has waited long enough: until then it is not held, whatever a policy says.
    pub granted_until: Option<Instant>,
    /// It could not be held; until then nobody tries again.
    pub unholdable_until: Option<Instant>,
    /// When it came to a stand because of a hold.
    pub stopped_since: Option<Instant>,
    /// How long it stood still because of holds that are over.
    pub stopped: Span,
    /// How often it came to a stand because of a hold.
    pub stops: u32,
    /// How often it launched through a gate that was shut: a tenant can resume itself.
    pub leaks: u32,
    /// Since when its work is on the GPU, and what the GPU's share was then.
    pub(crate) busy_since: Option<(Instant, Span)>,
    /// What sharing the GPU cost it: time its work was there and others' work ran.
    pub(crate) lost: Span,
}

impl Task {
    /// A task that starts now, free, with nothing known of it yet.
    pub fn new(id: TaskId, process: Process, gpu: GpuId, start: Instant) -> Task {
        Task {
            id,
            process,
            container: None,
            gpu,
            start,
            approximate: false,
            mode: Mode::Process,
            dormant: false,
            deadline: None,
            missed: false,
            demand: Demand::Unknown,
            demand_at: start,
            memory: 0,
            memory_peak: 0,
            memory_asked: None,
            core_permille: 0,
            launched: false,
            only_copies: false,
            admitted: false,
            context_at: None,
            swap: Swap::In,
            swap_at: start,
            unswappable: false,
            swap_retry: None,
            let_in: false,
            grip: Grip::Free,
            reason: None,
            held_since: None,
            held_at: None,
            free_since: start,
            granted_until: None,
            unholdable_until: None,
            stopped_since: None,
            stopped: Span::ZERO,
            stops: 0,
            leaks: 0,
            busy_since: None,
            lost: Span::ZERO,
        }
    }

    /// When it must be done.
    pub fn due(&self) -> Option<Instant> {
        self.deadline.map(|deadline| self.start + deadline.span())
    }

    /// Whether it is a burst whose work was done in time: it can only miss if it goes on.
    pub(crate) fn is_done_in_time(&self) -> bool {
        match self.demand {
            Demand::Drained(since) => self.mode == Mode::Burst && self.due().is_none_or(|due| since <= due),
            _ => false,
        }
    }

    /// What is left until its deadline; negative once it has missed.
    pub fn float(&self, now: Instant) -> Option<Span> {
        self.due().map(|due| due.since(now))
    }

    /// How long holds have kept it standing.
    pub fn waited(&self, now: Instant) -> Span {
        let standing = self.stopped_since.map_or(Span::ZERO, |since| now.since(since).or_zero());
        self.stopped + standing
    }

    /// Whether its GPU memory is somewhere else than on the GPU, or on its way.
    pub fn is_away(&self) -> bool {
        self.swap != Swap::In
    }

    /// What it has on the GPU now.
    pub fn memory_here(&self) -> u64 {
        match self.swap {
            Swap::In | Swap::Leaving(..) => self.memory,
            Swap::Out(_) | Swap::Returning(..) => 0,
        }
    }

    /// Whether it has a use for its memory: one that left because it kept it idle has none until it asks for something.
    pub fn wants_its_memory(&self) -> bool {
        let quiet = matches!(self.demand, Demand::Host | Demand::Drained(_));
        !self.is_away() || self.demand_at > self.swap_at || !quiet
    }

    /// Whether it has work on the GPU, and will be seen to have none.
    pub(crate) fn is_in_flight(&self) -> bool {
        self.demand == Demand::Busy && self.stopped_since.is_none()
    }

    /// Whether it was frozen with work on the GPU. That is soon done, and it cannot tell.
    pub(crate) fn is_frozen_in_flight(&self) -> bool {
        self.demand == Demand::Busy && self.stopped_since.is_some()
    }

    /// What was asked of the actuator about it and not answered yet.
    pub(crate) fn asks(&self) -> impl Iterator<Item = Ask> {
        let of_grip = match self.grip {
            Grip::Holding(ask, _) | Grip::Releasing(ask) => Some(ask),
            Grip::Free | Grip::Held(_) => None,
        };
        let of_swap = match self.swap {
            Swap::Leaving(ask, _) | Swap::Returning(ask, _) => Some(ask),
            Swap::In | Swap::Out(_) => None,
        };
        of_grip.into_iter().chain(of_swap)
    }

    /// Whether a hold is in force or asked for.
    pub fn is_gripped(&self) -> bool {
        matches!(self.grip, Grip::Holding(..) | Grip::Held(_))
    }

    /// Whether it needs the GPU's core now. Just after a drain it counts as needing it still: without
    /// that, a neighbour is released into the gap of microseconds before the next launch, and the two
    /// run time-sliced.
    pub fn contends(&self, now: Instant, linger: Span) -> bool {
        match self.demand {
            // Without its memory it can compute nothing.
            _ if self.is_away() => false,
            Demand::Busy | Demand::AtLaunch => true,
            Demand::Unknown => !self.dormant,
            Demand::Drained(since) => !self.only_copies && now.since(since) < linger,
            Demand::Host | Demand::AtAllocation(_) => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deadline_is_more_than_zero_and_at_most_a_day() {
        assert_eq!(Deadline::new(Span::ZERO), None);
        assert_eq!(Deadline::new(Span::from_secs(-1)), None);
        assert_eq!(Deadline::new(Deadline::MAX + Span::from_micros(1)), None);
        assert!(Deadline::new(Span::from_micros(1)).is_some());
        assert!(Deadline::new(Deadline::MAX).is_some());
    }
}
