//! First come, first served, as long as the GPU's core is full (paper 001, Algorithm 2).
//!
//! Nothing running yet: the first runs and all others wait. Core at 100 %: later tasks wait. Below
//! that, they are let in one by one, with a fresh reading after each. Above 95 % memory the last one
//! let in waits again, and nobody is let in until it is below, or the two rules would chase each
//! other. A task whose GPU memory is back to zero is done with the GPU, and the next is let in.

use super::{Candidate, Judgement, Policy, Scene};
use crate::action::Reason;
use alloc::vec::Vec;

/// First come, first served.
pub struct Fifo;

impl Policy for Fifo {
    fn name(&self) -> &'static str {
        "fifo"
    }

    fn judge(&self, scene: &Scene<'_>) -> Judgement {
        let mut judgement = Judgement::default();
        let begun = scene.candidates.iter().filter(|candidate| !candidate.task.dormant);
        let on_gpu = begun.filter(|candidate| !has_left_the_gpu(candidate));
        let (running, waiting): (Vec<&Candidate<'_>>, Vec<&Candidate<'_>>) =
            on_gpu.partition(|candidate| candidate.task.let_in);
        let Some(first) = running.first().or(waiting.first()).map(|candidate| candidate.task.id) else {
            return judgement;
        };
        let (full, room) = fullness(scene);
        let enters = usize::from(running.is_empty() || room);
        for candidate in waiting.iter().skip(enters) {
            judgement.hold(candidate, full.unwrap_or(Reason::CameLater(first)));
        }
        // A server's next request comes later than whoever is here now.
        let dormant = scene.candidates.iter().filter(|candidate| candidate.task.dormant && !room);
        dormant.for_each(|candidate| judgement.hold(candidate, full.unwrap_or(Reason::CameLater(first))));
        if full == Some(Reason::MemoryFull) && running.len() > 1 && !one_waits_for_memory(scene) {
            let last = running.iter().max_by_key(|candidate| (candidate.task.free_since, candidate.task.id));
            if let Some(last) = last {
                judgement.hold(last, Reason::MemoryFull);
            }
        }
        judgement
    }
}

/// Whether a task that was let in waits again for memory. One is enough: standing still gives none back, so
/// more of them would only stand too.
fn one_waits_for_memory(scene: &Scene<'_>) -> bool {
    scene.candidates.iter().any(|candidate| {
        let task = candidate.task;
        task.is_gripped() && task.memory > 0 && task.reason == Some(Reason::MemoryFull)
    })
}

/// Why nobody is let in, and whether somebody is.
fn fullness(scene: &Scene<'_>) -> (Option<Reason>, bool) {
    let Some((read_at, reading)) = scene.gpu.reading else { return (None, false) };
    let settings = &scene.settings.fifo;
    if reading.memory_used.saturating_mul(1000)
        > reading.memory_total.saturating_mul(settings.memory_permille)
    {
        return (Some(Reason::MemoryFull), false);
    }
    // A reading speaks of the sampling window before it: the effect of the last one let in shows
    // only in a reading taken a whole window later.
    let fresh = scene.gpu.let_in_at.is_none_or(|at| read_at.since(at) >= settings.fresh_after);
    if reading.core_permille >= settings.core_permille {
        (Some(Reason::CoreFull), false)
    } else {
        (None, fresh)
    }
}

/// It had GPU memory and gave all of it back.
fn has_left_the_gpu(candidate: &Candidate<'_>) -> bool {
    candidate.task.memory_peak > 0 && candidate.task.memory == 0
}
