//! Swapping as it really is: asked for, half a minute under way, done or refused.
//!
//! While a task is away it is nobody's to hold: its process waits inside the driver. So a hold ends where a move begins,
//! and what is said of the process's memory counts again when it is back.

use super::{Event, Tracker};
use crate::action::Reason;
use crate::fact::{GpuId, Process};
use crate::task::{Ask, Demand, Gate, Grip, Hold, Swap, Task, TaskId};
use crate::time::{Instant, Span};
use alloc::vec::Vec;

/// How long one that could not be brought back is left where it is before it is tried again.
const RETURN_RETRY: Span = Span::from_secs(1);

impl Tracker {
    /// Notes that a task was asked to leave. From now on it stands: what it asks of the GPU waits.
    pub(crate) fn ask_swap_out(&mut self, ask: Ask, id: TaskId, because: Reason) {
        let held = self.tasks.get(&id).map(held_until_now).unwrap_or_default();
        self.hold_ends(id);
        self.becomes_idle(ask.at, id);
        self.forget_swap(id);
        let Some(task) = self.tasks.get_mut(&id) else { return };
        task.swap = Swap::Leaving(ask, held);
        task.stopped_since.get_or_insert(ask.at);
        task.reason = Some(because);
        self.asked.insert(ask.request, id);
    }

    /// Notes that a task was asked to come back: its room is set aside.
    pub(crate) fn ask_swap_in(&mut self, ask: Ask, id: TaskId, bytes: u64, because: Reason) {
        self.forget_swap(id);
        let Some(task) = self.tasks.get_mut(&id) else { return };
        task.swap = Swap::Returning(ask, bytes);
        task.admitted = true;
        task.reason = Some(because);
        self.asked.insert(ask.request, id);
    }

    /// Its memory has left, whoever asked for that: an agent that starts finds what another one left.
    pub(super) fn on_swapped_out(
        &mut self,
        at: Instant,
        key: (Process, GpuId),
        bytes: u64,
        events: &mut Vec<Event>,
    ) {
        let Some(id) = self.usages.get(&key).map(|usage| usage.task) else { return };
        self.hold_ends(id);
        self.becomes_idle(at, id);
        let here = self.tasks.get(&id).map_or(0, Task::memory_here);
        if let Some(gpu) = self.gpus.get_mut(&key.1) {
            gpu.departs(at, here);
        }
        self.moved(at, id, Swap::Out(bytes));
        let Some(task) = self.tasks.get_mut(&id) else { return };
        task.stopped_since.get_or_insert(at);
        task.stops += 1;
        task.admitted = false;
        events.push(Event::SwappedOut { task: id, at, because: task.reason, bytes });
    }

    /// Its memory is back, and it goes on; if it `asks`, until its next allocation.
    pub(super) fn on_swapped_in(
        &mut self,
        at: Instant,
        key: (Process, GpuId),
        asks: bool,
        events: &mut Vec<Event>,
    ) {
        let Some(id) = self.usages.get(&key).map(|usage| usage.task) else { return };
        let Some(task) = self.tasks.get(&id).filter(|task| task.is_away()) else { return };
        let (away, because) = (at.since(task.swap_at).or_zero(), task.reason);
        let (demand, demand_at, free_since) = (task.demand, task.demand_at, task.free_since);
        let let_in = if let Swap::Returning(ask, _) = task.swap { ask.at } else { at };
        self.stands_no_more(at, id);
        self.moved(at, id, Swap::In);
        if let Some(task) = self.tasks.get_mut(&id) {
            task.admitted = true;
            if asks {
                (task.grip, task.held_since, task.held_at) =
                    (Grip::Held(Gate::Allocations), Some(at), Some(at));
                // It may have come to its next allocation before anybody said that it is back, and that may be told before or after.
                task.free_since = free_since;
                if matches!(demand, Demand::AtAllocation(_)) && demand_at > let_in {
                    (task.demand, task.stopped_since) = (demand, Some(demand_at));
                }
            }
        }
        events.push(Event::SwappedIn { task: id, at, because, away });
    }

