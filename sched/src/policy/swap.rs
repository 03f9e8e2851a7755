//! Who makes room for a task that lacks GPU memory: only those whose containers allow it.
//!
//! Problem: to swap a task out and in again takes a second per GiB, in which nobody gains anything. Swapped for everybody who
//! waits, tasks would take turns at being moved.
//!
//! Approach: somebody leaves for a task that is due sooner, at once; for one that has no deadline only who keeps its memory idle, or has
//! had it several times as long as moving it takes. One move at a time, and none on a reading from before the last. If all who
//! may leave do not make enough room together, nobody leaves.

use super::{Candidate, Scene};
use crate::action::Reason;
use crate::policy::memory::Short;
use crate::task::{Demand, Swap, TaskId};
use crate::time::{Instant, Span};
use alloc::vec::Vec;

/// How soon to look again whether somebody may leave.
const LOOK_AGAIN: Span = Span::from_millis(500);

/// Who should leave, and when to look again if nobody should yet.
#[derive(Default)]
pub struct Moves {
    /// Who, and for whom.
    pub out: Vec<(TaskId, Reason)>,
    /// When.
    pub wake: Option<Instant>,
}

/// Who should leave for the one that lacks memory. Whoever has just been allowed to allocate stays.
pub fn choose(scene: &Scene<'_>, short: Short, passed: &[TaskId]) -> Moves {
    let mut moves = Moves::default();
    let somebody_moves =
        |candidate: &Candidate<'_>| matches!(candidate.task.swap, Swap::Leaving(..) | Swap::Returning(..));
    let mut might_leave = scene.candidates.iter().filter(|c| c.swappable && c.task.memory_here() > 0);
    let for_whom = scene.candidates.iter().find(|candidate| candidate.task.id == short.task);
    let Some(for_whom) = for_whom.filter(|_| might_leave.any(|candidate| candidate.task.id != short.task))
    else {
        return moves;
    };
    if scene.candidates.iter().any(somebody_moves) {
        return moves;
    }
    let read_since =
        scene.gpu.reading.is_some_and(|(at, _)| scene.gpu.moved_at.is_none_or(|moved| at > moved));
    let waited = for_whom.task.stopped_since.map_or(Span::ZERO, |since| scene.now.since(since));
    if read_since && waited >= scene.settings.swap_after && for_whom.task.wants_its_memory() {
        moves.out = enough(scene, for_whom, waited, short.lacks, passed);
    }
    moves.wake = moves.out.is_empty().then_some(scene.now + LOOK_AGAIN);
    moves
}

/// Those that leave: who needs its memory least first, and no more than it takes. Nobody, if all of them are not enough.
fn enough(
    scene: &Scene<'_>,
    for_whom: &Candidate<'_>,
    waited: Span,
    lacks: u64,
    passed: &[TaskId],
) -> Vec<(TaskId, Reason)> {
    let may_leave =
        |c: &&Candidate<'_>| may_leave(scene, c, for_whom, waited) && !passed.contains(&c.task.id);
    let mut may: Vec<&Candidate<'_>> = scene.candidates.iter().filter(may_leave).collect();
    may.sort_by_key(|c| {
        (!is_idle(scene, c), c.due.is_some(), core::cmp::Reverse(c.due), c.task.swap_at, c.task.id)
    });
    let mut room = 0_u64;
    let mut out = Vec::new();
    for candidate in may {
        if room >= lacks {
            break;
        }
        room = room.saturating_add(candidate.task.memory);
        out.push((candidate.task.id, Reason::SwappedFor(for_whom.task.id)));
    }
    if room >= lacks { out } else { Vec::new() }
}

fn may_leave(scene: &Scene<'_>, candidate: &Candidate<'_>, for_whom: &Candidate<'_>, waited: Span) -> bool {
    let task = candidate.task;
    if !candidate.swappable || task.is_away() || task.memory == 0 || task.id == for_whom.task.id {
        return false;
    }
    let turn = scene.settings.swap_turn(task.memory);
    let had_its_turn = scene.now.since(task.swap_at) >= turn;
    // Both have memory and ask for more: neither can go on, and this one came later.
    let in_turn = |c: &Candidate<'_>| (c.due.is_none(), c.due, c.task.id);
    let waits_too = matches!(task.demand, Demand::AtAllocation(_))
        && for_whom.task.memory_here() > 0
        && in_turn(candidate) > in_turn(for_whom);
    match (for_whom.due, candidate.due) {
        _ if is_idle(scene, candidate) || waits_too => true,
        (Some(sooner), Some(later)) => sooner < later,
        (Some(_), None) => true,
        (None, Some(_)) => false,
        (None, None) => had_its_turn && waited >= scene.settings.swap_turn_min,
    }
}

/// It has had memory and nothing to do for as long as moving it is worth.
fn is_idle(scene: &Scene<'_>, candidate: &Candidate<'_>) -> bool {
    let task = candidate.task;
    let quiet = matches!(task.demand, Demand::Host | Demand::Drained(_));
    let since = task.demand_at.max(task.swap_at);
    quiet && scene.now.since(since) >= scene.settings.swap_turn(task.memory)
}
