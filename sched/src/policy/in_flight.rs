//! Work that is on the GPU cannot be called back.
//!
//! Problem: the task that is next comes to its gate while another's work is in flight. Let through at once, the two share the GPU until
//! both are done, and time slicing makes both slower: of ten tasks that start together, the four that prepare their input fastest took
//! 4.9 s for what takes 4.4 one after another, and none of them was done before.
//!
//! Approach: the next one waits until what is in flight has drained, as long as its deadline allows: it must still be able to make it
//! when it then has to share the GPU after all, at half its speed. Of a first run nobody knows how long it takes; an eighth of its
//! deadline is what it may wait. One of a few milliseconds does not wait: it would be done sooner beside.

use super::{Candidate, Judgement, Scene, is_shorter, slack};
use crate::action::Reason;
use crate::task::{Demand, TaskId};
use crate::time::{Instant, Span};

/// Holds those who are not behind `first`, but could let finish what is on the GPU.
pub(super) fn let_finish(scene: &Scene<'_>, first: (Instant, TaskId), judgement: &mut Judgement) {
    let is_in_flight = |candidate: &&Candidate<'_>| {
        candidate.due.is_some() && candidate.task.demand == Demand::Busy && !candidate.task.dormant
    };
    let Some(ahead) = scene.candidates.iter().find(is_in_flight).map(|candidate| candidate.task.id) else {
        return;
    };
    let asks = |demand| !matches!(demand, Demand::Busy | Demand::Unknown);
    for candidate in scene.candidates.iter().filter(|candidate| asks(candidate.task.demand)) {
        let Some(due) = candidate.due.filter(|due| (*due, candidate.task.id) <= first) else { continue };
        let spare = may_wait(scene, candidate, due);
        let brief = is_shorter(candidate, scene.settings.brief_task());
        if spare > Span::ZERO && !brief && scene.may_hold(candidate) {
            judgement.hold(candidate, Reason::StillRuns(ahead));
            judgement.wake_at(Some(scene.now + spare));
        }
    }
}

/// How long a task may wait before it must share the GPU.
fn may_wait(scene: &Scene<'_>, candidate: &Candidate<'_>, due: Instant) -> Span {
    if candidate.forecast.is_known() {
        let left = candidate.forecast.left_upper(candidate.served);
        return slack(due, scene.now, left + left) - scene.settings.margin;
    }
    let deadline = candidate.task.deadline.map_or(Span::ZERO, |deadline| deadline.span());
    slack(due, scene.now, deadline.scaled(7, 8))
}
