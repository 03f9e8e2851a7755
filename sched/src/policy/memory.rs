//! GPU memory is set aside before a task allocates, because an allocation that fails kills it.
//!
//! Problem: CUDA does not wait for memory, it fails. And waiting for memory while holding some can
//! deadlock.
//!
//! Approach: a task that has none yet waits until its whole need fits beside what is set aside for the
//! others: what its history says, else what was declared. Whose need nobody knows asks at each allocation until it
//! launches, and while memory is short only one of those is let in at a time. Where allocations are not seen, a task of unknown
//! need is let in alone, and not above 95 % of the memory (the paper's bound). Should all who have memory wait for more, somebody is
//! swapped out; else the youngest goes on, and fails.
//!
//! A context takes memory before the first allocation: those who wait may take a quarter of the GPU that way, the others wait
//! where they are.

use super::{Candidate, Scene};
use crate::action::Reason;
use crate::task::{Demand, Gate, Grip, Mode, Swap, Task, TaskId};
use crate::time::{Instant, Span};
use alloc::vec::Vec;

/// Below this share of free memory, one over so many, only one task of unknown need allocates at a time. Contexts of those that wait
/// may take as much.
const SHORT_PARTS: u64 = 4;
/// A task whose need is neither known nor asked for is not let in above 95 %: below one part in twenty of free memory.
const FULL_PARTS: u64 = 20;

/// How long after it was let go a process has its context at the latest: 0.22 s after its start on an H200.
const CONTEXT_WITHIN: Span = Span::from_secs(1);

/// What the memory of one GPU allows.
#[derive(Default)]
pub struct Review {
    /// Who must not allocate yet, where it stops, and why.
    pub holds: Vec<(TaskId, Gate, Reason)>,
    /// Who may from now on. One that is swapped out may come back.
    pub admitted: Vec<TaskId>,
    /// Who may make the allocation it stands at, and must ask again at its next.
    pub passed: Vec<TaskId>,
    /// Who lacks memory, the first of them.
    pub short: Option<Short>,
    /// Everybody who has memory waits for more: whoever came last of them.
    pub stuck: Option<TaskId>,
    /// When to look again.
    pub wake: Option<Instant>,
}

/// A task that lacks memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Short {
    /// Which task.
    pub task: TaskId,
    /// How much it lacks.
    pub lacks: u64,
}

/// Looks at everybody on the GPU. `others` is memory in use by tasks that are not ours to hold.
pub fn review(scene: &Scene<'_>, others: u64) -> Review {
    let Some((_, reading)) = scene.gpu.reading else { return Review::default() };
    let total = reading.memory_total;
    let (on_its_way, wake) = given_back(scene);
    let aside = set_aside(scene, others).saturating_add(young_contexts(scene)).saturating_add(on_its_way);
    let free = total.saturating_sub(aside);
    let waiting_with_context =
        scene.candidates.iter().filter(|candidate| waits_with_context(candidate.task)).count() as u64;
    let mut desk = Desk {
        scene,
        total,
        free,
        contexts: waiting_with_context,
        review: Review { wake, ..Review::default() },
    };
    scene.candidates.iter().filter(|candidate| candidate.task.admitted).for_each(|c| desk.resident(c));
    if others == 0 {
        desk.look_whether_stuck();
    }
    desk.newcomers();
    desk.review
}

/// The review while it is made.
struct Desk<'a> {
    scene: &'a Scene<'a>,
    total: u64,
    free: u64,
    /// How many that wait have a context, or are let on to make one.
    contexts: u64,
    review: Review,
}

