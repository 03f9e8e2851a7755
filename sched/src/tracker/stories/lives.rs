//! What begins a task, what ends it and when it has missed, in each mode.

use crate::fact::{ContainerId, Fact, GpuId, Process};
use crate::node_under_test::*;
use crate::task::{Demand, Mode, TaskId};
use crate::time::{Instant, Span};
use crate::tracker::{Event, Tracker};

/// Container 1 is known, on terms of this mode and deadline.
fn watch(mode: Mode, deadline_ms: i64) -> Watch {
    let mut watch = Watch::new();
    watch.hears(0, on_terms(1, terms(mode, deadline_ms)));
    watch
}

/// Bursts stay open for 20 ms after they drained.
fn with_a_gap(deadline_ms: i64) -> Watch {
    let mut watch = Watch { tracker: Tracker::new(ms(20), 125) };
    watch.hears(0, on_terms(1, terms(Mode::Burst, deadline_ms)));
    watch.hears(0, arrives(1, 1));
    watch
}

#[test]
fn in_process_mode_a_task_lasts_from_the_first_gpu_use_until_the_exit() {
    let mut watch = watch(Mode::Process, 100);
    assert_eq!(watch.hears(5, arrives(1, 1)), "1 starts at 5ms");
    assert_eq!(watch.hears(10, submits(1)), "");
    assert_eq!(watch.hears(20, drains(1)), "");
    assert_eq!(watch.hears(30, has(1, 0)), "");
    assert_eq!(watch.hears(45, exits(1)), "1 ends at 45ms, 60ms float");
    assert_eq!(watch.tracker.tasks().count(), 0);
}

#[test]
fn in_memory_mode_a_task_lasts_while_there_is_memory() {
    let mut watch = watch(Mode::Memory, 100);
    assert_eq!(watch.hears(0, arrives(1, 1)), "");
    assert_eq!(watch.hears(5, submits(1)), "");
    assert_eq!(watch.hears(10, has(1, GIB)), "1 starts at 10ms");
    assert_eq!(watch.hears(20, has(1, 2 * GIB)), "");
    assert_eq!(watch.hears(30, has(1, 0)), "1 ends at 30ms, 80ms float");
    assert_eq!(watch.hears(35, has(1, 0)), "");
    assert_eq!(watch.hears(40, has(1, 1)), "2 starts at 40ms");
    assert_eq!(watch.hears(50, exits(1)), "2 ends at 50ms, 90ms float");
}

#[test]
fn in_burst_mode_every_request_of_one_process_is_a_task() {
    let mut watch = watch(Mode::Burst, 100);
    assert_eq!(watch.hears(0, arrives(1, 1)), "");
    assert_eq!(watch.hears(10, submits(1)), "1 starts at 10ms");
    assert_eq!(watch.hears(30, drains(1)), "1 ends at 30ms, 80ms float");
    assert_eq!(watch.hears(40, submits(1)), "2 starts at 40ms");
    assert_eq!(watch.hears(45, drains(1)), "2 ends at 45ms, 95ms float");
    assert_eq!(watch.hears(50, exits(1)), "");
    assert_eq!(watch.container(1).hits, 2);
}

#[test]
fn a_burst_that_launches_again_within_the_gap_goes_on() {
    let mut watch = with_a_gap(100);
    assert_eq!(watch.hears(10, submits(1)), "1 starts at 10ms");
    assert_eq!(watch.hears(20, drains(1)), "");
    assert_eq!(watch.tracker.next_moment(), Some(at(40)));
    assert_eq!(watch.hears(39, submits(1)), "");
    assert_eq!(watch.hears(50, drains(1)), "");
    assert_eq!(watch.waits(69), "");
    assert_eq!(watch.waits(70), "1 ends at 50ms, 60ms float");
    assert_eq!(watch.tracker.next_moment(), None);
}

#[test]
fn a_burst_is_not_over_before_everything_was_heard() {
    let mut watch = with_a_gap(100);
    watch.hears(0, Fact::Heard);
    assert_eq!(watch.hears(10, submits(1)), "1 starts at 10ms");
    assert_eq!(watch.hears(20, drains(1)), "");
    assert_eq!(watch.waits(45), "", "news from before may be on its way");
    assert_eq!((watch.tracker.awaits_word(), watch.tracker.next_moment()), (true, None));
    assert_eq!(watch.hears(30, submits(1)), "");
    assert_eq!(watch.hears(45, Fact::Heard), "");
    assert!(!watch.tracker.awaits_word());
    assert_eq!(watch.hears(50, drains(1)), "");
    assert_eq!(watch.waits(80), "");
    assert_eq!(watch.hears(69, Fact::Heard), "");
    assert_eq!(watch.hears(80, Fact::Heard), "1 ends at 50ms, 60ms float");
    watch.hears(90, submits(1));
    watch.hears(95, drains(1));
    assert_eq!(
        watch.hears(120, submits(1)),
        "2 ends at 95ms, 95ms float; 3 starts at 120ms",
        "nobody was asked"
    );
}

