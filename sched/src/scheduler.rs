//! From what is known and what a policy says to what must be done.
//!
//! A policy names who should wait. Here that is compared with who does wait, and only the difference
//! becomes actions. The rules that hold under every policy live here too: whom we may touch, memory,
//! how long anyone may be kept waiting, and what to do when an answer does not come.

use crate::action::{Action, Reason};
use crate::fact::{Fact, GpuId, RequestId};
use crate::policy::{Candidate, Policy, Scene, memory};
use crate::task::{Ask, Demand, Gate, Grip, Task, TaskId};
use crate::time::{Instant, Span};
use crate::tracker::{Event, Tracker};
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;

/// The numbers that decisions go by.
#[derive(Clone, Debug)]
pub struct Settings {
    /// What one hold and release cost a task: a gate tenths of a millisecond, a pause through Docker 60 ms.
    pub hold_cost: Span,
    /// How much slower time slicing makes kernels, in thousandths (12–13 % on an H200, from two
    /// processes on).
    pub slicing_permille: i64,
    /// How long after a drain a task still counts as needing the GPU.
    pub linger: Span,
    /// How long one task without a deadline keeps the GPU while others of its kind wait.
    pub turn: Span,
    /// How long a task without a deadline to make waits for those that have one before it is given
    /// a while: the bound on starvation, once for every task that waits so.
    pub patience: Span,
    /// How long that while is. With `patience`, it is the share of the GPU that urgent work can lose.
    pub grant: Span,
    /// Slack below which nothing else may run.
    pub margin: Span,
    /// The same, as a share of the deadline, in thousandths. Slack is not only this task's: whoever
    /// arrives next lives on it too, so tasks whose deadline is but a few times their run time keep it.
    pub margin_permille: i64,
    /// The longest single hold, where the container does not say.
    pub hold_max: Span,
    /// How long an answer may take before the request is made again.
    pub answer_max: Span,
    /// How long a burst must stay drained before it is over.
    pub burst_gap: Span,
    /// The thresholds of `fifo`.
    pub fifo: FifoSettings,
}

/// The paper's thresholds.
#[derive(Clone, Debug)]
pub struct FifoSettings {
    /// The core counts as full from here, in thousandths.
    pub core_permille: u16,
    /// The memory counts as nearly full above this, in thousandths.
    pub memory_permille: u64,
    /// How long after letting a task in a reading shows its effect: NVML's sampling window.
    pub fresh_after: Span,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            hold_cost: Span::from_micros(100),
            slicing_permille: 125,
            linger: Span::from_millis(1),
            turn: Span::from_secs(1),
            patience: Span::from_secs(5),
            grant: Span::from_millis(100),
            margin: Span::from_millis(20),
            margin_permille: 800,
            hold_max: Span::from_secs(300),
            answer_max: Span::from_secs(1),
            burst_gap: Span::ZERO,
            fifo: FifoSettings {
                core_permille: 1000,
                memory_permille: 950,
                fresh_after: Span::from_millis(200),
            },
        }
    }
}

impl Settings {
    /// The run time at which a hold costs what it saves.
    pub fn small_task(&self) -> Span {
        self.hold_cost.scaled(1000, self.slicing_permille.max(1))
    }
}

/// The scheduler of one node: everything it knows, a policy for each GPU, and what it asked for.
pub struct Scheduler {
    settings: Settings,
    tracker: Tracker,
    policy: Box<dyn Policy>,
    policies: BTreeMap<GpuId, Box<dyn Policy>>,
    wakes: BTreeMap<GpuId, Instant>,
    requests: u64,
}

/// What one task should do.
enum Want {
    Run(Reason),
    Wait(Gate, Reason),
}

impl Scheduler {
    /// A scheduler that knows nothing yet. `policy` serves every GPU that has none of its own.
    pub fn new(settings: Settings, policy: Box<dyn Policy>) -> Scheduler {
        let tracker = Tracker::new(settings.burst_gap);
        Scheduler {
            settings,
            tracker,
            policy,
            policies: BTreeMap::new(),
            wakes: BTreeMap::new(),
            requests: 0,
        }
    }

