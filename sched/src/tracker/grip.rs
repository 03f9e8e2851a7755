//! Holds as they really are: asked for, confirmed, standing, let go.

use super::{Event, Tracker};
use crate::action::Reason;
use crate::fact::{GpuId, Outcome, Process, RequestId};
use crate::task::{Ask, Demand, Gate, Grip, Swap, Task, TaskId};
use crate::time::{Instant, Span};
use alloc::vec::Vec;

/// How long a task that could not be held is left alone before it is tried again.
const HOLD_RETRY: Span = Span::from_secs(1);

impl Tracker {
    /// Notes that a hold was asked for.
    pub(crate) fn ask_hold(&mut self, ask: Ask, id: TaskId, gate: Gate, because: Reason) {
        let Some(task) = self.tasks.get_mut(&id) else { return };
        forget_ask(&mut self.asked, task.grip);
        task.held_since.get_or_insert(ask.at);
        task.granted_until = None;
        task.grip = Grip::Holding(ask, gate);
        task.reason = Some(because);
        self.asked.insert(ask.request, id);
    }

    /// Notes that a release was asked for.
    pub(crate) fn ask_release(&mut self, ask: Ask, id: TaskId, because: Reason) {
        let Some(task) = self.tasks.get_mut(&id) else { return };
        forget_ask(&mut self.asked, task.grip);
        task.grip = Grip::Releasing(ask);
        task.reason = Some(because);
        self.asked.insert(ask.request, id);
    }

    /// Notes why a task that is held is held now.
    pub(crate) fn note_reason(&mut self, id: TaskId, because: Reason) {
        if let Some(task) = self.tasks.get_mut(&id) {
            task.reason = Some(because);
        }
    }

    /// Notes that a policy let a task run, or keeps it from running.
    pub(crate) fn let_in(&mut self, now: Instant, id: TaskId, let_in: bool) {
        let Some(task) = self.tasks.get_mut(&id) else { return };
        if let_in
            && !task.let_in
            && let Some(gpu) = self.gpus.get_mut(&task.gpu)
        {
            gpu.let_in_at = Some(now);
        }
        task.let_in = let_in;
    }

    /// Notes that a task may not be held before `until`.
    pub(crate) fn grant(&mut self, now: Instant, id: TaskId, until: Instant, because: Reason) {
        let Some(task) = self.tasks.get_mut(&id) else { return };
        task.granted_until = Some(until);
        if let Some(gpu) = self.gpus.get_mut(&task.gpu).filter(|_| because.is_for_patience()) {
            gpu.granted_at = Some(now);
        }
    }

    /// Notes that GPU memory is set aside for a task.
    pub(crate) fn admit(&mut self, id: TaskId) {
        if let Some(task) = self.tasks.get_mut(&id) {
            task.admitted = true;
        }
    }

    /// An answer to a request. One that was overtaken by a newer request is old news.
    pub(super) fn on_answer(
        &mut self,
        at: Instant,
        request: RequestId,
        outcome: Outcome,
        events: &mut Vec<Event>,
    ) {
        let Some(id) = self.asked.remove(&request) else { return };
        let Some(task) = self.tasks.get_mut(&id) else { return };
        self.changed.insert(task.gpu);
        if let Swap::Leaving(ask, _) | Swap::Returning(ask, _) = task.swap
            && ask.request == request
        {
            if outcome == Outcome::Failed {
                self.swap_failed(at, id);
            } else {
                self.asked.insert(request, id);
            }
            return;
        }
        match (task.grip, outcome) {
            (Grip::Holding(_, gate), Outcome::Held) => {
                task.grip = Grip::Held(gate);
                task.held_at = Some(at);
            }
            // An earlier hold may be in force whose answer got lost: in doubt, it counts as held, and since
            // it may not be held again for a while, it is released.
            (Grip::Holding(_, gate), Outcome::Failed) => {
                task.grip = Grip::Held(gate);
                task.unholdable_until = Some(at + HOLD_RETRY);
            }
            (Grip::Releasing(_), Outcome::Released) => {
                task.grip = Grip::Free;
                task.held_since = None;
                task.held_at = None;
                task.free_since = at;
                if matches!(task.demand, Demand::AtAllocation(_)) {
                    task.demand = Demand::Host;
                }
                self.go_on(at, id, events);
            }
            // A release that failed is asked for again, for as long as it takes; an answer that does
            // not fit its question is no answer.
            (Grip::Releasing(_), Outcome::Failed) | (_, _) => {
                self.asked.insert(request, id);
            }
        }
    }

    /// Notes that a task may make the allocation it stands at. What it asked for counts as its own until it has it.
    pub(crate) fn pass(&mut self, now: Instant, id: TaskId, because: Reason, events: &mut Vec<Event>) {
        let Some(task) = self.tasks.get_mut(&id) else { return };
        (task.demand, task.demand_at) = (Demand::Host, now);
        task.admitted = true;
        let held_for = task.reason.replace(because);
        self.go_on(now, id, events);
        if let Some(task) = self.tasks.get_mut(&id) {
            task.reason = held_for;
        }
    }