#[test]
fn a_burst_has_not_missed_before_everything_was_heard() {
    let mut watch = with_a_gap(100);
    watch.hears(0, Fact::Heard);
    watch.hears(10, submits(1));
    assert_eq!(watch.waits(112), "", "its drain may be on its way");
    assert_eq!((watch.tracker.awaits_word(), watch.tracker.next_moment()), (true, None));
    watch.hears(109, drains(1));
    assert_eq!(watch.hears(130, Fact::Heard), "1 ends at 109ms, 1ms float");
    watch.hears(200, submits(1));
    assert_eq!(watch.waits(310), "");
    assert_eq!(watch.hears(310, Fact::Heard), "2 misses at 300ms");
}

#[test]
fn a_burst_that_is_done_in_time_misses_only_if_it_goes_on() {
    let mut watch = with_a_gap(100);
    watch.hears(10, submits(1));
    watch.hears(100, drains(1));
    assert_eq!(watch.waits(119), "");
    assert_eq!(watch.waits(120), "1 ends at 100ms, 10ms float");
    watch.hears(200, submits(1));
    watch.hears(290, drains(1));
    assert_eq!(watch.hears(305, submits(1)), "");
    assert_eq!(watch.waits(305), "2 misses at 300ms");
}

#[test]
fn a_burst_begins_with_its_input() {
    let mut watch = watch(Mode::Burst, 100);
    watch.hears(0, arrives(1, 1));
    assert_eq!(watch.hears(10, copies(1)), "1 starts at 10ms");
    assert!(!watch.task(1).contends(at(10), ms(1)), "nobody waits for a copy");
    assert_eq!(watch.hears(20, submits(1)), "");
    assert_eq!(watch.hears(30, drains(1)), "1 ends at 30ms, 80ms float");
    assert_eq!(watch.hears(40, copies(1)), "2 starts at 40ms");
    assert_eq!(watch.hears(45, drains(1)), "2 ends at 45ms, 95ms float");
    assert!(!watch.tracker.tasks().any(|task| task.contends(at(45), ms(1))), "nor for a copy that is done");
    assert_eq!(watch.hears(42, copies(1)), "", "older than the drain");
}

#[test]
fn a_burst_whose_process_exits_while_drained_ended_at_the_drain() {
    let mut watch = with_a_gap(100);
    watch.hears(10, submits(1));
    watch.hears(20, drains(1));
    assert_eq!(watch.hears(30, exits(1)), "1 ends at 20ms, 90ms float");
    assert_eq!(watch.waits(100), "");
}

#[test]
fn a_process_task_that_had_drained_ends_at_the_exit() {
    let mut watch = watch(Mode::Process, 100);
    watch.hears(0, arrives(1, 1));
    watch.hears(10, submits(1));
    watch.hears(20, drains(1));
    assert_eq!(watch.hears(30, exits(1)), "1 ends at 30ms, 70ms float");
}

#[test]
fn a_burst_begins_when_its_process_stands_at_a_gate_too() {
    let mut watch = watch(Mode::Burst, 100);
    watch.hears(0, arrives(1, 1));
    assert_eq!(watch.hears(10, stands(1)), "1 starts at 10ms; 1 stands at 10ms: no reason");
    let asks_only = watch.hears(10, asks(2, GIB));
    assert_eq!(asks_only, "");
}

#[test]
fn a_miss_is_told_once_and_at_the_moment_it_happens() {
    let mut watch = watch(Mode::Process, 100);
    watch.hears(0, arrives(1, 1));
    assert_eq!(watch.waits(100), "");
    assert!(!watch.task(1).missed);
    let just_after = Instant::from_micros(100_001);
    assert_eq!(watch.tracker.next_moment(), Some(just_after));
    let missed = Event::Missed { task: TaskId(1), at: at(100) };
    assert_eq!(watch.tracker.advance(just_after), [missed]);
    assert!(watch.task(1).missed);
    assert_eq!(watch.waits(200), "");
    assert_eq!(watch.tracker.next_moment(), None);
    assert_eq!(watch.hears(250, exits(1)), "1 ends at 250ms, -150ms float");
    assert_eq!((watch.container(1).hits, watch.container(1).misses), (0, 1));
}

#[test]
fn a_fact_that_comes_after_a_deadline_tells_of_the_miss_first() {
    let mut watch = watch(Mode::Process, 100);
    watch.hears(0, arrives(1, 1));
    assert_eq!(watch.hears(101, exits(1)), "1 misses at 100ms; 1 ends at 101ms, -1ms float");
}

