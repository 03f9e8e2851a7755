//! Tasks without a deadline to make take turns: one at a time, so that nobody pays for time slicing,
//! and in rotation, so that a long one does not shut out the rest.

use super::{Candidate, Judgement, Scene};
use crate::action::Reason;
use crate::task::Grip;

/// Holds all but the one whose turn it is.
pub(super) fn take_turns(scene: &Scene<'_>, members: &[&Candidate<'_>], judgement: &mut Judgement) {
    let Some(current) = whose_turn(scene, members) else { return };
    let others = members.iter().filter(|member| member.task.id != current.task.id);
    for other in others.filter(|other| scene.may_hold(other)) {
        judgement.hold(other, Reason::NotItsTurn(current.task.id));
        if other.contends {
            judgement.wake_at(Some(turn_ends(scene, current)).filter(|end| *end > scene.now));
        }
    }
}

/// The task that is in its turn; else the one that waits longest; else the first.
fn whose_turn<'s, 'a>(scene: &Scene<'_>, members: &[&'s Candidate<'a>]) -> Option<&'s Candidate<'a>> {
    let someone_contends = members.iter().any(|member| member.contends);
    let contenders = || members.iter().copied().filter(|member| member.contends || !someone_contends);
    let in_its_turn = |member: &&Candidate<'_>| match member.task.grip {
        Grip::Releasing(_) => true,
        Grip::Free => turn_ends(scene, member) > scene.now,
        Grip::Holding(..) | Grip::Held(_) => false,
    };
    contenders()
        .filter(in_its_turn)
        .min_by_key(|member| (member.task.free_since, member.task.id))
        .or_else(|| {
            contenders()
                .filter(|member| member.task.is_gripped())
                .min_by_key(|member| (member.task.held_since, member.task.id))
        })
        .or_else(|| contenders().min_by_key(|member| member.task.id))
}

fn turn_ends(scene: &Scene<'_>, member: &Candidate<'_>) -> crate::time::Instant {
    member.task.free_since + scene.settings.turn
}
