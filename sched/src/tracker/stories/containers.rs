//! What is remembered of a container, and what is not.

use crate::fact::{ContainerId, Fact, GpuId};
use crate::forecast::Source;
use crate::node_under_test::*;
use crate::task::{Mode, TaskId};
use crate::tracker::Latest;

fn watch() -> Watch {
    let mut watch = Watch::new();
    watch.hears(0, on_terms(1, terms(Mode::Process, 100)));
    watch
}

/// A task of container 1 runs from one moment to another.
fn runs(watch: &mut Watch, pid: u32, from_ms: u64, to_ms: u64) {
    watch.hears(from_ms, arrives(pid, 1));
    watch.hears(to_ms, exits(pid));
}

#[test]
fn hits_and_misses_are_counted_and_the_latest_float_is_kept() {
    let mut watch = watch();
    runs(&mut watch, 1, 0, 60);
    runs(&mut watch, 2, 100, 130);
    runs(&mut watch, 3, 200, 350);
    let container = watch.container(1);
    assert_eq!((container.hits, container.misses), (2, 1));
    assert_eq!(container.latest, Some(Latest { task: TaskId(3), missed: true, float: Some(ms(-50)) }));
    assert_eq!(container.latest_float, Some(ms(-50)));
}

#[test]
fn a_miss_lasts_until_the_next_task_starts() {
    let mut watch = watch();
    watch.hears(0, arrives(1, 1));
    watch.waits(101);
    assert_eq!(watch.container(1).latest, Some(Latest { task: TaskId(1), missed: true, float: None }));
    watch.hears(150, exits(1));
    watch.waits(10_000);
    assert_eq!(
        watch.container(1).latest,
        Some(Latest { task: TaskId(1), missed: true, float: Some(ms(-50)) })
    );
    watch.hears(10_000, arrives(2, 1));
    let latest = Latest { task: TaskId(2), missed: false, float: None };
    assert_eq!(watch.container(1).latest, Some(latest));
    assert_eq!(watch.container(1).latest_float, Some(ms(-50)));
}

#[test]
fn a_forecast_learns_from_every_task_that_was_seen_whole() {
    let mut watch = watch();
    assert_eq!(watch.container(1).forecast().source, Source::Assumed);
    runs(&mut watch, 1, 0, 60);
    let forecast = watch.container(1).forecast();
    assert_eq!((forecast.typical, forecast.source), (ms(60), Source::Measured(1)));
}

#[test]
fn a_task_whose_start_was_not_seen_leaves_the_forecast_alone() {
    let mut watch = watch();
    let Fact::Process { process, container, gpu, launches_seen, .. } = arrives(1, 1) else { unreachable!() };
    watch.hears(0, Fact::Process { process, container, gpu, launches_seen, approximate: true });
    assert!(watch.task(1).approximate);
    watch.hears(60, exits(1));
    assert_eq!(watch.container(1).forecast().source, Source::Assumed);
    assert_eq!(watch.container(1).hits, 1);
}

#[test]
fn a_burst_is_seen_whole_on_a_process_that_was_there_before_us() {
    let mut watch = Watch::new();
    watch.hears(0, on_terms(1, terms(Mode::Burst, 100)));
    let Fact::Process { process, container, gpu, launches_seen, .. } = arrives(1, 1) else { unreachable!() };
    watch.hears(0, Fact::Process { process, container, gpu, launches_seen, approximate: true });
    watch.hears(10, submits(1));
    assert!(!watch.task(1).approximate);
    watch.hears(30, drains(1));
    assert_eq!(watch.container(1).forecast().typical, ms(20));
}

#[test]
fn a_task_cut_short_leaves_the_forecast_alone() {
    let mut watch = watch();
    watch.hears(0, arrives(1, 1));
    watch.hears(30, Fact::ContainerStopping(ContainerId(1)));
    watch.hears(40, exits(1));
    assert_eq!(watch.container(1).forecast().source, Source::Assumed);
}

#[test]
fn a_container_that_is_gone_ends_its_tasks_and_only_those() {
    let mut watch = watch();
    watch.hears(0, on_terms(2, terms(Mode::Process, 100)));
    watch.hears_all(0, [arrives(1, 1), arrives(2, 1), arrives(3, 2)]);
    let ends = "1 ends at 40ms, 60ms float; 2 ends at 40ms, 60ms float";
    assert_eq!(watch.hears(40, Fact::ContainerGone(ContainerId(1))), ends);
    assert!(watch.tracker.container(ContainerId(1)).is_none());
    assert_eq!(watch.tracker.tasks().map(|task| task.id.0).collect::<alloc::vec::Vec<_>>(), [3]);
    assert_eq!(watch.hears(41, Fact::ContainerGone(ContainerId(1))), "");
    assert_eq!(watch.hears(42, arrives(1, 1)), "");
}

#[test]
fn a_pause_lasts_until_whoever_paused_it_resumes_it() {
    let mut watch = watch();
    let one = ContainerId(1);
    assert!(watch.container(1).is_ours());
    watch.hears(1, Fact::ContainerPaused(one));
    assert!(!watch.container(1).is_ours());
    watch.hears(2, Fact::ContainerResumed(one));
    assert!(watch.container(1).is_ours());
    watch.hears(3, Fact::ContainerStopping(one));
    assert!(!watch.container(1).is_ours());
}

#[test]
fn a_word_about_a_container_nobody_told_of_changes_nothing() {
    let mut watch = watch();
    let stranger = ContainerId(9);
    for fact in [
        Fact::ContainerPaused(stranger),
        Fact::ContainerResumed(stranger),
        Fact::ContainerStopping(stranger),
        Fact::ContainerGone(stranger),
    ] {
        assert_eq!(watch.hears(1, fact), "", "{fact:?}");
    }
    assert_eq!(watch.tracker.containers().count(), 1);
}

#[test]
fn a_container_is_on_the_gpu_of_its_latest_task() {
    let mut watch = watch();
    assert_eq!(watch.container(1).gpu, None);
    runs(&mut watch, 1, 0, 10);
    assert_eq!(watch.container(1).gpu, Some(GPU));
    watch.hears(20, arrives_on(2, 1, GpuId(3)));
    assert_eq!(watch.container(1).gpu, Some(GpuId(3)));
}
