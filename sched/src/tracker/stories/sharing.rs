//! How much of the GPU a task had, alone and beside others.

use crate::fact::{ContainerId, Fact};
use crate::node_under_test::*;
use crate::task::Mode;
use crate::time::Span;
use crate::tracker::Event;

/// Two containers without deadlines, a process of each on the GPU since 0 ms, nothing submitted yet.
fn two() -> Watch {
    let mut watch = Watch::new();
    for number in [1, 2] {
        watch.hears(0, on_terms(number, terms(Mode::Process, 0)));
        watch.hears(0, arrives(number, number));
    }
    watch
}

fn served(watch: &Watch, task: u64, now_ms: u64) -> Span {
    watch.tracker.served(watch.task(task), at(now_ms))
}

#[test]
fn a_task_alone_has_all_of_the_gpu() {
    let mut watch = two();
    watch.hears(0, submits(1));
    assert_eq!(served(&watch, 1, 90), ms(90));
    watch.hears(100, drains(1));
    assert_eq!(served(&watch, 1, 100), ms(100));
}

#[test]
fn two_that_share_have_a_half_each_less_what_slicing_costs() {
    let mut watch = two();
    watch.hears_all(0, [submits(1), submits(2)]);
    // 1 / (2 × 1.125) = 4/9.
    assert_eq!(served(&watch, 1, 90), ms(40));
    assert_eq!(served(&watch, 2, 90), ms(40));
}

#[test]
fn three_that_share_have_a_third_each_less_what_slicing_costs() {
    let mut watch = two();
    watch.hears_all(0, [arrives(3, 2), submits(1), submits(2), submits(3)]);
    // 1 / (3 × 1.125) = 8/27.
    assert_eq!(served(&watch, 3, 27), ms(8));
}

#[test]
fn what_was_lost_stays_lost_and_adds_up() {
    let mut watch = two();
    watch.hears(0, submits(1));
    watch.hears(10, submits(2));
    watch.hears(100, drains(2));
    // 10 alone, 90 shared of which it had 40.
    assert_eq!(served(&watch, 1, 100), ms(50));
    assert_eq!(served(&watch, 1, 120), ms(70));
    watch.hears(120, submits(2));
    assert_eq!(served(&watch, 1, 210), ms(110));
    watch.hears(210, drains(1));
    assert_eq!(watch.task(1).lost, ms(100));
    assert_eq!(served(&watch, 1, 220), ms(120));
}

#[test]
fn a_neighbour_that_leaves_stops_costing() {
    let mut watch = two();
    watch.hears_all(0, [submits(1), submits(2)]);
    watch.hears(90, exits(2));
    assert_eq!(served(&watch, 1, 100), ms(50));
}

#[test]
fn a_neighbour_that_stands_at_its_gate_stops_costing() {
    let mut watch = two();
    watch.hears_all(0, [submits(1), submits(2)]);
    watch.hears(90, stands(2));
    assert_eq!(served(&watch, 1, 100), ms(50));
    // It stands itself: neither the 50 it lost nor the 10 it stood are progress.
    assert_eq!(served(&watch, 2, 100), ms(40));
}

#[test]
fn a_neighbour_that_is_frozen_stops_costing() {
    let mut watch = two();
    watch.hears_all(0, [submits(1), submits(2)]);
    watch.hears(90, stopped(2));
    assert_eq!(served(&watch, 1, 100), ms(50));
    assert_eq!(served(&watch, 2, 100), ms(40));
    // Let go, it is seen to have drained, which it had long before.
    watch.hears(110, resumed(2));
    watch.hears(110, drains(2));
    assert_eq!(served(&watch, 2, 120), ms(50));
}

#[test]
fn a_neighbour_that_is_paused_stops_costing() {
    let mut watch = two();
    watch.hears_all(0, [submits(1), submits(2)]);
    watch.hears(90, Fact::ContainerPaused(ContainerId(2)));
    assert_eq!(served(&watch, 1, 100), ms(50));
    watch.hears(100, Fact::ContainerResumed(ContainerId(2)));
    assert_eq!(served(&watch, 1, 190), ms(90));
}

#[test]
fn who_is_thawed_goes_on_with_what_it_had() {
    let mut watch = two();
    watch.hears_all(0, [submits(1), submits(2)]);
    watch.hears(90, stopped(2));
    watch.hears(100, resumed(2));
    assert_eq!(served(&watch, 1, 190), ms(90));
}

#[test]
fn submitting_twice_counts_once() {
    let mut watch = two();
    watch.hears_all(0, [submits(1), submits(1)]);
    assert_eq!(served(&watch, 1, 90), ms(90));
    watch.hears_all(90, [drains(1), drains(1)]);
    watch.hears(90, submits(2));
    assert_eq!(served(&watch, 2, 180), ms(180));
}

#[test]
fn the_forecast_learns_what_a_task_had_not_how_long_it_took() {
    let mut watch = two();
    watch.hears_all(0, [submits(1), submits(2)]);
    let events = watch.tracker.learn(at(90), exits(1));
    let [Event::Finished(finished)] = events[..] else { panic!("{events:?}") };
    assert_eq!((finished.end, finished.served, finished.waited), (at(90), ms(40), Span::ZERO));
    assert_eq!(watch.container(1).forecast().typical, ms(40));
}

#[test]
fn losses_of_several_stretches_add_up() {
    let mut watch = two();
    watch.hears_all(0, [submits(1), submits(2)]);
    watch.hears(90, drains(1));
    assert_eq!(watch.task(1).lost, ms(50));
    watch.hears(100, submits(1));
    watch.hears(190, drains(1));
    assert_eq!(watch.task(1).lost, ms(100));
}
