//! What each task on one GPU should do: the policy's word, under the rules that stand above every policy.

use super::Scheduler;
use crate::action::Reason;
use crate::fact::GpuId;
use crate::policy::{Candidate, Judgement, Scene, memory, swap};
use crate::task::{Gate, Swap, Task, TaskId};
use crate::time::{Instant, Span};
use crate::tracker::Container;
use alloc::collections::BTreeSet;
use alloc::vec::Vec;

/// What one task should do.
#[derive(Clone, Copy)]
pub(super) enum Want {
    /// Run; with a grant, undisturbed for that long.
    Run { because: Reason, grant: Option<Span> },
    /// Wait at that gate.
    Wait(Gate, Reason),
}

impl Want {
    /// Whether it runs because the policy says so, and not because it waited too long or could not be held: that is for a while only.
    pub(super) fn is_its_turn(&self) -> bool {
        let by_the_policy =
            |because: &Reason| matches!(because, Reason::ItsTurn | Reason::LeftAlone | Reason::Stopping);
        matches!(self, Want::Run { because, .. } if by_the_policy(because))
    }
}

/// Who should wait on one GPU.
pub(super) struct Verdicts {
    now: Instant,
    /// Sorted by task.
    holds: Vec<(TaskId, Gate, Reason)>,
    /// Who may allocate from now on; one that is swapped out may come back.
    pub admitted: Vec<TaskId>,
    /// Who may make the allocation it stands at, and why.
    pub passed: Vec<(TaskId, Reason)>,
    /// Who is to be swapped out, and why.
    pub out: Vec<(TaskId, Reason)>,
    /// When to judge again.
    pub wake: Option<Instant>,
    /// When a task that had waited long was last given a while.
    granted_at: Option<Instant>,
    /// Who is given the next while.
    most_patient: Option<TaskId>,
}

impl Verdicts {
    /// Memory first, then the policy.
    pub(super) fn of(scheduler: &Scheduler, now: Instant, gpu: GpuId) -> Verdicts {
        let mut verdicts = Verdicts {
            now,
            holds: Vec::new(),
            admitted: Vec::new(),
            passed: Vec::new(),
            out: Vec::new(),
            wake: None,
            granted_at: None,
            most_patient: None,
        };
        let policy = scheduler.policy(gpu);
        let Some(known) = scheduler.tracker.gpu(gpu) else { return verdicts };
        verdicts.granted_at = known.granted_at;
        let mut candidates = candidates(scheduler, now, gpu);
        if !policy.acts() {
            // Nobody is held; but what an earlier policy swapped out comes back.
            candidates.retain(|candidate| candidate.task.is_away());
        }
        let theirs =
            candidates.iter().fold(0_u64, |sum, candidate| sum.saturating_add(candidate.task.memory_here()));
        let others = scheduler.tracker.memory_on(gpu).saturating_sub(theirs);
        let someone_contends = candidates.iter().any(|candidate| candidate.contends);
        let scene = Scene { now, settings: &scheduler.settings, gpu: known, candidates, someone_contends };
        let memory = memory::review(&scene, others);
        verdicts.take_in(&scene, &memory);
        if !policy.acts() {
            return verdicts;
        }
        let mut holds = memory.holds;
        holds.sort_unstable_by_key(|(id, ..)| *id);
        // Who waits for memory cannot run, so nobody need wait for it; nor for who is away.
        let away: BTreeSet<TaskId> = scene
            .candidates
            .iter()
            .map(|c| c.task)
            .filter(|task| task.is_away())
            .map(|task| task.id)
            .collect();
        let scene = scene.without(|task| {
            away.contains(&task) || holds.binary_search_by_key(&task, |(id, ..)| *id).is_ok()
        });
        let judgement = policy.judge(&scene);
        verdicts.most_patient = most_patient(&scene, &judgement);
        holds.extend(judgement.holds.into_iter().map(|(id, because)| (id, Gate::Launches, because)));
        holds.sort_unstable_by_key(|(id, ..)| *id);
        verdicts.holds = holds;
        verdicts.wake_at(judgement.wake);
        verdicts
    }

    /// What memory allows, and who leaves where it allows too little.
    fn take_in(&mut self, scene: &Scene<'_>, memory: &memory::Review) {
        self.admitted.clone_from(&memory.admitted);
        self.passed = memory.passed.iter().map(|id| (*id, Reason::MemoryFree)).collect();
        self.wake_at(memory.wake);
        if let Some(short) = memory.short {
            let moves = swap::choose(scene, short, &memory.passed);
            self.wake_at(moves.wake);
            self.out = moves.out;
        }
        if let Some(youngest) = memory.stuck.filter(|_| self.out.is_empty()) {
            self.passed.push((youngest, Reason::NobodyGivesWay));
        }
    }