    /// Gives one GPU a policy of its own, from now on.
    pub fn set_policy(&mut self, now: Instant, gpu: GpuId, policy: Box<dyn Policy>) {
        self.policies.insert(gpu, policy);
        self.wakes.insert(gpu, now);
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
        let events = self.tracker.advance(now);
        let mut gpus = self.tracker.take_changed();
        gpus.extend(self.wakes.iter().filter(|(_, wake)| **wake <= now).map(|(gpu, _)| *gpu));
        let mut actions = Vec::new();
        for gpu in gpus {
            self.wakes.remove(&gpu);
            if let Some(wake) = self.decide_gpu(now, gpu, &mut actions) {
                self.wakes.insert(gpu, wake);
            }
        }
        (events, actions)
    }

    /// When to decide again, if no fact comes first.
    pub fn wake(&self) -> Option<Instant> {
        self.wakes.values().copied().chain(self.tracker.next_moment()).min()
    }

    fn decide_gpu(&mut self, now: Instant, gpu: GpuId, actions: &mut Vec<Action>) -> Option<Instant> {
        let mut verdicts = Verdicts::of(self, now, gpu);
        verdicts.admitted.iter().for_each(|id| self.tracker.admit(*id));
        let tasks: Vec<Task> = self.tracker.tasks_on(gpu).copied().collect();
        for task in &tasks {
            if self.is_paused(task) {
                continue;
            }
            let want = self.want(now, task, &mut verdicts);
            let let_in = matches!(want, Want::Run(_));
            if task.let_in != let_in {
                self.tracker.let_in(now, task.id, let_in);
            }
            actions.extend(self.reconcile(now, task, want));
        }
        // What was asked for just now must be looked at again if no answer comes.
        let overdue = self.tracker.tasks_on(gpu).filter_map(|task| self.look_again(task)).min();
        // Deciding again at the same moment, with nothing learnt, would decide the same.
        verdicts.wake.into_iter().chain(overdue).filter(|moment| *moment > now).min()
    }

    /// What a task should do, by the policy's word and by the rules above it.
    fn want(&mut self, now: Instant, task: &Task, verdicts: &mut Verdicts) -> Want {
        let container = self.tracker.container_of(task);
        if container.is_some_and(|container| container.stopping) {
            return Want::Run(Reason::Stopping);
        }
        let ours = container.is_some_and(|container| container.terms.managed);
        let Some((gate, because)) = verdicts.holds.remove(&task.id).filter(|_| ours && !task.over) else {
            return Want::Run(if ours { Reason::ItsTurn } else { Reason::LeftAlone });
        };
        let run_on = task.reason.unwrap_or(Reason::ItsTurn);
        if task.unholdable_until.is_some_and(|until| until > now) {
            verdicts.wake_at(task.unholdable_until);
            return Want::Run(run_on);
        }
        if task.granted_until.is_some_and(|until| until > now) {
            verdicts.wake_at(task.granted_until);
            return Want::Run(run_on);
        }
        match self.patience_ends(task, gate, because) {
            Some((ends, reason, grant)) if ends <= now => {
                self.tracker.grant(now, task.id, now + grant);
                verdicts.wake_at(Some(now + grant));
                Want::Run(reason)
            }
            Some((ends, ..)) => {
                verdicts.wake_at(Some(ends));
                Want::Wait(gate, because)
            }
            None => Want::Wait(gate, because),
        }
    }

