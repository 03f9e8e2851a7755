//! From what is known and what a policy says to what must be done.
//!
//! A policy names who should wait. Here that is compared with who does wait, and only the difference
//! becomes actions. The rules that hold under every policy live here too: whom we may touch, memory,
//! how long anyone may be kept waiting, and what to do when an answer does not come.

mod roles;
mod settings;
#[cfg(test)]
mod stories;
mod swapping;
mod verdict;

pub use roles::Role;
pub use settings::{FifoSettings, Settings};

use crate::action::Action;
use crate::fact::{Fact, GpuId, RequestId};
use crate::policy::Policy;
use crate::task::{Ask, Demand, Grip, Task, TaskId};
use crate::time::Instant;
use crate::tracker::{Event, Tracker};
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use verdict::{Verdicts, Want};

/// The scheduler of one node: everything it knows, a policy for each GPU, and what it asked for.
pub struct Scheduler {
    settings: Settings,
    tracker: Tracker,
    policy: Box<dyn Policy>,
    policies: BTreeMap<GpuId, Box<dyn Policy>>,
    wakes: BTreeMap<GpuId, Instant>,
    requests: u64,
    /// The GPU that is being decided about.
    deciding: Option<GpuId>,
}

impl Scheduler {
    /// A scheduler that knows nothing yet. `policy` serves every GPU that has none of its own.
    pub fn new(settings: Settings, policy: Box<dyn Policy>) -> Scheduler {
        let tracker = Tracker::new(settings.burst_gap, settings.slicing_permille);
        Scheduler {
            settings,
            tracker,
            policy,
            policies: BTreeMap::new(),
            wakes: BTreeMap::new(),
            requests: 0,
            deciding: None,
        }
    }

    /// Gives one GPU a policy of its own, from now on.
    pub fn set_policy(&mut self, now: Instant, gpu: GpuId, policy: Box<dyn Policy>) {
        self.policies.insert(gpu, policy);
        self.wakes.insert(gpu, now);
    }

    /// Gives every GPU the same policy, from now on.
    pub fn set_every_policy(&mut self, now: Instant, policy: Box<dyn Policy>) {
        self.policy = policy;
        self.policies.clear();
        self.wakes.extend(self.tracker.gpus().map(|gpu| (gpu, now)));
    }

    /// The policy of one GPU.
    pub fn policy(&self, gpu: GpuId) -> &dyn Policy {
        self.policies.get(&gpu).unwrap_or(&self.policy).as_ref()
    }

    /// The GPU that is being decided about: after a decision that did not end, the one it was.
    pub fn deciding(&self) -> Option<GpuId> {
        self.deciding
    }

    /// Numbers requests from here on; an agent that restarts must not reuse its predecessor's.
    pub fn number_requests_from(&mut self, first: u64) {
        self.requests = self.requests.max(first);
    }

    /// Everything known.
    pub fn tracker(&self) -> &Tracker {
        &self.tracker
    }

    /// The numbers decisions go by.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Takes in one fact, true since `at`.
    pub fn learn(&mut self, at: Instant, fact: Fact) -> Vec<Event> {
        self.tracker.learn(at, fact)
    }

    /// Lets time pass, and decides what must be done now.
    pub fn decide(&mut self, now: Instant) -> (Vec<Event>, Vec<Action>) {
        let mut events = self.tracker.advance(now);
        let mut gpus = self.tracker.take_changed();
        gpus.extend(self.wakes.iter().filter(|(_, wake)| **wake <= now).map(|(gpu, _)| *gpu));
        let mut actions = Vec::new();
        for gpu in gpus {
            self.wakes.remove(&gpu);
            self.deciding = Some(gpu);
            if let Some(wake) = self.decide_gpu(now, gpu, &mut events, &mut actions) {
                self.wakes.insert(gpu, wake);
            }
        }
        self.deciding = None;
        (events, actions)
    }

    /// When to decide again, if no fact comes first.
    pub fn wake(&self) -> Option<Instant> {
        self.wakes.values().copied().chain(self.tracker.next_moment()).min()
    }

