//! Stories about GPU memory: who may allocate, who waits, and who is asked.

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

/// A review, with who waits and why.
struct Reviewed {
    holds: Vec<(TaskId, Reason)>,
    admitted: Vec<TaskId>,
    whole: Review,
}

impl From<Review> for Reviewed {
    fn from(whole: Review) -> Reviewed {
        let holds = whole.holds.iter().map(|(id, _, because)| (*id, *because)).collect();
        Reviewed { holds, admitted: whole.admitted.clone(), whole }
    }
}

/// Who waits and who is let in at 10 s on a GPU of 10 GiB.
fn reviewed(tasks: &[(Task, Option<u64>)], used_gib: u64, others_gib: u64) -> Reviewed {
    reviewed_with(&Settings::default(), tasks, used_gib, others_gib)
}

fn reviewed_with(
    settings: &Settings,
    tasks: &[(Task, Option<u64>)],
    used_gib: u64,
    others_gib: u64,
) -> Reviewed {
    let mut gpu = Gpu::default();
    let reading = Reading { core_permille: 0, memory_used: used_gib * GIB, memory_total: 10 * GIB };
    gpu.reading = Some((at(0), reading));
    let known: u64 = tasks.iter().map(|(task, _)| task.memory_here()).sum();
    gpu.unexplained = (used_gib * GIB).saturating_sub(known + others_gib * GIB);
    let candidates = tasks.iter().map(|(task, gib)| {
        let memory = gib.map(|gib| gib * GIB);
        let forecast = Forecast { typical: Span::ZERO, upper: Span::ZERO, source: Source::Assumed, memory };
        Candidate { task, forecast, due: task.due(), served: Span::ZERO, contends: false, swappable: false }
    });
    let scene = Scene {
        now: at(10_000),
        settings,
        gpu: &gpu,
        candidates: candidates.collect(),
        someone_contends: false,
    };
    review(&scene, others_gib * GIB).into()
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
    let forecast = Forecast { typical: Span::ZERO, upper: Span::ZERO, source: Source::Assumed, memory: None };
    let candidates = alloc::vec![Candidate {
        task: &task,
        forecast,
        due: None,
        served: Span::ZERO,
        contends: true,
        swappable: false
    }];
    let review =
        review(&Scene { now: at(0), settings: &settings, gpu: &gpu, candidates, someone_contends: false }, 0);
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
    assert_eq!(review.holds, [(TaskId(1), Reason::AsksFirst), no_memory(2, 4, 3)]);
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
    assert_eq!(blocked.holds, [(TaskId(1), Reason::AsksFirst), (TaskId(2), Reason::SizeUnknown(TaskId(1)))]);
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
fn memory_is_kept_for_a_large_one_for_no_longer_than_anybody_is_held() {
    let settings = Settings { hold_max: ms(6_000), ..Settings::default() };
    let (large, gib) = newcomer(2, Some(5));
    let waits_since = |millis| {
        let large = (Task { stopped_since: Some(at(millis)), ..large }, gib);
        reviewed_with(&settings, &[resident(1, Some(8), 8), large, newcomer(3, Some(1))], 8, 0).admitted
    };
    assert_eq!(waits_since(4_001), []);
    assert_eq!(waits_since(4_000), [TaskId(3)], "what it waits for may never come");
}

#[test]
fn one_that_stands_for_more_keeps_newcomers_out_for_no_longer_than_anybody_is_held() {
    let settings = Settings { hold_max: ms(6_000), ..Settings::default() };
    let waits_since = |millis| {
        let (stands, gib) = asking(1, 4, 5);
        let stands = (Task { stopped_since: Some(at(millis)), demand_at: at(millis), ..stands }, gib);
        reviewed_with(&settings, &[stands, resident(2, Some(4), 4), newcomer(3, Some(1))], 8, 0).admitted
    };
    assert_eq!(waits_since(4_001), []);
    assert_eq!(waits_since(4_000), [TaskId(3)]);
}

#[test]
fn between_its_tasks_by_memory_a_process_has_nothing_set_aside_and_is_asked_first() {
    let idle = |task: Task| Task { mode: Mode::Memory, dormant: true, ..task };
    let (task, gib) = newcomer(1, Some(6));
    let review = reviewed(&[(idle(task), gib), newcomer(2, Some(5))], 0, 0);
    assert_eq!(review.admitted, [TaskId(2)]);
    assert_eq!(review.holds, [(TaskId(1), Reason::AsksFirst)]);
    let (asks, _) = asking(1, 0, 1);
    let asks = Task { admitted: false, ..idle(asks) };
    let review = reviewed(&[(asks, gib), resident(2, Some(5), 5)], 5, 0);
    assert_eq!(review.holds, [no_memory(1, 6, 5)], "what it took before is what it will take");
    let alone = reviewed(&[(idle(task), gib)], 0, 0);
    assert_eq!((alone.admitted, alone.holds), (alloc::vec![], alloc::vec![]));
}

#[test]
fn one_that_waited_long_is_still_let_in_alone() {
    let waited = |number, admitted: bool, free_since| {
        let (task, gib) = newcomer(number, None);
        let frozen = Task { demand: Demand::Unknown, stopped_since: (!admitted).then_some(at(5)), ..task };
        (Task { admitted, free_since: at(free_since), ..frozen }, gib)
    };
    let review = reviewed(&[waited(1, true, 9_000), waited(2, false, 0)], 0, 0);
    assert_eq!(review.holds, [(TaskId(2), Reason::SizeUnknown(TaskId(1)))]);
}

#[test]
fn of_two_that_start_together_the_first_is_let_in_whichever_is_frozen_first() {
    let frozen = |number, millis| {
        let (task, gib) = newcomer(number, Some(6));
        (Task { stopped_since: Some(at(millis)), ..task }, gib)
    };
    let due = |(task, gib)| (Task { deadline: Deadline::new(ms(20_000)), ..task }, gib);
    for tasks in [[frozen(1, 4), frozen(2, 3)], [due(frozen(1, 4)), due(frozen(2, 3))]] {
        assert_eq!(reviewed(&tasks, 0, 0).admitted, [TaskId(1)]);
    }
}

#[test]
fn who_is_out_longest_comes_back_first() {
    let out = |number, millis| {
        let (task, gib) = newcomer(number, Some(6));
        (Task { swap: Swap::Out(6 * GIB), launched: true, stopped_since: Some(at(millis)), ..task }, gib)
    };
    assert_eq!(reviewed(&[out(1, 4), out(2, 3)], 0, 0).admitted, [TaskId(2)]);
}

#[test]
fn one_that_is_about_to_be_let_on_to_its_gate_is_not_let_in_without_being_asked() {
    let ask = crate::task::Ask { request: crate::fact::RequestId(1), at: at(9_999) };
    let (task, _) = newcomer(2, None);
    let thawing = Task { stopped_since: Some(at(5)), grip: Grip::Holding(ask, Gate::Allocations), ..task };
    let review = reviewed(&[resident(1, Some(2), 2), (thawing, None)], 2, 0);
    assert_eq!(review.holds, [(TaskId(2), Reason::AsksFirst)]);
    assert_eq!(review.admitted, []);
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

/// A resident that stands and asks for more.
fn asking(number: u64, has_gib: u64, asks_gib: u64) -> (Task, Option<u64>) {
    let (task, _) = resident(number, None, has_gib);
    let asks = asks_gib * GIB;
    let memory_asked = Some(task.memory + asks);
    (Task { demand: Demand::AtAllocation(asks), memory_asked, stopped_since: Some(at(1)), ..task }, None)
}

#[test]
fn who_has_memory_and_no_known_need_asks_at_each_allocation_until_it_launches() {
    let fits = reviewed(&[asking(1, 2, 3), resident(2, Some(4), 4)], 6, 0);
    assert_eq!(
        (fits.whole.passed, fits.holds),
        (alloc::vec![TaskId(1)], alloc::vec![(TaskId(1), Reason::AsksFirst)])
    );
    let waits = reviewed(&[asking(1, 2, 5), resident(2, Some(4), 4)], 6, 0);
    assert_eq!(waits.holds, [no_memory(1, 5, 4)]);
    assert_eq!(waits.whole.short, Some(Short { task: TaskId(1), lacks: GIB }));
    let (launched, gib) = resident(1, None, 2);
    let launched = (Task { launched: true, ..launched }, gib);
    assert!(reviewed(&[launched, resident(2, Some(4), 4)], 6, 0).holds.is_empty());
}

#[test]
fn while_memory_is_short_only_one_of_unknown_need_grows() {
    let (lately, gib) = resident(1, None, 8);
    let lately = (Task { demand_at: at(9_000), ..lately }, gib);
    let review = reviewed(&[lately, newcomer(2, Some(1))], 8, 0);
    assert_eq!(review.holds[1], (TaskId(2), Reason::SizeUnknown(TaskId(1))));
    let (roomy, gib) = resident(1, None, 7);
    let roomy = (Task { demand_at: at(9_000), ..roomy }, gib);
    assert_eq!(reviewed(&[roomy, newcomer(2, Some(1))], 7, 0).admitted, [TaskId(2)]);
}

#[test]
fn of_those_that_all_wait_for_more_the_youngest_is_named() {
    let stuck = reviewed(&[asking(1, 5, 3), asking(2, 5, 3)], 10, 0);
    assert_eq!(stuck.whole.stuck, Some(TaskId(2)));
    let others_may_leave = reviewed(&[asking(1, 5, 3), asking(2, 4, 3)], 10, 1);
    assert_eq!(others_may_leave.whole.stuck, None);
    let one_runs = reviewed(&[asking(1, 5, 3), resident(2, Some(5), 5)], 10, 0);
    assert_eq!(one_runs.whole.stuck, None);
}

#[test]
fn those_that_wait_may_fill_a_quarter_of_the_gpu_with_their_contexts() {
    let settings = Settings { context: GIB, ..Settings::default() };
    let tasks = [resident(1, Some(2), 2), newcomer(2, None), newcomer(3, None), newcomer(4, None)];
    let review = reviewed_with(&settings, &tasks, 3, 0);
    let gates: Vec<Gate> = review.whole.holds.iter().map(|(_, gate, _)| *gate).collect();
    assert_eq!(gates, [Gate::Allocations, Gate::Allocations, Gate::Anywhere]);
}

#[test]
fn a_context_counts_with_the_need_of_who_has_none_yet() {
    let settings = Settings { context: GIB, ..Settings::default() };
    let (first, gib) = resident(1, Some(3), 3);
    let first = (Task { context_at: Some(at(0)), ..first }, gib);
    let needs_six = [first, newcomer(2, Some(6))];
    // The last look is as old as the first one's context, and may not show it.
    assert_eq!(reviewed_with(&settings, &needs_six, 3, 0).holds, [no_memory(2, 7, 6)]);
    let needs_five = [first, newcomer(2, Some(5))];
    assert_eq!(reviewed_with(&settings, &needs_five, 3, 0).admitted, [TaskId(2)]);
}

#[test]
fn who_cannot_be_asked_is_not_let_in_above_95_percent() {
    let (unseen, gib) = newcomer(2, None);
    let unseen = (Task { demand: Demand::Unknown, ..unseen }, gib);
    let full = reviewed(&[resident(1, Some(10), 10), unseen], 10, 0);
    assert!(matches!(full.holds[..], [(TaskId(2), Reason::NoMemory { free: 0, .. })]));
    assert_eq!(reviewed(&[resident(1, Some(9), 9), unseen], 9, 0).admitted, [TaskId(2)]);
}

#[test]
fn who_is_out_comes_back_once_all_of_it_fits_and_then_its_room_is_set_aside() {
    let (task, _) = resident(1, None, 4);
    let out = Task {
        swap: Swap::Out(5 * GIB),
        admitted: false,
        launched: true,
        stopped_since: Some(at(1)),
        ..task
    };
    let waits = reviewed(&[(out, None), resident(2, Some(6), 6)], 6, 0);
    assert_eq!(waits.holds, [no_memory(1, 5, 4)]);
    assert_eq!(reviewed(&[(out, None), resident(2, Some(5), 5)], 5, 0).admitted, [TaskId(1)]);
    let ask = crate::task::Ask { request: crate::fact::RequestId(1), at: at(2) };
    let returning = Task { swap: Swap::Returning(ask, 5 * GIB), admitted: true, ..out };
    let behind = reviewed(&[(returning, None), resident(2, Some(3), 3), newcomer(3, Some(3))], 3, 0);
    assert_eq!(behind.holds, [no_memory(3, 3, 2)]);
}

#[test]
fn what_is_given_back_is_had_by_others_a_little_later() {
    let settings = Settings { give_back: ms(50), ..Settings::default() };
    let gpu = |given_back_at| {
        let reading = Reading { core_permille: 0, memory_used: 8 * GIB, memory_total: 10 * GIB };
        let mut gpu = Gpu::default();
        gpu.reading = Some((at(0), reading));
        gpu.given_back.push_back((at(given_back_at), 4 * GIB));
        gpu
    };
    let (task, _) = newcomer(1, None);
    let forecast =
        Forecast { typical: Span::ZERO, upper: Span::ZERO, source: Source::Assumed, memory: Some(8 * GIB) };
    let review_at = |gpu: &Gpu| {
        let due = None;
        let one =
            Candidate { task: &task, forecast, due, served: Span::ZERO, contends: false, swappable: false };
        let candidates = alloc::vec![one];
        review(&Scene { now: at(10_000), settings: &settings, gpu, candidates, someone_contends: false }, 0)
    };
    let soon = review_at(&gpu(9_990));
    assert_eq!((soon.admitted, soon.wake), (alloc::vec![], Some(at(10_040))));
    assert_eq!(review_at(&gpu(9_950)).admitted, [TaskId(1)]);
}