    /// When a held task has waited long enough, what is then said, and how long it then runs.
    fn patience_ends(&self, task: &Task, gate: Gate, because: Reason) -> Option<(Instant, Reason, Span)> {
        let since = task.held_since?;
        let hold_max = self.tracker.terms_of(task).hold_max.unwrap_or(self.settings.hold_max);
        let expires = (since + hold_max, Reason::HoldExpired(hold_max), self.settings.turn);
        let ages =
            matches!(because, Reason::HasADeadline(_) | Reason::SlackIsThin(..) | Reason::CannotMakeIt(_));
        if gate == Gate::Allocations || !ages {
            return Some(expires);
        }
        // One at a time, or many patient tasks together would take the GPU from the urgent one.
        let patience = self.settings.patience;
        let last = self.tracker.gpu(task.gpu).and_then(|gpu| gpu.granted_at);
        let earliest = last.map_or(since + patience, |last| (last + patience).max(since + patience));
        let aged = (earliest, Reason::WaitedLong(patience), self.settings.grant);
        Some(if aged.0 < expires.0 { aged } else { expires })
    }

    /// The difference between what a task should do and what it does.
    fn reconcile(&mut self, now: Instant, task: &Task, want: Want) -> Option<Action> {
        let overdue = |ask: Ask| now.since(ask.at) >= self.settings.answer_max;
        let settled = match (&want, task.grip) {
            (Want::Wait(gate, _), Grip::Held(held)) => *gate == held,
            (Want::Wait(gate, _), Grip::Holding(ask, asked)) => *gate == asked && !overdue(ask),
            (Want::Run(_), Grip::Free) => self.look_again(task).is_none_or(|moment| moment > now),
            (Want::Run(_), Grip::Releasing(ask)) => !overdue(ask),
            _ => false,
        };
        if settled {
            // Who is ahead changes while a task waits; what it is told must change with it.
            if let Want::Wait(_, because) = want {
                self.tracker.note_reason(task.id, because);
            }
            return None;
        }
        self.requests += 1;
        let request = RequestId(self.requests);
        let (ask, task) = (Ask { request, at: now }, task.id);
        Some(match want {
            Want::Wait(gate, because) => {
                self.tracker.ask_hold(ask, task, gate, because);
                Action::Hold { request, task, gate, because }
            }
            Want::Run(because) => {
                self.tracker.ask_release(ask, task, because);
                Action::Release { request, task, because }
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

/// Who should wait on one GPU, from memory and policy together.
struct Verdicts {
    holds: BTreeMap<TaskId, (Gate, Reason)>,
    admitted: Vec<TaskId>,
    wake: Option<Instant>,
}

impl Verdicts {
    fn of(scheduler: &Scheduler, now: Instant, gpu: GpuId) -> Verdicts {
        let mut verdicts = Verdicts { holds: BTreeMap::new(), admitted: Vec::new(), wake: None };
        let policy = scheduler.policies.get(&gpu).unwrap_or(&scheduler.policy);
        let Some(known) = scheduler.tracker.gpu(gpu).filter(|_| policy.acts()) else { return verdicts };
        let ours = scheduler.tracker.tasks_on(gpu).filter(|task| !task.over).filter_map(|task| {
            let container = scheduler.tracker.container_of(task).filter(|container| container.is_ours())?;
            let contends = task.contends(now, scheduler.settings.linger);
            Some(Candidate { task, forecast: container.forecast(), contends })
        });
        let candidates: Vec<Candidate<'_>> = ours.collect();
        let theirs: u64 = candidates.iter().map(|candidate| candidate.task.memory).sum();
        let others = scheduler.tracker.memory_on(gpu) - theirs;
        let mut scene = Scene { now, settings: &scheduler.settings, gpu: known, candidates };
        let memory = memory::review(&scene, others);
        verdicts.admitted = memory.admitted;
        verdicts
            .holds
            .extend(memory.holds.into_iter().map(|(id, because)| (id, (Gate::Allocations, because))));
        // Who waits for memory cannot run, so nobody need wait for it.
        scene.candidates.retain(|candidate| !verdicts.holds.contains_key(&candidate.task.id));
        let judgement = policy.judge(&scene);
        verdicts
            .holds
            .extend(judgement.holds.into_iter().map(|(id, because)| (id, (Gate::Launches, because))));
        verdicts.wake = judgement.wake;
        verdicts
    }

    fn wake_at(&mut self, moment: Option<Instant>) {
        self.wake = self.wake.into_iter().chain(moment).min();
    }
}
