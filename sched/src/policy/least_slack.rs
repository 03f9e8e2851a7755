//! Earliest deadline first among those that can still make it; slack says when the rest must wait.
//!
//! Problem: under overload, earliest-deadline-first spends the GPU on tasks that will miss anyway, and
//! makes others miss behind them. And a task without a deadline need not wait for one that has all
//! the time in the world. Ordering by slack would be no cure: the slack of whoever waits shrinks, so
//! two tasks overtake each other without end.
//!
//! Approach: the order is by deadline. In that order, the typical work left is added up; where the
//! sum passes a deadline, somebody must yield, and it is the task with the most work left so far: that
//! saves the largest number of the others (the rule of Moore and Hodgson). Of those that stay, the
//! slack is what their deadlines leave after the upper forecast of all work due no later. While the
//! least slack exceeds a margin, the tasks without a deadline to make take turns beside the first;
//! else they wait. The first itself lets finish what is in flight, if it can. While there is slack to
//! spare, tasks of a few milliseconds share the GPU: to hold them would take longer than it saves.

use super::{Candidate, Judgement, Policy, Scene, in_flight, is_shorter, slack, turns};
use crate::action::Reason;
use crate::scheduler::Settings;
use crate::task::TaskId;
use crate::time::{Instant, Span};
use alloc::collections::{BTreeSet, BinaryHeap};
use alloc::vec::Vec;

/// Least slack triggers, earliest deadline orders.
pub struct LeastSlack;

impl Policy for LeastSlack {
    fn name(&self) -> &'static str {
        "least-slack"
    }

    fn judge(&self, scene: &Scene<'_>) -> Judgement {
        let mut judgement = Judgement::default();
        // A dormant task is no work yet; it is only kept from launching ahead of its turn.
        let begun = scene.candidates.iter().filter(|candidate| !candidate.task.dormant);
        let mut by_due: Vec<(Instant, &Candidate<'_>)> =
            begun.filter_map(|candidate| Some((candidate.due?, candidate))).collect();
        by_due.sort_unstable_by_key(|(due, candidate)| (*due, candidate.task.id));
        let yielding = who_yields(scene.now, &by_due);
        by_due.retain(|(_, candidate)| !yielding.contains(&candidate.task.id));

        let rest: Vec<&Candidate<'_>> = scene
            .candidates
            .iter()
            .filter(|candidate| candidate.due.is_none() || yielding.contains(&candidate.task.id))
            .collect();
        let someone_contends = scene.someone_contends;
        match by_due.iter().find(|(_, candidate)| candidate.contends || !someone_contends) {
            Some((due, first)) => {
                let first = (*due, first.task.id);
                let thinnest = thinnest(scene, &by_due);
                hold_later_dues(scene, first, thinnest, &yielding, &mut judgement);
                in_flight::let_finish(scene, first, &yielding, &mut judgement);
                hold_the_rest(scene, first.1, thinnest, &rest, &yielding, &mut judgement);
            }
            None => turns::take_turns(scene, &rest, &mut judgement),
        }
        judgement.wake_at(scene.linger_ends());
        judgement
    }

    fn knows_urgency(&self) -> bool {
        true
    }

    /// Alone it would already have too little to spare.
    fn is_urgent(&self, now: Instant, settings: &Settings, candidate: &Candidate<'_>) -> bool {
        let left = candidate.forecast.left_upper(candidate.served);
        candidate.due.is_some_and(|due| slack(due, now, left) <= margin(settings, due.since(now)))
    }
}

/// How much slack a task with that deadline must have before others may run beside it.
fn margin(settings: &Settings, deadline: Span) -> Span {
    deadline.scaled(settings.margin_permille, 1000).max(settings.margin)
}

/// The tasks that yield so that as many as possible of the others make it.
fn who_yields(now: Instant, by_due: &[(Instant, &Candidate<'_>)]) -> BTreeSet<TaskId> {
    let mut yielding = BTreeSet::new();
    let mut work = Span::ZERO;
    let mut staying: BinaryHeap<(Span, TaskId)> = BinaryHeap::new();
    for (due, candidate) in by_due {
        // A first run is never given up: of its work nothing is known, so nothing is added either.
        if candidate.forecast.is_known() {
            let left = candidate.forecast.left(candidate.served);
            work += left;
            staying.push((left, candidate.task.id));
        }
        while work > due.since(now)
            && let Some((most, id)) = staying.pop()
        {
            work -= most;
            yielding.insert(id);
        }
    }
    yielding
}

/// What the task with the least to spare has to spare, beyond its margin; its slack; which one it is.
type Thinnest = (Span, Span, TaskId);

fn thinnest(scene: &Scene<'_>, by_due: &[(Instant, &Candidate<'_>)]) -> Option<Thinnest> {
    let mut work = Span::ZERO;
    let spare = by_due.iter().map(|(due, candidate)| {
        let left = candidate.forecast.left_upper(candidate.served);
        work += left;
        let deadline = candidate.task.deadline.map_or(Span::ZERO, |deadline| deadline.span());
        let slack = slack(*due, scene.now, work);
        (slack - margin(scene.settings, deadline), slack, candidate.task.id)
    });
    spare.min()
}

/// Of those that can make it, only the first runs: sharing would cost them all. But for the briefest, while all have slack to spare.
fn hold_later_dues(
    scene: &Scene<'_>,
    first: (Instant, TaskId),
    thinnest: Option<Thinnest>,
    yielding: &BTreeSet<TaskId>,
    judgement: &mut Judgement,
) {
    let spare = thinnest.map_or(Span::ZERO, |(spare, ..)| spare);
    let brief = scene.settings.brief_task();
    let may_share = |candidate: &Candidate<'_>| spare > Span::ZERO && is_shorter(candidate, brief);
    let stays = |candidate: &&Candidate<'_>| !yielding.contains(&candidate.task.id);
    let is_later =
        |candidate: &&Candidate<'_>| candidate.due.is_some_and(|due| (due, candidate.task.id) > first);
    let later = scene.candidates.iter().filter(stays).filter(is_later);
    for candidate in later.filter(|candidate| scene.may_hold(candidate)) {
        if may_share(candidate) {
            judgement.wake_at(Some(scene.now + spare));
        } else {
            judgement.hold(candidate, Reason::DueSooner(first.1));
        }
    }
}

/// Tasks without a deadline to make run beside the first while everybody has slack to spare.
fn hold_the_rest(
    scene: &Scene<'_>,
    first: TaskId,
    thinnest: Option<Thinnest>,
    rest: &[&Candidate<'_>],
    yielding: &BTreeSet<TaskId>,
    judgement: &mut Judgement,
) {
    let Some((spare, slack, thinnest)) = thinnest else { return };
    if spare > Span::ZERO {
        turns::take_turns(scene, rest, judgement);
        judgement.wake_at(Some(scene.now + spare));
        return;
    }
    for candidate in rest.iter().filter(|candidate| scene.may_hold(candidate)) {
        let because = if yielding.contains(&candidate.task.id) {
            Reason::CannotMakeIt(first)
        } else {
            Reason::SlackIsThin(thinnest, slack.or_zero())
        };
        judgement.hold(candidate, because);
    }
}