    /// What one task should do.
    pub(super) fn want(&mut self, scheduler: &Scheduler, now: Instant, task: &Task) -> Want {
        let run = |because| Want::Run { because, grant: None };
        let container = scheduler.tracker.container_of(task);
        if container.is_some_and(|container| container.stopping) {
            return run(Reason::Stopping);
        }
        let ours = container.is_some_and(|container| container.terms.managed);
        let Some((gate, because)) = self.hold_of(task).filter(|_| ours) else {
            return run(if ours { Reason::ItsTurn } else { Reason::LeftAlone });
        };
        let lasts = |until: &Instant| *until > now;
        if let Some(granted) = task.granted_until.filter(lasts) {
            self.wake_at(Some(granted));
            return run(task.reason.unwrap_or(Reason::ItsTurn));
        }
        if let Some(unholdable) = task.unholdable_until.filter(lasts) {
            self.wake_at(Some(unholdable));
            return run(Reason::CouldNotBeHeld);
        }
        match self.patience_ends(scheduler, task, gate) {
            Some((ends, because, grant)) if ends <= now => {
                if because.is_for_patience() {
                    self.granted_at = Some(now);
                }
                self.wake_at(Some(now + grant));
                Want::Run { because, grant: Some(grant) }
            }
            patience => {
                self.wake_at(patience.map(|(ends, ..)| ends));
                Want::Wait(gate, because)
            }
        }
    }

    /// Judging again at the same moment, with nothing learnt, would judge the same. A moment that has come
    /// is left out before the least is taken, or it would hide the next one.
    pub(super) fn wake_at(&mut self, moment: Option<Instant>) {
        let to_come = moment.filter(|moment| *moment > self.now);
        self.wake = self.wake.into_iter().chain(to_come).min();
    }

    fn hold_of(&self, task: &Task) -> Option<(Gate, Reason)> {
        let found = self.holds.binary_search_by_key(&task.id, |(id, ..)| *id).ok()?;
        Some((self.holds[found].1, self.holds[found].2))
    }

    /// When a held task has waited long enough, what is then said, and how long it then runs.
    fn patience_ends(
        &self,
        scheduler: &Scheduler,
        task: &Task,
        gate: Gate,
    ) -> Option<(Instant, Reason, Span)> {
        // A shut gate is no wait; standing at it is.
        let since = task.stopped_since?;
        let settings = &scheduler.settings;
        let own = scheduler.tracker.terms_of(task).hold_max;
        let hold_max = own.unwrap_or(settings.hold_max);
        let expires = (since + hold_max, Reason::HoldExpired(hold_max), settings.turn);
        if gate != Gate::Launches {
            // Let go without memory it would fail, which no setting of ours is worth; the container's own is.
            return own.map(|_| expires);
        }
        if self.most_patient != Some(task.id) {
            return Some(expires);
        }
        // One at a time, or many patient tasks together would take the GPU from the urgent one.
        let next_grant = self.granted_at.map_or(since, |last| last.max(since)) + settings.patience;
        let aged = (next_grant, Reason::WaitedLong(settings.patience), settings.grant);
        Some(if aged.0 < expires.0 { aged } else { expires })
    }
}

/// Of the tasks that wait because others have a deadline to make, the one that has waited longest.
fn most_patient(scene: &Scene<'_>, judgement: &Judgement) -> Option<TaskId> {
    let ages = |because: &Reason| {
        matches!(because, Reason::HasADeadline(_) | Reason::SlackIsThin(..) | Reason::CannotMakeIt(_))
    };
    let aging: BTreeSet<TaskId> =
        judgement.holds.iter().filter(|(_, because)| ages(because)).map(|(id, _)| *id).collect();
    let waiting =
        scene.candidates.iter().map(|candidate| candidate.task).filter(|task| aging.contains(&task.id));
    waiting.filter_map(|task| Some((task.stopped_since?, task.id))).min().map(|(_, id)| id)
}

/// The tasks on a GPU that are ours to hold, and those that are away: whoever they belong to now, they must come back.
pub(super) fn candidates(scheduler: &Scheduler, now: Instant, gpu: GpuId) -> Vec<Candidate<'_>> {
    let ours = scheduler.tracker.tasks_on(gpu).filter_map(|task| {
        let returns = matches!(task.swap, Swap::Out(_) | Swap::Returning(..));
        let is_ours = |container: &&Container| container.is_ours() || (returns && !container.paused);
        let container = scheduler.tracker.container_of(task).filter(is_ours)?;
        let due = if task.dormant {
            container.terms.deadline.map(|deadline| now + deadline.span())
        } else {
            task.due().filter(|_| !task.missed)
        };
        Some(Candidate {
            task,
            forecast: container.forecast(),
            due,
            // Between two requests nothing is served, or a server that idles would seem to have less and less left to do.
            served: if task.dormant { Span::ZERO } else { scheduler.tracker.served(task, now) },
            contends: task.contends(now, scheduler.settings.linger),
            swappable: container.terms.swap && !task.unswappable,
        })
    });
    ours.collect()
}