impl Desk<'_> {
    /// One that was let in. It asks again at each allocation, as long as nobody knows its need.
    fn resident(&mut self, candidate: &Candidate<'_>) {
        if !asks_at_each(self.scene, candidate) {
            return;
        }
        let task = candidate.task;
        let because = match task.demand {
            Demand::AtAllocation(bytes) if bytes > self.free && fits_at_all(task, self.total) => {
                let because = Reason::NoMemory { need: bytes, free: self.free };
                self.lacks(task.id, bytes - self.free);
                because
            }
            Demand::AtAllocation(bytes) => {
                self.free = self.free.saturating_sub(bytes);
                self.review.passed.push(task.id);
                Reason::AsksFirst
            }
            _ => Reason::AsksFirst,
        };
        self.review.holds.push((task.id, Gate::Allocations, because));
    }

    /// Whether all who have memory stand, and have for long.
    fn look_whether_stuck(&mut self) {
        let scene = self.scene;
        let has = || scene.candidates.iter().map(|c| c.task).filter(|task| task.memory_here() > 0);
        let waits = |task: &Task| self.review.short.is_some() && is_held_for_memory(&self.review, task.id);
        let moves =
            scene.candidates.iter().any(|c| matches!(c.task.swap, Swap::Leaving(..) | Swap::Returning(..)));
        if moves || !has().all(waits) {
            return;
        }
        let Some(since) = has().filter_map(|task| task.stopped_since).max() else { return };
        let patience = scene.settings.patience;
        // What somebody left a moment ago may be all they wait for. But somebody may leave every moment.
        let left = scene.gpu.moved_at.map(|moved| moved + scene.settings.swap_after);
        let over = left.into_iter().fold(since + patience, Instant::max).min(since + patience.scaled(2, 1));
        if over <= scene.now {
            self.review.stuck = has().map(|task| task.id).max();
        } else {
            self.review.wake = self.review.wake.into_iter().chain([over]).min();
        }
    }

    /// Those that have nothing on the GPU yet, or had to leave it: who is due first, then who waits longest, and last who has no use for it.
    fn newcomers(&mut self) {
        let scene = self.scene;
        let mut newcomers: Vec<&Candidate<'_>> = scene
            .candidates
            .iter()
            .filter(|c| !c.task.admitted && !matches!(c.task.swap, Swap::Leaving(..)))
            .collect();
        newcomers.sort_by_key(|candidate| {
            let task = candidate.task;
            let idle = !task.wants_its_memory();
            (idle, candidate.due.is_none(), candidate.due, waits_since(task), task.id)
        });
        let mut in_flux =
            scene.candidates.iter().find(|c| is_in_flux(scene, c, self.is_short())).map(|c| c.task.id);
        let mut kept_for = None;
        for candidate in newcomers {
            let task = candidate.task;
            if is_between_tasks(task) {
                if can_be_asked(scene, candidate) {
                    self.review.holds.push((task.id, Gate::Allocations, Reason::AsksFirst));
                }
                continue;
            }
            let needed = need(candidate);
            match self.why_not(candidate, in_flux, kept_for) {
                Some(because) => {
                    if let Reason::NoMemory { need, free } = because {
                        self.lacks(task.id, need.saturating_sub(free));
                    }
                    let gate = self.gate_for(task);
                    self.review.holds.push((task.id, gate, because));
                    // Small tasks may slip in front of a large one, but not for ever.
                    let waited = task.stopped_since.map(|since| scene.now.since(since));
                    let long = waited.is_some_and(|waited| waited >= scene.settings.patience);
                    if needed.is_some() && long && keeps_others_waiting(scene, task) {
                        kept_for = kept_for.or(Some(task.id));
                    }
                }
                None => {
                    self.review.admitted.push(task.id);
                    self.free = self.free.saturating_sub(self.room_for(candidate));
                    if asks_at_each(scene, candidate) {
                        self.review.passed.extend(stands_at_allocation(task).then_some(task.id));
                        self.review.holds.push((task.id, Gate::Allocations, Reason::AsksFirst));
                        in_flux = in_flux.or(self.is_short().then_some(task.id));
                    }
                    in_flux = in_flux.or(needed.is_none().then_some(task.id));
                }
            }
        }
    }

    /// Why a newcomer must wait, if it must.
    fn why_not(
        &mut self,
        candidate: &Candidate<'_>,
        in_flux: Option<TaskId>,
        kept_for: Option<TaskId>,
    ) -> Option<Reason> {
        let (task, free) = (candidate.task, self.free);
        let needed = need(candidate);
        let room = self.room_for(candidate);
        let later = task.swap_retry.filter(|later| *later > self.scene.now);
        self.review.wake = self.review.wake.into_iter().chain(later).min();
        match (in_flux, kept_for) {
            _ if later.is_some() => Some(Reason::NoMemory { need: room, free }),
            // What is larger than the GPU fails with or without us; holding it would only delay the news.
            _ if needed.unwrap_or(0) > self.total => None,
            _ if needed.is_none() && can_be_asked(self.scene, candidate) => Some(Reason::AsksFirst),
            (Some(other), _) => Some(Reason::SizeUnknown(other)),
            (_, Some(other)) => Some(Reason::MemoryKept(other)),
            _ if self.left_for_another(task) => self.review.short.map(|short| Reason::MemoryKept(short.task)),
            _ if room > free => Some(Reason::NoMemory { need: room, free }),
            _ => None,
        }
    }

    /// Who was swapped out a while ago because somebody ahead of it lacks memory does not slip in front: its own memory is what that one waits
    /// for, and the last look at the GPU may be from before.
    fn left_for_another(&self, task: &Task) -> bool {
        let lately = self.scene.now.since(task.swap_at) < self.scene.settings.patience.scaled(2, 1);
        matches!(task.swap, Swap::Out(_)) && lately && self.review.short.is_some()
    }

    /// What must be free for a newcomer. Of one whose need nobody knows, as much as the paper leaves.
    fn room_for(&self, candidate: &Candidate<'_>) -> u64 {
        let context = if has_context(candidate.task) { 0 } else { self.scene.settings.context };
        match need(candidate) {
            Some(need) => need.saturating_add(context).min(self.total),
            None if self.scene.candidates.len() > 1 => context.max(self.total / FULL_PARTS),
            None => 0,
        }
    }

    /// Where one that must wait does so: at its next allocation, with its context made, unless the contexts of those that wait would fill the GPU.
    fn gate_for(&mut self, task: &Task) -> Gate {
        let context = self.scene.settings.context;
        if has_context(task) || context == 0 || is_on_its_way(task) {
            return Gate::Allocations;
        }
        let fits = (self.contexts + 1).saturating_mul(context) <= self.total / SHORT_PARTS
            && self.free >= context.saturating_mul(2);
        if !fits {
            return Gate::Anywhere;
        }
        self.contexts += 1;
        Gate::Allocations
    }

    fn is_short(&self) -> bool {
        self.free < self.total / SHORT_PARTS
    }

    fn lacks(&mut self, task: TaskId, lacks: u64) {
        self.review.short.get_or_insert(Short { task, lacks });
    }
}