#[test]
fn a_float_of_exactly_zero_is_a_hit() {
    let mut watch = watch(Mode::Process, 100);
    watch.hears(0, arrives(1, 1));
    let events = watch.tracker.learn(at(100), exits(1));
    let [Event::Finished(finished)] = events[..] else { panic!("{events:?}") };
    assert_eq!((finished.float, finished.hit()), (Some(Span::ZERO), Some(true)));
    assert_eq!((watch.container(1).hits, watch.container(1).misses), (1, 0));
}

#[test]
fn an_end_that_is_told_late_takes_the_miss_back() {
    let mut watch = watch(Mode::Process, 100);
    watch.hears(0, arrives(1, 1));
    assert_eq!(watch.waits(120), "1 misses at 100ms");
    assert!(watch.container(1).latest.is_some_and(|latest| latest.missed));
    let events = watch.tracker.learn(at(90), exits(1));
    let [Event::Finished(finished)] = events[..] else { panic!("{events:?}") };
    assert_eq!((finished.end, finished.hit()), (at(90), Some(true)));
    let container = watch.container(1);
    assert_eq!((container.hits, container.misses), (1, 0));
    assert!(container.latest.is_some_and(|latest| !latest.missed));
    assert_eq!(watch.tracker.clock(), at(120));
}

#[test]
fn an_end_from_before_the_start_makes_a_very_short_task() {
    let mut watch = watch(Mode::Process, 100);
    watch.hears(50, arrives(1, 1));
    assert_eq!(watch.hears(40, exits(1)), "1 ends at 50ms, 100ms float");
}

#[test]
fn a_start_that_is_told_after_its_deadline_has_missed_already() {
    let mut watch = watch(Mode::Process, 100);
    watch.waits(500);
    assert_eq!(watch.hears(10, arrives(1, 1)), "1 starts at 10ms; 1 misses at 110ms");
}

#[test]
fn the_same_pid_with_another_start_is_another_process() {
    let mut watch = watch(Mode::Process, 100);
    let reused = Process { pid: 1, started: 2 };
    let again = Fact::Process {
        process: reused,
        container: Some(ContainerId(1)),
        gpu: GPU,
        launches_seen: true,
        approximate: false,
    };
    assert_eq!(watch.hears(0, arrives(1, 1)), "1 starts at 0s");
    assert_eq!(watch.hears(10, exits(1)), "1 ends at 10ms, 90ms float");
    assert_eq!(watch.hears(20, again), "2 starts at 20ms");
    assert_eq!(watch.hears(30, exits(1)), "");
    assert_eq!(watch.hears(40, Fact::ProcessGone(reused)), "2 ends at 40ms, 80ms float");
}

#[test]
fn a_process_on_two_gpus_does_a_task_on_each() {
    let mut watch = watch(Mode::Process, 100);
    let other = GpuId(1);
    assert_eq!(watch.hears(0, arrives(1, 1)), "1 starts at 0s");
    assert_eq!(watch.hears(10, arrives_on(1, 1, other)), "2 starts at 10ms");
    watch.hears(20, submits(1));
    assert_eq!(watch.task(1).demand, Demand::Busy);
    assert_eq!(watch.task(2).demand, Demand::Host);
    let on = |gpu| watch.tracker.tasks_on(gpu).map(|task| task.id.0).collect::<alloc::vec::Vec<_>>();
    assert_eq!((on(GPU), on(other)), (alloc::vec![1], alloc::vec![2]));
    let ends = "1 ends at 50ms, 50ms float; 2 ends at 50ms, 60ms float";
    assert_eq!(watch.hears(50, exits(1)), ends);
}

#[test]
fn a_fact_about_a_process_that_left_changes_nothing() {
    let mut watch = watch(Mode::Process, 100);
    watch.hears(0, arrives(1, 1));
    watch.hears(10, exits(1));
    let late = [arrives(1, 1), submits(1), drains(1), stands(1), asks(1, GIB), has(1, GIB), exits(1)];
    for fact in late {
        assert_eq!(watch.hears(20, fact), "", "{fact:?}");
    }
    assert_eq!(watch.tracker.tasks().count(), 0);
    assert_eq!(watch.tracker.memory_on(GPU), 0);
    assert_eq!(watch.container(1).hits, 1);
}

#[test]
fn word_of_an_exit_that_overtakes_word_of_the_process_wins() {
    let mut watch = watch(Mode::Process, 100);
    assert_eq!(watch.hears(10, exits(1)), "");
    assert_eq!(watch.hears(5, arrives(1, 1)), "");
    assert_eq!(watch.tracker.tasks().count(), 0);
}