    /// The task stands still. If it should not, because its gate was opened meanwhile, it counts as
    /// held all the same, so that it is released again: a stop that is reported late and not looked
    /// at twice leaves a process stopped for good.
    pub(super) fn come_to_a_stand(&mut self, at: Instant, id: TaskId, gate: Gate, events: &mut Vec<Event>) {
        // One that is away stands inside the driver.
        let Some(task) = self.tasks.get_mut(&id).filter(|task| !task.is_away()) else { return };
        let because = task.is_gripped().then_some(task.reason).flatten();
        if matches!(task.grip, Grip::Free | Grip::Holding(..)) {
            forget_ask(&mut self.asked, task.grip);
            task.grip = Grip::Held(gate);
            task.held_since.get_or_insert(at);
            task.held_at.get_or_insert(at);
        }
        if task.stopped_since.is_none() {
            task.stopped_since = Some(at);
            task.stops += 1;
            events.push(Event::Held { task: id, at, because });
        }
        self.changed.insert(task.gpu);
    }

    /// Its container was frozen.
    pub(super) fn on_stopped(&mut self, at: Instant, key: (Process, GpuId), events: &mut Vec<Event>) {
        let task = self.usages.get(&key).and_then(|usage| self.tasks.get(&usage.task));
        // One from before it was let go is old news.
        let Some(task) = task.filter(|task| at >= task.free_since) else { return };
        let gate = match task.grip {
            Grip::Holding(_, gate) | Grip::Held(gate) => gate,
            Grip::Free | Grip::Releasing(_) => Gate::Launches,
        };
        let id = task.id;
        self.come_to_a_stand(at, id, gate, events);
        // What it has in flight is soon done, and nobody sees when.
        self.becomes_idle(at, id);
    }

    /// Its container was thawed for another of its tasks. Who stands at its gate does so still.
    pub(super) fn on_resumed(&mut self, at: Instant, key: (Process, GpuId), events: &mut Vec<Event>) {
        if let Some(id) = self.usages.get(&key).map(|usage| usage.task) {
            let stands = |task: &Task| task.is_away() || task.demand == Demand::AtLaunch;
            if !self.tasks.get(&id).is_some_and(stands) {
                self.go_on(at, id, events);
            }
            self.changed.insert(key.1);
        }
    }

    /// Its hold is over, whoever saw to that. For a while nobody tries again: who let it go had a reason.
    pub(super) fn on_let_go(&mut self, at: Instant, key: (Process, GpuId), events: &mut Vec<Event>) {
        let Some(id) = self.usages.get(&key).map(|usage| usage.task) else { return };
        // One that is away is held by nobody, and comes back in its own time.
        let Some(task) = self.tasks.get_mut(&id).filter(|task| !task.is_away()) else { return };
        forget_ask(&mut self.asked, task.grip);
        if task.is_gripped() {
            task.reason = Some(Reason::LetGo);
        }
        task.grip = Grip::Free;
        task.held_since = None;
        task.held_at = None;
        task.free_since = at;
        task.unholdable_until = Some(at + HOLD_RETRY);
        if matches!(task.demand, Demand::AtAllocation(_)) {
            task.demand = Demand::Host;
        }
        self.changed.insert(key.1);
        self.go_on(at, id, events);
    }

    /// A launch through a gate that was shut: the hold is not in force, whatever we believed. The policy
    /// will ask again if it still wants it.
    pub(super) fn slips_through(&mut self, at: Instant, id: TaskId) {
        let Some(task) = self.tasks.get_mut(&id) else { return };
        if matches!(task.grip, Grip::Held(_)) && task.held_at.is_some_and(|held_at| at > held_at) {
            task.grip = Grip::Free;
            task.held_since = None;
            task.held_at = None;
            task.leaks += 1;
        }
    }

    /// The task moves again, if it stood.
    pub(super) fn go_on(&mut self, at: Instant, id: TaskId, events: &mut Vec<Event>) {
        let Some(task) = self.tasks.get_mut(&id) else { return };
        if let Some(since) = task.stopped_since.take() {
            let waited = at.since(since).or_zero();
            task.stopped += waited;
            events.push(Event::Released { task: id, at, because: task.reason, waited });
            // What it had in flight is done by now, or it goes on with it.
            if task.is_in_flight() && !task.is_away() {
                self.becomes_busy(at, id);
            }
        }
    }
}

fn forget_ask(asked: &mut alloc::collections::BTreeMap<RequestId, TaskId>, grip: Grip) {
    if let Grip::Holding(ask, _) | Grip::Releasing(ask) = grip {
        asked.remove(&ask.request);
    }
}