fn is_held_for_memory(review: &Review, id: TaskId) -> bool {
    review.holds.iter().any(|(held, _, because)| *held == id && matches!(because, Reason::NoMemory { .. }))
}

fn stands_at_allocation(task: &Task) -> bool {
    matches!(task.demand, Demand::AtAllocation(_))
}

/// Whether what it asks for and what it has is less than the GPU: otherwise it is let through to fail.
fn fits_at_all(task: &Task, total: u64) -> bool {
    task.memory_asked.unwrap_or(0) <= total
}

/// Whether it asks at each allocation: nobody knows its need, it is not alone, and it has not launched yet. Most programs allocate first.
fn asks_at_each(scene: &Scene<'_>, candidate: &Candidate<'_>) -> bool {
    let task = candidate.task;
    let launches = task.launched || task.demand == Demand::AtLaunch;
    let seen = task.demand != Demand::Unknown && !task.is_away();
    candidate.forecast.memory.is_none() && seen && !launches && scene.candidates.len() > 1 && !is_frozen(task)
}

/// Let in without anybody knowing its need, and it has not allocated yet. Some processes never do. While memory is short, one that
/// may allocate more counts, too.
fn is_in_flux(scene: &Scene<'_>, candidate: &Candidate<'_>, short: bool) -> bool {
    let task = candidate.task;
    let lately = |since: Instant| scene.now.since(since) < scene.settings.patience;
    let has_none = need(candidate).is_none() && task.memory == 0 && lately(task.start.max(task.free_since));
    let stands = stands_at_allocation(task) && keeps_others_waiting(scene, task);
    let may_want_more = short && asks_at_each(scene, candidate) && (stands || lately(task.demand_at));
    task.admitted && (has_none || may_want_more)
}

/// What one waits for may never come. So the others wait for it as long as anybody is held, then they go ahead as long, and so on.
fn keeps_others_waiting(scene: &Scene<'_>, task: &Task) -> bool {
    let waited = task.stopped_since.map_or(Span::ZERO, |since| scene.now.since(since).or_zero());
    (waited.as_micros() / scene.settings.hold_max.as_micros().max(1)) % 2 == 0
}

/// In `memory` mode it has had a task, or will have one, and has nothing on the GPU: as long as it says what it needs before it
/// allocates, nothing is set aside for it.
fn is_between_tasks(task: &Task) -> bool {
    task.mode == Mode::Memory
        && task.dormant
        && task.demand != Demand::Unknown
        && !task.is_away()
        && !stands_at_allocation(task)
}

/// Whether it will stop at its first allocation and so say what it needs. Alone it need not; and one that stands elsewhere than at its
/// gate, because its container was frozen, never comes to it.
fn can_be_asked(scene: &Scene<'_>, candidate: &Candidate<'_>) -> bool {
    candidate.task.demand != Demand::Unknown && !is_frozen(candidate.task) && scene.candidates.len() > 1
}