#[test]
fn exits_are_remembered_long_enough_and_no_longer() {
    let mut watch = watch(Mode::Process, 100);
    watch.hears(0, exits(1));
    for pid in 2..=1_024 {
        watch.hears(0, exits(pid));
    }
    assert_eq!(watch.hears(1, arrives(1, 1)), "");
    watch.hears(1, exits(1_025));
    assert_eq!(watch.hears(2, arrives(1, 1)), "1 starts at 2ms");
}

#[test]
fn facts_told_twice_change_nothing() {
    let mut watch = watch(Mode::Burst, 100);
    for fact in [arrives(1, 1), submits(1), has(1, GIB), on_terms(1, terms(Mode::Burst, 100))] {
        watch.hears(10, fact);
        assert_eq!(watch.hears(11, fact), "", "{fact:?}");
    }
    assert_eq!(watch.task(1).start, at(10));
    assert_eq!(watch.hears(20, drains(1)), "1 ends at 20ms, 90ms float");
    assert_eq!(watch.hears(21, drains(1)), "");
    watch.hears(22, exits(1));
    assert_eq!(watch.hears(23, exits(1)), "");
}

#[test]
fn a_process_word_from_a_poller_does_not_unlearn_its_launches() {
    let mut watch = watch(Mode::Process, 100);
    let Fact::Process { process, container, gpu, approximate, .. } = arrives(1, 1) else { unreachable!() };
    let polled = Fact::Process { process, container, gpu, launches_seen: false, approximate };
    watch.hears(0, polled);
    assert_eq!(watch.task(1).demand, Demand::Unknown);
    watch.hears(1, arrives(1, 1));
    assert_eq!(watch.task(1).demand, Demand::Host);
    watch.hears(2, submits(1));
    watch.hears(3, polled);
    assert_eq!(watch.task(1).demand, Demand::Busy);
}

#[test]
fn the_peaks_of_memory_and_core_are_kept() {
    let mut watch = watch(Mode::Process, 100);
    watch.hears_all(0, [arrives(1, 1), has(1, 3), has(1, 5), has(1, 2)]);
    let core = |permille| Fact::Core { process: process(1), gpu: GPU, permille };
    watch.hears_all(1, [core(400), core(900), core(100)]);
    let task = watch.task(1);
    assert_eq!((task.memory, task.memory_peak, task.core_permille), (2, 5, 900));
    let events = watch.tracker.learn(at(10), exits(1));
    let [Event::Finished(finished)] = events[..] else { panic!("{events:?}") };
    assert_eq!((finished.memory_peak, finished.core_permille), (5, 900));
}

#[test]
fn a_burst_starts_with_the_memory_its_process_has() {
    let mut watch = watch(Mode::Burst, 100);
    watch.hears_all(0, [arrives(1, 1), has(1, 7)]);
    assert_eq!(watch.tracker.memory_on(GPU), 7);
    watch.hears(1, submits(1));
    let task = watch.task(1);
    assert_eq!((task.memory, task.memory_peak, task.admitted), (7, 7, true));
}

#[test]
fn what_a_task_asked_for_comes_on_top_of_what_it_has() {
    let mut watch = watch(Mode::Process, 100);
    watch.hears_all(0, [arrives(1, 1), has(1, 3), asks(1, 4), asks(1, 2)]);
    assert_eq!(watch.task(1).memory_asked, Some(5));
    assert_eq!(watch.task(1).demand, Demand::AtAllocation(2));
    watch.hears(1, has(1, 7));
    assert_eq!(watch.task(1).demand, Demand::Host);
}

#[test]
fn what_a_task_did_already_is_remembered() {
    let mut watch = watch(Mode::Process, 100);
    watch.hears(0, arrives(1, 1));
    assert!(!watch.task(1).launched && !watch.task(1).admitted);
    watch.hears_all(1, [submits(1), drains(1)]);
    assert!(watch.task(1).launched && !watch.task(1).admitted);
    watch.hears_all(2, [has(1, 1), has(1, 0)]);
    assert!(watch.task(1).admitted);
}

#[test]
fn a_look_from_before_an_allocation_does_not_hide_what_nobody_explains() {
    let mut watch = Watch::new();
    watch.hears(0, on_terms(1, terms(Mode::Process, 0)));
    watch.hears_all(0, [arrives(1, 1), reads(3 * GIB)]);
    let unexplained = |watch: &Watch| watch.tracker.gpu(GPU).expect("a GPU").unexplained;
    watch.hears(20, has(1, 4 * GIB));
    watch.hears(10, reads(3 * GIB));
    assert_eq!(unexplained(&watch), 3 * GIB, "contexts, and not what was allocated since");
    watch.hears(30, reads(4 * GIB));
    assert_eq!(unexplained(&watch), 0, "they are gone");
}
