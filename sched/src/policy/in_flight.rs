//! Work that is on the GPU cannot be called back.
//!
//! Problem: the task that is next comes to its gate while another's work is in flight. Let through at once, the two share the GPU until
//! both are done, and time slicing makes both slower: of ten tasks that start together, the four that prepare their input fastest took
//! 4.9 s for what takes 4.4 one after another, and none of them was done before.
//!
//! Approach: the next one waits until what is in flight has drained, as long as its deadline allows: it must still be able to make it
//! when it then has to share the GPU with all of that after all. Of a first run nobody knows how long it takes; an eighth of its
//! deadline is what it may wait. One of a few milliseconds does not wait: it would be done sooner beside. Nor is there a wait for work of
//! those who go on launching.

use super::{Candidate, Judgement, Scene, is_shorter, slack};
use crate::action::Reason;
use crate::task::{Demand, TaskId};
use crate::time::{Instant, Span};
use alloc::collections::BTreeSet;
use alloc::vec::Vec;

/// Holds those who are not behind `first`, but could let finish what is on the GPU. Those who yield to all others are not part of it.
pub(super) fn let_finish(
    scene: &Scene<'_>,
    first: (Instant, TaskId),
    yielding: &BTreeSet<TaskId>,
    judgement: &mut Judgement,
) {
    let brief = scene.settings.brief_task();
    // Those who are held once they have drained.
    let worth = |candidate: &&Candidate<'_>| {
        !is_shorter(candidate, brief)
            && scene.may_hold(candidate)
            && !candidate.task.dormant
            && !yielding.contains(&candidate.task.id)
    };
    let mut taking_part = Vec::new();
    taking_part.extend(scene.candidates.iter().filter(worth).filter_map(|one| Some((one.due?, one))));
    let in_flight = |(_, candidate): &&(Instant, &Candidate<'_>)| candidate.task.is_in_flight();
    let Some((_, ahead)) = taking_part.iter().find(in_flight) else { return };
    let sharers = 1 + taking_part.iter().filter(in_flight).count() as i64;
    for (due, candidate) in &taking_part {
        let asks = !matches!(candidate.task.demand, Demand::Busy | Demand::Unknown);
        let spare = may_wait(scene, candidate, *due, sharers);
        if asks && (*due, candidate.task.id) <= first && spare > Span::ZERO {
            judgement.hold(candidate, Reason::StillRuns(ahead.task.id));
            judgement.wake_at(Some(scene.now + spare));
        }
    }
}

/// How long a task may wait before it must share the GPU, which so many then do.
fn may_wait(scene: &Scene<'_>, candidate: &Candidate<'_>, due: Instant, sharers: i64) -> Span {
    if candidate.forecast.is_known() {
        let left = candidate.forecast.left_upper(candidate.served);
        return slack(due, scene.now, left.scaled(sharers, 1)) - scene.settings.margin;
    }
    let deadline = candidate.task.deadline.map_or(Span::ZERO, |deadline| deadline.span());
    slack(due, scene.now, deadline.scaled(7, 8))
}