/// It stands elsewhere than at its gate, and not for want of memory: it would not come to its gate. One whose hold is being changed does not
/// count: it may be about to be let on to its gate.
fn is_frozen(task: &Task) -> bool {
    let elsewhere =
        matches!(task.grip, Grip::Free | Grip::Releasing(_) | Grip::Held(Gate::Launches | Gate::Allocations));
    task.stopped_since.is_some() && !is_at_its_gate(task) && elsewhere
}

fn is_at_its_gate(task: &Task) -> bool {
    matches!(task.demand, Demand::AtLaunch | Demand::AtAllocation(_))
}

/// As far as can be told: it stands where only one with a context comes, or has done what only such a one does.
fn has_context(task: &Task) -> bool {
    task.context_at.is_some() || is_at_its_gate(task) || task.launched || task.memory > 0 || task.is_away()
}

/// It is not let in, and takes room all the same, or will.
fn waits_with_context(task: &Task) -> bool {
    !task.admitted && !task.is_away() && (has_context(task) || is_on_its_way(task))
}

/// Of those that start together it is chance which one is stopped first, so a new one waits since it came.
fn waits_since(task: &Task) -> Instant {
    task.stopped_since.filter(|_| task.is_away()).unwrap_or(task.start)
}

/// It may go on to its first allocation, and makes its context before. Where launches are not seen it would be frozen instead.
fn is_on_its_way(task: &Task) -> bool {
    gate_of(task) == Some(Gate::Allocations) && task.demand != Demand::Unknown
}

fn gate_of(task: &Task) -> Option<Gate> {
    match task.grip {
        Grip::Holding(_, gate) | Grip::Held(gate) => Some(gate),
        Grip::Free | Grip::Releasing(_) => None,
    }
}

/// Memory that is used, or will be by those already let in.
fn set_aside(scene: &Scene<'_>, others: u64) -> u64 {
    let let_in = scene.candidates.iter().filter(|candidate| candidate.task.admitted);
    let mut reserved = 0_u64;
    for candidate in let_in {
        let task = candidate.task;
        // One that stands and asks for more does not have it yet.
        let asks = stands_at_allocation(task) && asks_at_each(scene, candidate);
        let need = if asks { 0 } else { need(candidate).unwrap_or(0) };
        // What a tenant asks for is a number it chose: no sum of such numbers may overflow.
        reserved = reserved.saturating_add(need.max(task.memory_here()));
    }
    // Contexts, other users and processes not seen yet show only in the sum the GPU reports.
    let nobodys = scene.gpu.unexplained.saturating_add(scene.gpu.departed);
    reserved.saturating_add(others).saturating_add(nobodys)
}

/// Contexts that the last look at the GPU does not show: made since, or being made.
fn young_contexts(scene: &Scene<'_>) -> u64 {
    let Some((read_at, _)) = scene.gpu.reading else { return 0 };
    let is_new = |task: &&Task| match task.context_at {
        _ if task.is_away() => false,
        Some(at) => at >= read_at,
        None if has_context(task) => false,
        None => {
            let lately = scene.now.since(task.start.max(task.free_since)) < CONTEXT_WITHIN;
            is_on_its_way(task) || (task.admitted && lately)
        }
    };
    let young = scene.candidates.iter().map(|candidate| candidate.task).filter(is_new).count() as u64;
    young.saturating_mul(scene.settings.context)
}

/// Memory that somebody gives back, and that others must not have before it is done; and when to look again.
fn given_back(scene: &Scene<'_>) -> (u64, Option<Instant>) {
    let over = |since: Instant| since + scene.settings.give_back;
    let under_way = || scene.gpu.given_back.iter().filter(|(since, _)| over(*since) > scene.now);
    let bytes = under_way().fold(0_u64, |sum, (_, bytes)| sum.saturating_add(*bytes));
    (bytes, under_way().map(|(since, _)| over(*since)).min())
}

/// What it will need in all, as far as anybody knows. Who is about to launch has what it needs.
fn need(candidate: &Candidate<'_>) -> Option<u64> {
    let task = candidate.task;
    let launches = task.launched || task.demand == Demand::AtLaunch;
    let has = launches.then_some(task.memory);
    match task.swap {
        Swap::Out(bytes) | Swap::Returning(_, bytes) => {
            // What it asked for when it left is the first thing it allocates when it is back.
            let asked = task.memory_asked.unwrap_or(0).saturating_sub(task.memory);
            candidate.forecast.memory.max(Some(bytes.saturating_add(asked)))
        }
        Swap::In | Swap::Leaving(..) => candidate.forecast.memory.max(task.memory_asked).or(has),
    }
}

#[cfg(test)]
mod stories;
