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
    let mut in_flux = scene.candidates.iter().find(|c| is_in_flux(scene, c)).map(|c| c.task.id);
    let mut kept_for = None;
    let mut newcomers: Vec<&Candidate<'_>> =
        scene.candidates.iter().filter(|candidate| !candidate.task.admitted).collect();
    newcomers.sort_by_key(|candidate| (candidate.due.is_none(), candidate.due, candidate.task.id));
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
            let waited = candidate.task.stopped_since.map(|since| scene.now.since(since));
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

/// Let in without anybody knowing its need, and it has not allocated yet. Some processes never do.
fn is_in_flux(scene: &Scene<'_>, candidate: &Candidate<'_>) -> bool {
    let task = candidate.task;
    let lately = scene.now.since(task.start) < scene.settings.patience;
    task.admitted && need(candidate).is_none() && task.memory == 0 && lately
}

/// Whether it will stop at its first allocation and so say what it needs. Alone it need not; and one that stands elsewhere than at its
/// gate, because its container was frozen, never comes to it.
fn can_be_asked(scene: &Scene<'_>, candidate: &Candidate<'_>) -> bool {
    let task = candidate.task;
    let at_its_gate = matches!(task.demand, Demand::AtLaunch | Demand::AtAllocation(_));
    let frozen = task.stopped_since.is_some() && !at_its_gate;
    task.demand != Demand::Unknown && !frozen && scene.candidates.len() > 1
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

/// What it will need in all, as far as anybody knows. Who is about to launch has what it needs.
fn need(candidate: &Candidate<'_>) -> Option<u64> {
    let task = candidate.task;
    let launches = task.launched || task.demand == Demand::AtLaunch;
    let has = launches.then_some(task.memory);
    candidate.forecast.memory.max(task.memory_asked).or(has)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fact::{GpuId, Reading};
    use crate::forecast::{Forecast, Source};
    use crate::node_under_test::{GIB, at, ms, process};
    use crate::scheduler::Settings;
    use crate::task::{Deadline, Task};
    use crate::time::Span;
    use crate::tracker::Gpu;

    /// A task that has nothing yet, and what is forecast for it in GiB.
    fn newcomer(number: u64, gib: Option<u64>) -> (Task, Option<u64>) {
        let mut task = Task::new(TaskId(number), process(number as u32), GpuId(0), at(0));
        task.demand = Demand::Host;
        (task, gib)
    }

    /// A task that was let in, and has some of the GiB forecast for it.
    fn resident(number: u64, gib: Option<u64>, has_gib: u64) -> (Task, Option<u64>) {
        let (task, gib) = newcomer(number, gib);
        (Task { admitted: true, memory: has_gib * GIB, memory_peak: has_gib * GIB, ..task }, gib)
    }

    /// Who waits and who is let in at 10 s on a GPU of 10 GiB.
    fn reviewed(tasks: &[(Task, Option<u64>)], used_gib: u64, others_gib: u64) -> Review {
        let mut gpu = Gpu::default();
        let reading = Reading { core_permille: 0, memory_used: used_gib * GIB, memory_total: 10 * GIB };
        gpu.reading = Some((at(0), reading));
        let candidates = tasks.iter().map(|(task, gib)| {
            let memory = gib.map(|gib| gib * GIB);
            let forecast =
                Forecast { typical: Span::ZERO, upper: Span::ZERO, source: Source::Assumed, memory };
            Candidate { task, forecast, due: task.due(), served: Span::ZERO, contends: false }
        });
        let settings = Settings::default();
        let scene = Scene {
            now: at(10_000),
            settings: &settings,
            gpu: &gpu,
            candidates: candidates.collect(),
            someone_contends: false,
        };
        review(&scene, others_gib * GIB)
    }

    fn no_memory(number: u64, need_gib: u64, free_gib: u64) -> (TaskId, Reason) {
        (TaskId(number), Reason::NoMemory { need: need_gib * GIB, free: free_gib * GIB })
    }

    #[test]
    fn who_fits_is_let_in_and_what_it_needs_is_set_aside() {
        let review = reviewed(&[newcomer(1, Some(6)), newcomer(2, Some(4)), newcomer(3, Some(1))], 0, 0);
        assert_eq!(review.admitted, [TaskId(1), TaskId(2)]);
        assert_eq!(review.holds, [no_memory(3, 1, 0)]);
    }

    #[test]
    fn without_a_reading_nobody_waits_for_memory() {
        let gpu = Gpu::default();
        let settings = Settings::default();
        let (task, _) = newcomer(1, None);
        let forecast =
            Forecast { typical: Span::ZERO, upper: Span::ZERO, source: Source::Assumed, memory: None };
        let candidates =
            alloc::vec![Candidate { task: &task, forecast, due: None, served: Span::ZERO, contends: true }];
        let review = review(
            &Scene { now: at(0), settings: &settings, gpu: &gpu, candidates, someone_contends: false },
            0,
        );
        assert!(review.holds.is_empty() && review.admitted.is_empty());
    }

    #[test]
    fn a_resident_keeps_what_it_will_need_not_only_what_it_has() {
        let review = reviewed(&[resident(1, Some(7), 2), newcomer(2, Some(4))], 2, 0);
        assert_eq!(review.holds, [no_memory(2, 4, 3)]);
        let grown = reviewed(&[resident(1, Some(1), 8), newcomer(2, Some(3))], 8, 0);
        assert_eq!(grown.holds, [no_memory(2, 3, 2)]);
    }

    #[test]
    fn nobody_who_has_memory_is_made_to_wait_for_more() {
        let review = reviewed(&[resident(1, Some(9), 8), resident(2, Some(9), 2)], 10, 0);
        assert!(review.holds.is_empty());
    }

    #[test]
    fn memory_of_others_and_what_nobody_explains_counts_as_used() {
        // Others have 2; of the 6 that are used, 1 is the resident's, so 3 are contexts or a stale reading.
        let review = reviewed(&[resident(1, Some(1), 1), newcomer(2, Some(5))], 6, 2);
        assert_eq!(review.holds, [no_memory(2, 5, 4)]);
        let fits = reviewed(&[resident(1, Some(1), 1), newcomer(2, Some(4))], 6, 2);
        assert_eq!(fits.admitted, [TaskId(2)]);
    }

    #[test]
    fn a_reading_from_before_an_allocation_does_not_hide_it() {
        let review = reviewed(&[resident(1, None, 7), newcomer(2, Some(4))], 0, 0);
        assert_eq!(review.holds, [no_memory(2, 4, 3)]);
    }

    #[test]
    fn who_is_larger_than_the_gpu_is_let_through_to_fail() {
        let review = reviewed(&[resident(1, Some(9), 9), newcomer(2, Some(11)), newcomer(3, Some(1))], 9, 0);
        assert_eq!(review.admitted, [TaskId(2)]);
        assert_eq!(review.holds, [no_memory(3, 1, 0)]);
        assert_eq!(reviewed(&[newcomer(1, Some(10))], 1, 0).holds, [no_memory(1, 10, 9)]);
    }

    #[test]
    fn who_can_be_asked_for_its_need_is_asked_first_unless_alone() {
        let review = reviewed(&[resident(1, Some(1), 1), newcomer(2, None)], 1, 0);
        assert_eq!(review.holds, [(TaskId(2), Reason::AsksFirst)]);
        let alone = reviewed(&[newcomer(2, None)], 1, 0);
        assert_eq!(alone.admitted, [TaskId(2)]);
    }

    #[test]
    fn what_a_task_asks_for_at_its_gate_is_its_need() {
        let (task, gib) = newcomer(2, None);
        let asking =
            |bytes| (Task { demand: Demand::AtAllocation(bytes), memory_asked: Some(bytes), ..task }, gib);
        let fits = reviewed(&[resident(1, Some(6), 6), asking(4 * GIB)], 6, 0);
        assert_eq!(fits.admitted, [TaskId(2)]);
        let waits = reviewed(&[resident(1, Some(6), 6), asking(5 * GIB)], 6, 0);
        assert_eq!(waits.holds, [no_memory(2, 5, 4)]);
    }

    #[test]
    fn one_of_unknown_need_that_cannot_be_asked_allocates_alone() {
        let unseen = |number| {
            let (task, gib) = newcomer(number, None);
            (Task { demand: Demand::Unknown, ..task }, gib)
        };
        let review = reviewed(&[unseen(1), unseen(2), newcomer(3, Some(1))], 0, 0);
        assert_eq!(review.admitted, [TaskId(1)]);
        let in_flux = Reason::SizeUnknown(TaskId(1));
        assert_eq!(review.holds, [(TaskId(2), in_flux), (TaskId(3), in_flux)]);
    }

    #[test]
    fn one_in_flux_blocks_newcomers_until_it_has_allocated_or_launched() {
        let (in_flux, gib) = resident(1, None, 0);
        let in_flux = Task { start: at(9_000), ..in_flux };
        let blocked = reviewed(&[(in_flux, gib), newcomer(2, Some(1))], 0, 0);
        assert_eq!(blocked.holds, [(TaskId(2), Reason::SizeUnknown(TaskId(1)))]);
        let for_long = Task { start: at(5_000), ..in_flux };
        assert_eq!(reviewed(&[(for_long, gib), newcomer(2, Some(1))], 0, 0).admitted, [TaskId(2)]);
        let launched = Task { launched: true, ..in_flux };
        assert_eq!(reviewed(&[(launched, gib), newcomer(2, Some(1))], 0, 0).admitted, [TaskId(2)]);
        assert_eq!(reviewed(&[resident(1, None, 1), newcomer(2, Some(1))], 1, 0).admitted, [TaskId(2)]);
    }

    #[test]
    fn a_small_task_slips_in_front_until_the_large_one_has_waited_long() {
        let (large, gib) = newcomer(2, Some(5));
        let waiting_since = |millis| (Task { stopped_since: Some(at(millis)), ..large }, gib);
        let tasks = |large| [resident(1, Some(8), 8), large, newcomer(3, Some(1))];
        let slips = reviewed(&tasks(waiting_since(5_001)), 8, 0);
        assert_eq!((slips.admitted, slips.holds), (alloc::vec![TaskId(3)], alloc::vec![no_memory(2, 5, 2)]));
        let kept = reviewed(&tasks(waiting_since(5_000)), 8, 0);
        assert!(kept.admitted.is_empty());
        assert_eq!(kept.holds, [no_memory(2, 5, 2), (TaskId(3), Reason::MemoryKept(TaskId(2)))]);
    }

    #[test]
    fn memory_goes_to_whoever_is_due_first_and_then_by_arrival() {
        let due = |number, deadline_ms| {
            let (task, gib) = newcomer(number, Some(6));
            (Task { deadline: Deadline::new(ms(deadline_ms)), ..task }, gib)
        };
        let review = reviewed(&[newcomer(1, Some(6)), due(2, 50_000), due(3, 20_000)], 0, 0);
        assert_eq!(review.admitted, [TaskId(3)]);
        assert_eq!(review.holds, [no_memory(2, 6, 4), no_memory(1, 6, 4)]);
    }

    #[test]
    fn one_that_was_frozen_cannot_be_asked_and_is_let_in_alone() {
        let (one, two) = (newcomer(1, None), newcomer(2, None));
        let asks = |number| (TaskId(number), Reason::AsksFirst);
        assert_eq!(reviewed(&[one, two], 0, 0).holds, [asks(1), asks(2)]);
        let frozen = |(task, gib): (Task, Option<u64>)| (Task { stopped_since: Some(at(5)), ..task }, gib);
        let review = reviewed(&[frozen(one), frozen(two)], 0, 0);
        assert_eq!(review.admitted, [TaskId(1)]);
        assert_eq!(review.holds, [(TaskId(2), Reason::SizeUnknown(TaskId(1)))]);
    }
}