    fn decide_gpu(
        &mut self,
        now: Instant,
        gpu: GpuId,
        events: &mut Vec<Event>,
        actions: &mut Vec<Action>,
    ) -> Option<Instant> {
        let mut verdicts = Verdicts::of(self, now, gpu);
        let out = core::mem::take(&mut verdicts.out);
        let leaves = |task: &Task| task.is_away() || out.iter().any(|(id, _)| *id == task.id);
        let ours = self.tracker.tasks_on(gpu).filter(|task| !self.is_paused(task) && !leaves(task));
        let changes: Vec<(TaskId, Want)> = ours
            .filter_map(|task| {
                let want = verdicts.want(self, now, task);
                verdicts.wake_at(self.look_again(task));
                self.changes(now, task, &want).then_some((task.id, want))
            })
            .collect();
        let asked_before = self.requests;
        self.swap_out(now, &out, actions);
        self.let_in_or_back(now, &verdicts.admitted, actions);
        verdicts.wake_at(self.ask_again(now, gpu, actions));
        for (task, because) in core::mem::take(&mut verdicts.passed) {
            self.tracker.pass(now, task, because, events);
            actions.push(Action::Pass { request: self.next_request(), task, because });
        }
        actions.extend(changes.into_iter().filter_map(|(id, want)| self.apply(now, id, want)));
        if self.requests > asked_before {
            verdicts.wake_at(Some(now + self.settings.answer_max));
        }
        verdicts.wake
    }

    fn next_request(&mut self) -> RequestId {
        self.requests += 1;
        RequestId(self.requests)
    }

    /// Whether anything must be noted or done for a task to do as it should.
    fn changes(&self, now: Instant, task: &Task, want: &Want) -> bool {
        let noted = match want {
            Want::Run { grant, .. } => grant.is_none() && task.let_in == want.is_its_turn(),
            // Who is ahead changes while a task waits; what it is told must change with it.
            Want::Wait(_, because) => task.reason == Some(*because) && !task.let_in,
        };
        !noted || !self.is_settled(now, task, want)
    }

    /// Whether a task does as it should, or will as soon as an answer comes.
    fn is_settled(&self, now: Instant, task: &Task, want: &Want) -> bool {
        let overdue = |ask: Ask| now.since(ask.at) >= self.settings.answer_max;
        match (want, task.grip) {
            (Want::Wait(gate, _), Grip::Held(held)) => *gate == held,
            (Want::Wait(gate, _), Grip::Holding(ask, asked)) => *gate == asked && !overdue(ask),
            (Want::Run { .. }, Grip::Free) => self.look_again(task).is_none_or(|moment| moment > now),
            (Want::Run { .. }, Grip::Releasing(ask)) => !overdue(ask),
            _ => false,
        }
    }

    /// Notes what a task should do, and asks for the difference to what it does.
    fn apply(&mut self, now: Instant, id: TaskId, want: Want) -> Option<Action> {
        let settled = self.tracker.task(id).is_none_or(|task| self.is_settled(now, task, &want));
        self.tracker.let_in(now, id, want.is_its_turn());
        match want {
            Want::Run { grant: Some(grant), because } => self.tracker.grant(now, id, now + grant, because),
            Want::Run { grant: None, .. } => {}
            Want::Wait(_, because) => self.tracker.note_reason(id, because),
        }
        if settled {
            return None;
        }
        let request = self.next_request();
        let ask = Ask { request, at: now };
        Some(match want {
            Want::Wait(gate, because) => {
                self.tracker.ask_hold(ask, id, gate, because);
                Action::Hold { request, task: id, gate, because }
            }
            Want::Run { because, .. } => {
                self.tracker.ask_release(ask, id, because);
                Action::Release { request, task: id, because }
            }
        })
    }

    /// When a task must be looked at again because something should have happened by then.
    fn look_again(&self, task: &Task) -> Option<Instant> {
        match task.grip {
            Grip::Holding(ask, _) | Grip::Releasing(ask) => Some(ask.at + self.settings.answer_max),
            // It counts as free and stands all the same: its release and its stop crossed, or a change of
            // its hold failed.
            Grip::Free if task.demand == Demand::AtLaunch || task.stopped_since.is_some() => {
                Some(task.free_since + self.settings.answer_max)
            }
            Grip::Free | Grip::Held(_) => None,
        }
    }

    /// A container that Docker or a person paused is never touched.
    fn is_paused(&self, task: &Task) -> bool {
        let container = self.tracker.container_of(task);
        container.is_some_and(|container| container.paused && !container.stopping)
    }
}
