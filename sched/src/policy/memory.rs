//! GPU memory is set aside before a task allocates, because an allocation that fails kills it.
//!
//! Problem: CUDA does not wait for memory, it fails. And waiting for memory while holding some can
//! deadlock.
//!
//! Approach: a task that has none yet waits until its whole need fits beside what is set aside for the
//! others: what its history says, else what was declared, else what it asks for when it stands at its
//! first allocation. Where that cannot be seen, a task of unknown need is let in alone, and until it has
//! allocated nobody else is. Nobody who has memory is ever made to wait for more, so there is no cycle.

use super::{Candidate, Scene};
use crate::action::Reason;
use crate::task::{Demand, TaskId};
use alloc::vec::Vec;

/// What the memory of one GPU allows.
#[derive(Default)]
pub struct Review {
    /// Who must not allocate yet, and why.
    pub holds: Vec<(TaskId, Reason)>,
    /// Who may from now on.
    pub admitted: Vec<TaskId>,
}

/// Looks at everybody on the GPU. `others` is memory in use by tasks that are not ours to hold.
pub fn review(scene: &Scene<'_>, others: u64) -> Review {
    let mut review = Review::default();
    let Some((_, reading)) = scene.gpu.reading else { return review };
    let mut free = reading.memory_total.saturating_sub(set_aside(scene, reading.memory_used, others));
    let mut in_flux = scene.candidates.iter().find(|c| is_in_flux(c)).map(|c| c.task.id);
    let mut kept_for = None;
    let mut newcomers: Vec<&Candidate<'_>> =
        scene.candidates.iter().filter(|candidate| !candidate.task.admitted).collect();
    newcomers.sort_by_key(|candidate| (candidate.due().is_none(), candidate.due(), candidate.task.id));
    for candidate in newcomers {
        let id = candidate.task.id;
        let needed = need(candidate);
        let need = needed.unwrap_or(0);
        let because = match (in_flux, kept_for) {
            // What is larger than the GPU fails with or without us; holding it would only delay the news.
            _ if need > reading.memory_total => None,
            _ if needed.is_none() && can_be_asked(scene, candidate) => Some(Reason::AsksFirst),
            (Some(other), _) => Some(Reason::SizeUnknown(other)),
            (_, Some(other)) => Some(Reason::MemoryKept(other)),
            _ if need > free => Some(Reason::NoMemory { need, free }),
            _ => None,
        };
        if let Some(because) = because {
            review.holds.push((id, because));
            // Small tasks may slip in front of a large one, but not for ever.
            let waited = candidate.task.held_since.map(|since| scene.now.since(since));
            if needed.is_some() && waited.is_some_and(|waited| waited >= scene.settings.patience) {
                kept_for = kept_for.or(Some(id));
            }
        } else {
            review.admitted.push(id);
            free = free.saturating_sub(need);
            in_flux = in_flux.or(needed.is_none().then_some(id));
        }
    }
    review
}

/// Let in without anybody knowing its need, and it has not allocated yet.
fn is_in_flux(candidate: &Candidate<'_>) -> bool {
    let task = candidate.task;
    task.admitted && need(candidate).is_none() && task.memory == 0 && !task.launched
}

/// Whether it will stop at its first allocation and so say what it needs. Alone it need not.
fn can_be_asked(scene: &Scene<'_>, candidate: &Candidate<'_>) -> bool {
    candidate.task.demand != Demand::Unknown && scene.candidates.len() > 1
}

/// Memory that is used, or will be by those already let in.
fn set_aside(scene: &Scene<'_>, memory_used: u64, others: u64) -> u64 {
    let let_in = scene.candidates.iter().filter(|candidate| candidate.task.admitted);
    let (mut used_by_them, mut reserved) = (0_u64, 0_u64);
    for candidate in let_in {
        // What a tenant asks for is a number it chose: no sum of such numbers may overflow.
        used_by_them = used_by_them.saturating_add(candidate.task.memory);
        reserved = reserved.saturating_add(need(candidate).unwrap_or(0).max(candidate.task.memory));
    }
    // Contexts, other users and processes not seen yet show only in the sum the GPU reports.
    let unexplained = memory_used.saturating_sub(used_by_them.saturating_add(others));
    reserved.saturating_add(others).saturating_add(unexplained)
}

/// What it will need in all, as far as anybody knows.
fn need(candidate: &Candidate<'_>) -> Option<u64> {
    let asked = Some(candidate.task.memory_asked).filter(|asked| *asked > 0);
    candidate.forecast.memory.max(asked)
}