    /// A request to swap could not be carried out. One who could not leave stays, and is not asked again; one who could not come back
    /// waits a while.
    pub(super) fn swap_failed(&mut self, at: Instant, id: TaskId) {
        let Some(task) = self.tasks.get_mut(&id) else { return };
        match task.swap {
            Swap::Leaving(_, held) => {
                task.unswappable = true;
                task.swap = Swap::In;
                // Whoever stands at its gate still does, and who was held still is, unless it is said to have been let go.
                let gate = match task.demand {
                    Demand::AtLaunch => Some(Gate::Launches),
                    Demand::AtAllocation(_) => Some(Gate::Allocations),
                    _ => None,
                };
                let stands = gate.is_some();
                let Some(gate) = gate.or(held.gate) else {
                    let free_since = task.free_since;
                    self.stands_no_more(at, id);
                    // It may have come to a stop meanwhile, of which word is on its way.
                    if let Some(task) = self.tasks.get_mut(&id) {
                        task.free_since = free_since;
                    }
                    return;
                };
                (task.grip, task.held_since, task.held_at) =
                    (Grip::Held(gate), held.since.or(Some(at)), Some(at));
                task.reason = held.reason.or(task.reason);
                if !stands {
                    task.stopped_since = held.stopped_since;
                    self.go_on_as_before(at, id);
                }
            }
            Swap::Returning(_, bytes) => {
                task.swap = Swap::Out(bytes);
                task.admitted = false;
                task.swap_retry = Some(at + RETURN_RETRY);
            }
            Swap::In | Swap::Out(_) => {}
        }
    }

    fn moved(&mut self, at: Instant, id: TaskId, to: Swap) {
        self.forget_swap(id);
        let Some(task) = self.tasks.get_mut(&id) else { return };
        (task.swap, task.swap_at, task.swap_retry) = (to, at, None);
        if let Some(gpu) = self.gpus.get_mut(&task.gpu) {
            gpu.moved_at = gpu.moved_at.max(Some(at));
        }
        self.changed.insert(task.gpu);
    }

    /// An answer to what was asked before is old news.
    fn forget_swap(&mut self, id: TaskId) {
        if let Some(Swap::Leaving(ask, _) | Swap::Returning(ask, _)) =
            self.tasks.get(&id).map(|task| task.swap)
        {
            self.asked.remove(&ask.request);
        }
    }

    /// Whatever held it, holds it no more.
    fn hold_ends(&mut self, id: TaskId) {
        let Some(task) = self.tasks.get_mut(&id) else { return };
        if let Grip::Holding(ask, _) | Grip::Releasing(ask) = task.grip {
            self.asked.remove(&ask.request);
        }
        task.grip = Grip::Free;
        task.held_since = None;
        task.held_at = None;
        task.granted_until = None;
    }

    /// It runs, held by nobody; what it had submitted runs, too.
    fn stands_no_more(&mut self, at: Instant, id: TaskId) {
        self.hold_ends(id);
        let Some(task) = self.tasks.get_mut(&id) else { return };
        if let Some(since) = task.stopped_since.take() {
            task.stopped += at.since(since).or_zero();
        }
        task.free_since = at;
        match task.demand {
            // It passed its gate when it was made to run for the move.
            Demand::AtLaunch => task.demand = Demand::Busy,
            Demand::AtAllocation(_) => task.demand = Demand::Host,
            _ => {}
        }
        if task.demand == Demand::Busy {
            task.launched = true;
            self.becomes_busy(at, id);
        }
    }

    /// What it had submitted runs, if it is not frozen.
    fn go_on_as_before(&mut self, at: Instant, id: TaskId) {
        let runs = |task: &Task| task.demand == Demand::Busy && task.stopped_since.is_none();
        if self.tasks.get(&id).is_some_and(runs) {
            self.becomes_busy(at, id);
        }
    }
}

/// How a task is held that is asked to leave; once more, if it has not answered.
fn held_until_now(task: &Task) -> Hold {
    let gate = match (task.swap, task.grip) {
        (Swap::Leaving(_, held), _) => return held,
        (_, Grip::Holding(_, gate) | Grip::Held(gate)) => Some(gate),
        _ => None,
    };
    Hold { gate, since: task.held_since, stopped_since: task.stopped_since, reason: task.reason }
}
