//! Terms that come late, and terms that change while a task runs.

use crate::fact::Terms;
use crate::node_under_test::*;
use crate::task::{Demand, Mode};

#[test]
fn a_deadline_that_comes_after_the_start_counts_from_the_start() {
    let mut watch = Watch::new();
    assert_eq!(watch.hears(0, arrives(1, 1)), "1 starts at 0s");
    assert_eq!(watch.task(1).deadline, None);
    assert_eq!(watch.hears(50, on_terms(1, terms(Mode::Process, 80))), "");
    assert_eq!(watch.task(1).due(), Some(at(80)));
    assert_eq!(watch.waits(90), "1 misses at 80ms");
}

#[test]
fn a_container_that_is_told_of_late_owns_its_task_and_its_gpu() {
    let mut watch = Watch::new();
    watch.hears(0, arrives(1, 1));
    assert!(watch.tracker.container_of(watch.task(1)).is_none());
    assert_eq!(watch.tracker.terms_of(watch.task(1)), Terms::UNMANAGED);
    watch.hears(10, on_terms(1, terms(Mode::Process, 80)));
    assert_eq!(watch.tracker.terms_of(watch.task(1)), terms(Mode::Process, 80));
    assert_eq!(watch.container(1).gpu, Some(GPU));
    assert_eq!(watch.hears(60, exits(1)), "1 ends at 60ms, 20ms float");
    assert_eq!(watch.container(1).hits, 1);
}

#[test]
fn a_mode_that_comes_after_the_start_forgets_the_task_and_starts_over() {
    let mut watch = Watch::new();
    watch.hears_all(0, [arrives(1, 1), submits(1)]);
    let restarted = watch.hears(50, on_terms(1, terms(Mode::Burst, 80)));
    assert_eq!(restarted, "1 is forgotten; 2 starts at 50ms");
    assert_eq!(watch.task(2).demand, Demand::Busy);
    assert_eq!(watch.hears(60, drains(1)), "2 ends at 60ms, 70ms float");
    assert!(watch.tracker.tasks().all(|task| task.dormant));
}

#[test]
fn a_mode_that_comes_late_starts_nothing_on_an_idle_process() {
    let mut watch = Watch::new();
    watch.hears_all(0, [arrives(1, 1), submits(1), drains(1)]);
    assert_eq!(watch.hears(50, on_terms(1, terms(Mode::Burst, 80))), "1 is forgotten");
    assert_eq!(watch.hears(60, submits(1)), "2 starts at 60ms");
}

#[test]
fn a_memory_mode_that_comes_late_starts_with_the_memory_there_is() {
    let mut watch = Watch::new();
    watch.hears_all(0, [arrives(1, 1), has(1, 9)]);
    let restarted = watch.hears(50, on_terms(1, terms(Mode::Memory, 80)));
    assert_eq!(restarted, "1 is forgotten; 2 starts at 50ms");
    assert_eq!(watch.task(2).memory_peak, 9);
    assert_eq!(watch.hears(70, has(1, 0)), "2 ends at 70ms, 60ms float");
}

#[test]
fn a_process_mode_that_comes_late_starts_at_the_first_gpu_use() {
    let mut watch = Watch::new();
    watch.hears(0, on_terms(1, terms(Mode::Burst, 80)));
    watch.hears(10, arrives(1, 1));
    watch.hears(20, submits(1));
    let restarted = watch.hears(30, on_terms(1, terms(Mode::Process, 80)));
    assert_eq!(restarted, "1 is forgotten; 2 starts at 10ms");
    assert_eq!(watch.task(2).demand, Demand::Busy);
}

#[test]
fn a_shorter_deadline_can_be_missed_at_once() {
    let mut watch = Watch::new();
    watch.hears(0, on_terms(1, terms(Mode::Process, 100)));
    watch.hears(0, arrives(1, 1));
    assert_eq!(watch.hears(50, on_terms(1, terms(Mode::Process, 30))), "");
    assert_eq!(watch.waits(50), "1 misses at 30ms");
    assert_eq!(watch.hears(60, exits(1)), "1 ends at 60ms, -30ms float");
    assert_eq!(watch.container(1).misses, 1);
}

#[test]
fn a_longer_deadline_takes_a_miss_back_until_it_passes_too() {
    let mut watch = Watch::new();
    watch.hears(0, on_terms(1, terms(Mode::Process, 100)));
    watch.hears(0, arrives(1, 1));
    assert_eq!(watch.waits(120), "1 misses at 100ms");
    watch.hears(130, on_terms(1, terms(Mode::Process, 200)));
    assert!(!watch.task(1).missed);
    assert!(watch.container(1).latest.is_some_and(|latest| !latest.missed));
    assert_eq!(watch.waits(200), "");
    assert_eq!(watch.waits(201), "1 misses at 200ms");
    assert!(watch.container(1).latest.is_some_and(|latest| latest.missed));
}

#[test]
fn a_deadline_taken_away_cannot_be_missed() {
    let mut watch = Watch::new();
    watch.hears(0, on_terms(1, terms(Mode::Process, 100)));
    watch.hears(0, arrives(1, 1));
    watch.hears(50, on_terms(1, terms(Mode::Process, 0)));
    assert_eq!(watch.tracker.next_moment(), None);
    assert_eq!(watch.hears(500, exits(1)), "1 ends at 500ms, no float");
    let container = watch.container(1);
    assert_eq!((container.hits, container.misses), (0, 0));
    assert!(container.latest.is_some_and(|latest| !latest.missed));
}
