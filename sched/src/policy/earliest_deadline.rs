//! The task due first runs; the others wait.
//!
//! Only tasks that need the GPU now count as ahead of anybody, so a task that prepares its input
//! never keeps the GPU idle. A later arrival that is due sooner takes over at the next launch, and once
//! what is in flight is done. Tasks that have no deadline, or have missed it, run in what is left over.

use super::{Candidate, Judgement, Policy, Scene, in_flight, turns};
use crate::action::Reason;
use crate::scheduler::Settings;
use crate::time::Instant;
use alloc::collections::BTreeSet;
use alloc::vec::Vec;

/// Earliest deadline first.
pub struct EarliestDeadline;

impl Policy for EarliestDeadline {
    fn name(&self) -> &'static str {
        "earliest-deadline"
    }

    fn judge(&self, scene: &Scene<'_>) -> Judgement {
        let mut judgement = Judgement::default();
        let due_first = |contends: bool| {
            let candidates = scene.candidates.iter().filter(|candidate| candidate.contends || !contends);
            candidates.filter_map(|candidate| Some((candidate.due?, candidate.task.id))).min()
        };
        let someone_contends = scene.someone_contends;
        match due_first(someone_contends) {
            Some(first) => {
                hold_behind(scene, first, &mut judgement);
                in_flight::let_finish(scene, first, &BTreeSet::new(), &mut judgement);
            }
            None => {
                let left_over: Vec<&Candidate<'_>> =
                    scene.candidates.iter().filter(|candidate| candidate.due.is_none()).collect();
                turns::take_turns(scene, &left_over, &mut judgement);
            }
        }
        judgement.wake_at(scene.linger_ends());
        judgement
    }

    fn knows_urgency(&self) -> bool {
        true
    }

    fn is_urgent(&self, _: Instant, _: &Settings, candidate: &Candidate<'_>) -> bool {
        candidate.due.is_some()
    }
}

/// Holds everybody who comes after `first`. A task due sooner that does not need the GPU yet keeps
/// its gate open, unless it can let others finish: it goes ahead the moment it launches, without asking.
fn hold_behind(scene: &Scene<'_>, first: (Instant, crate::task::TaskId), judgement: &mut Judgement) {
    for candidate in scene.candidates.iter().filter(|candidate| scene.may_hold(candidate)) {
        match candidate.due {
            Some(due) if (due, candidate.task.id) > first => {
                judgement.hold(candidate, Reason::DueSooner(first.1));
            }
            Some(_) => {}
            None => judgement.hold(candidate, Reason::HasADeadline(first.1)),
        }
    }
}
