//! Servers in `process` mode: their one task misses once and for ever, because it lasts as long as the server.
//!
//! A process that outlives several deadlines and keeps coming back to the GPU after a while without work looks like a
//! server. It is said once, and changes nothing: only its owner knows what it is.

use super::{Event, Tracker};
use crate::fact::{GpuId, Process};
use crate::task::{Demand, Mode};
use crate::time::{Instant, Span};
use alloc::vec::Vec;

/// How long a process must have no work for that to be a gap: programs that compute launch again sooner.
const GAP_MIN: Span = Span::from_millis(50);
/// How many gaps there must be: one or two are a pause to write something down.
const GAPS_MIN: u32 = 3;
/// How many deadlines it must have outlived.
const DEADLINES_OUTLIVED_MIN: i64 = 3;

/// The gaps in a process's work on one GPU.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Gaps {
    /// Since when it has had no work, after it had some.
    idle_since: Option<Instant>,
    working: bool,
    count: u32,
    told: bool,
}

impl Gaps {
    /// Takes in whether there is work now.
    fn note(&mut self, at: Instant, works: bool) {
        if works {
            let gap = self.idle_since.take().map_or(Span::ZERO, |since| at.since(since));
            self.count += u32::from(gap >= GAP_MIN);
        } else if self.working {
            self.idle_since = Some(at);
        }
        self.working = works;
    }
}

impl Tracker {
    /// Whether a process has, or wants, work on a GPU, as its demand says.
    pub(super) fn note_demand(
        &mut self,
        at: Instant,
        key: (Process, GpuId),
        demand: Demand,
        events: &mut Vec<Event>,
    ) {
        match demand {
            Demand::Busy | Demand::AtLaunch => self.note_work(at, key, true, events),
            Demand::Drained(_) => self.note_work(at, key, false, events),
            Demand::Unknown | Demand::Host | Demand::AtAllocation(_) => {}
        }
    }

    /// Whether a process has work on a GPU. Seen from afar that comes seconds apart, which is enough.
    pub(super) fn note_work(
        &mut self,
        at: Instant,
        key: (Process, GpuId),
        works: bool,
        events: &mut Vec<Event>,
    ) {
        let Some(usage) = self.usages.get_mut(&key) else { return };
        usage.gaps.note(at, works);
        let gaps = usage.gaps;
        if gaps.told || gaps.count < GAPS_MIN {
            return;
        }
        let Some(task) = self.tasks.get(&usage.task).filter(|task| task.mode == Mode::Process) else {
            return;
        };
        let Some(deadline) = task.deadline.map(|deadline| deadline.span()) else { return };
        if at < task.start + deadline.scaled(DEADLINES_OUTLIVED_MIN, 1) {
            return;
        }
        events.push(Event::Suggested { task: task.id, at, gaps: gaps.count });
        // Once for a process, on however many GPUs it is.
        let (first, last) = ((key.0, GpuId(0)), (key.0, GpuId(u16::MAX)));
        self.usages.range_mut(first..=last).for_each(|(_, usage)| usage.gaps.told = true);
    }
}
