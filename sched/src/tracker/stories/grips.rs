//! Holds as they are asked for, confirmed, overtaken, lost and lifted.

use crate::action::Reason;
use crate::fact::{Outcome, RequestId};
use crate::node_under_test::*;
use crate::task::{Ask, Demand, Gate, Grip, Mode, TaskId};
use crate::time::Span;
use crate::tracker::Event;

const BECAUSE: Reason = Reason::DueSooner(TaskId(9));

fn ask(request: u64, millis: u64) -> Ask {
    Ask { request: RequestId(request), at: at(millis) }
}

/// A task that is busy, and held by request 1 at 10 ms.
fn holding(mode: Mode) -> Watch {
    let mut watch = Watch::new();
    watch.hears(0, on_terms(1, terms(mode, 1_000)));
    watch.hears_all(0, [arrives(1, 1), submits(1)]);
    watch.tracker.ask_hold(ask(1, 10), TaskId(1), Gate::Launches, BECAUSE);
    watch
}

fn release(watch: &mut Watch, request: u64, millis: u64) {
    watch.tracker.ask_release(ask(request, millis), TaskId(1), Reason::ItsTurn);
}

#[test]
fn a_hold_is_asked_for_then_held_and_costs_nothing_until_the_next_launch() {
    let mut watch = holding(Mode::Process);
    assert_eq!(watch.task(1).grip, Grip::Holding(ask(1, 10), Gate::Launches));
    assert_eq!(watch.task(1).held_since, Some(at(10)));
    assert_eq!(watch.hears(11, answers(1, Outcome::Held)), "");
    assert_eq!(watch.task(1).grip, Grip::Held(Gate::Launches));
    assert_eq!((watch.task(1).stops, watch.task(1).waited(at(20))), (0, Span::ZERO));
    assert_eq!(watch.hears(20, stands(1)), "1 stands at 20ms: 9 is due sooner");
    assert_eq!((watch.task(1).stops, watch.task(1).waited(at(25))), (1, ms(5)));
    release(&mut watch, 2, 30);
    assert_eq!(watch.task(1).grip, Grip::Releasing(ask(2, 30)));
    assert_eq!(watch.hears(32, answers(2, Outcome::Released)), "1 goes on at 32ms after 12ms");
    let task = watch.task(1);
    assert_eq!((task.grip, task.held_since, task.free_since), (Grip::Free, None, at(32)));
    assert_eq!(task.waited(at(99)), ms(12));
}

#[test]
fn a_freeze_brings_the_task_to_a_stand_at_once() {
    let mut watch = holding(Mode::Process);
    watch.hears(11, answers(1, Outcome::Held));
    assert_eq!(watch.hears(12, stopped(1)), "1 stands at 12ms: 9 is due sooner");
    assert_eq!(watch.task(1).grip, Grip::Held(Gate::Launches));
    assert_eq!(watch.task(1).stopped_since, Some(at(12)));
}

#[test]
fn what_a_frozen_task_did_before_and_is_told_of_late_does_not_make_it_run() {
    let mut watch = holding(Mode::Process);
    watch.hears(11, answers(1, Outcome::Held));
    watch.hears(14, stopped(1));
    watch.hears(12, drains(1));
    assert_eq!(watch.hears(13, submits(1)), "");
    assert_eq!((watch.task(1).stopped_since, watch.task(1).leaks), (Some(at(14)), 0));
}

#[test]
fn a_server_that_is_frozen_after_its_request_stands_all_the_same() {
    let mut watch = holding(Mode::Burst);
    watch.hears(11, answers(1, Outcome::Held));
    watch.hears(14, stopped(1));
    watch.hears(13, drains(1));
    let next = watch.tracker.tasks().find(|task| task.dormant).expect("its next request");
    assert!(next.stopped_since.is_some() && next.is_gripped());
}

#[test]
fn a_container_thawed_for_another_task_lets_this_one_go_on_though_it_is_held() {
    let mut watch = holding(Mode::Process);
    watch.hears(11, answers(1, Outcome::Held));
    watch.hears(12, stopped(1));
    assert_eq!(watch.hears(15, resumed(1)), "1 goes on at 15ms after 3ms");
    assert_eq!(watch.task(1).grip, Grip::Held(Gate::Launches));
}

#[test]
fn who_stands_at_its_gate_does_so_when_its_container_is_thawed_for_another_task() {
    let mut watch = holding(Mode::Process);
    watch.hears(11, answers(1, Outcome::Held));
    watch.hears(12, stands(1));
    assert_eq!(watch.hears(15, resumed(1)), "");
    assert_eq!(watch.task(1).stopped_since, Some(at(12)));
    assert_eq!(watch.hears(16, submits(1)), "1 goes on at 16ms after 4ms");
}

#[test]
fn a_launch_through_a_shut_gate_is_counted_and_the_hold_is_not_believed() {
    let mut watch = holding(Mode::Process);
    watch.hears(11, answers(1, Outcome::Held));
    watch.hears(20, submits(1));
    assert_eq!((watch.task(1).grip, watch.task(1).leaks), (Grip::Free, 1));
}

#[test]
fn a_launch_from_before_the_gate_was_shut_is_no_leak() {
    let mut watch = holding(Mode::Process);
    watch.hears(11, answers(1, Outcome::Held));
    watch.hears(11, submits(1));
    assert_eq!((watch.task(1).grip, watch.task(1).leaks), (Grip::Held(Gate::Launches), 0));
}

#[test]
fn a_stop_from_before_the_release_is_old_news() {
    let mut watch = holding(Mode::Process);
    watch.hears(11, answers(1, Outcome::Held));
    release(&mut watch, 2, 30);
    watch.hears(32, answers(2, Outcome::Released));
    assert_eq!(watch.hears(31, stands(1)), "");
    assert_eq!(watch.task(1).grip, Grip::Free);
}

#[test]
fn an_answer_to_a_request_that_was_overtaken_is_ignored() {
    let mut watch = holding(Mode::Process);
    release(&mut watch, 2, 20);
    watch.hears(21, answers(1, Outcome::Held));
    watch.hears(21, answers(1, Outcome::Failed));
    assert_eq!(watch.task(1).grip, Grip::Releasing(ask(2, 20)));
    assert_eq!(watch.task(1).unholdable_until, None);
    watch.hears(22, answers(2, Outcome::Released));
    assert_eq!(watch.task(1).grip, Grip::Free);
}

#[test]
fn an_answer_told_twice_counts_once() {
    let mut watch = holding(Mode::Process);
    watch.hears(11, answers(1, Outcome::Held));
    release(&mut watch, 2, 20);
    watch.hears(22, answers(2, Outcome::Released));
    watch.tracker.ask_hold(ask(3, 30), TaskId(1), Gate::Launches, BECAUSE);
    watch.hears_all(31, [answers(1, Outcome::Failed), answers(2, Outcome::Released)]);
    assert_eq!(watch.task(1).grip, Grip::Holding(ask(3, 30), Gate::Launches));
}

#[test]
fn an_answer_that_does_not_fit_its_question_is_no_answer() {
    let mut watch = holding(Mode::Process);
    watch.hears(11, answers(1, Outcome::Released));
    assert_eq!(watch.task(1).grip, Grip::Holding(ask(1, 10), Gate::Launches));
    watch.hears(12, answers(1, Outcome::Held));
    assert_eq!(watch.task(1).grip, Grip::Held(Gate::Launches));
}

#[test]
fn a_hold_that_failed_counts_as_held_and_is_not_tried_again_for_a_second() {
    let mut watch = holding(Mode::Process);
    watch.hears(15, answers(1, Outcome::Failed));
    assert_eq!(watch.task(1).grip, Grip::Held(Gate::Launches));
    assert_eq!(watch.task(1).unholdable_until, Some(at(1_015)));
}

#[test]
fn a_release_that_failed_stays_asked_for_and_may_still_succeed() {
    let mut watch = holding(Mode::Process);
    release(&mut watch, 2, 20);
    watch.hears(21, answers(2, Outcome::Failed));
    assert_eq!(watch.task(1).grip, Grip::Releasing(ask(2, 20)));
    watch.hears(22, answers(2, Outcome::Released));
    assert_eq!(watch.task(1).grip, Grip::Free);
}

#[test]
fn a_stop_that_is_told_before_the_answer_confirms_the_hold() {
    let mut watch = holding(Mode::Process);
    assert_eq!(watch.hears(12, stands(1)), "1 stands at 12ms: 9 is due sooner");
    assert_eq!(watch.task(1).grip, Grip::Held(Gate::Launches));
    watch.hears(13, answers(1, Outcome::Failed));
    assert_eq!((watch.task(1).grip, watch.task(1).unholdable_until), (Grip::Held(Gate::Launches), None));
    assert_eq!(watch.hears(14, stands(1)), "");
    assert_eq!(watch.task(1).stops, 1);
}

#[test]
fn a_stop_that_is_told_after_the_release_counts_as_held() {
    let mut watch = holding(Mode::Process);
    release(&mut watch, 2, 20);
    watch.hears(22, answers(2, Outcome::Released));
    assert_eq!(watch.hears(23, stands(1)), "1 stands at 23ms: no reason");
    assert_eq!(watch.task(1).grip, Grip::Held(Gate::Launches));
    assert_eq!(watch.task(1).held_since, Some(at(23)));
}

#[test]
fn a_stop_while_a_release_is_under_way_ends_with_it() {
    let mut watch = holding(Mode::Process);
    release(&mut watch, 2, 20);
    assert_eq!(watch.hears(21, stands(1)), "1 stands at 21ms: no reason");
    assert_eq!(watch.task(1).grip, Grip::Releasing(ask(2, 20)));
    assert_eq!(watch.hears(25, answers(2, Outcome::Released)), "1 goes on at 25ms after 4ms");
}

#[test]
fn a_task_that_submits_does_not_stand_any_more() {
    let mut watch = holding(Mode::Process);
    watch.hears(20, stands(1));
    assert_eq!(watch.hears(26, submits(1)), "1 goes on at 26ms after 6ms");
    assert_eq!(watch.hears(27, submits(1)), "");
}

#[test]
fn a_task_that_is_let_allocate_goes_back_to_host_work() {
    let mut watch = holding(Mode::Process);
    watch.hears(20, asks(1, GIB));
    release(&mut watch, 2, 30);
    watch.hears(31, answers(2, Outcome::Released));
    assert_eq!((watch.task(1).demand, watch.task(1).memory_asked), (Demand::Host, Some(GIB)));
}

#[test]
fn a_second_hold_keeps_the_moment_of_the_first() {
    let mut watch = holding(Mode::Process);
    watch.tracker.ask_hold(ask(2, 50), TaskId(1), Gate::Allocations, BECAUSE);
    assert_eq!(watch.task(1).held_since, Some(at(10)));
    watch.hears(51, answers(1, Outcome::Held));
    assert_eq!(watch.task(1).grip, Grip::Holding(ask(2, 50), Gate::Allocations));
    watch.hears(52, answers(2, Outcome::Held));
    assert_eq!(watch.task(1).grip, Grip::Held(Gate::Allocations));
}

#[test]
fn a_gate_that_is_shut_when_a_burst_ends_belongs_to_the_next_one() {
    let mut watch = holding(Mode::Burst);
    watch.hears(11, answers(1, Outcome::Held));
    assert_eq!(watch.hears(20, drains(1)), "1 ends at 20ms, 980ms float");
    assert_eq!(watch.tracker.next_moment(), None);
    let next = *watch.tracker.tasks().next().expect("the process is still there");
    assert_eq!((next.dormant, next.grip), (true, Grip::Held(Gate::Launches)));
    watch.tracker.ask_release(ask(2, 30), next.id, BECAUSE);
    assert_eq!(watch.hears(31, answers(2, Outcome::Released)), "");
    assert_eq!(watch.tracker.task(next.id).map(|task| task.grip), Some(Grip::Free));
}

#[test]
fn a_request_on_its_way_when_a_burst_begins_is_answered_for_that_burst() {
    let mut watch = holding(Mode::Burst);
    watch.hears(20, drains(1));
    watch.hears(25, submits(1));
    watch.hears(26, answers(1, Outcome::Held));
    assert_eq!(watch.task(2).grip, Grip::Held(Gate::Launches));
}

#[test]
fn the_next_burst_behind_the_same_gate_is_a_task_of_its_own() {
    let mut watch = holding(Mode::Burst);
    watch.hears(11, answers(1, Outcome::Held));
    watch.hears(20, drains(1));
    assert_eq!(watch.hears(25, stands(1)), "2 starts at 25ms; 2 stands at 25ms: 9 is due sooner");
    assert_eq!(watch.task(2).grip, Grip::Held(Gate::Launches));
    watch.tracker.ask_release(ask(2, 30), TaskId(2), BECAUSE);
    assert_eq!(watch.hears(31, answers(2, Outcome::Released)), "2 goes on at 31ms after 6ms");
    assert_eq!(watch.tracker.tasks().map(|task| task.id.0).collect::<alloc::vec::Vec<_>>(), [2]);
    assert_eq!(watch.hears(32, submits(1)), "");
}

#[test]
fn with_the_process_its_shut_gate_is_gone() {
    let mut watch = holding(Mode::Burst);
    watch.hears(11, answers(1, Outcome::Held));
    watch.hears(20, drains(1));
    assert_eq!(watch.hears(30, exits(1)), "");
    assert_eq!(watch.tracker.tasks().count(), 0);
}

#[test]
fn a_task_that_exits_while_held_counts_its_wait() {
    let mut watch = holding(Mode::Process);
    watch.hears(20, stands(1));
    let events = watch.tracker.learn(at(50), exits(1));
    let [Event::Finished(finished)] = events[..] else { panic!("{events:?}") };
    assert_eq!((finished.waited, finished.served, finished.stops), (ms(30), ms(20), 1));
    watch.hears(51, answers(1, Outcome::Held));
    assert_eq!(watch.tracker.tasks().count(), 0);
}

#[test]
fn a_mode_that_changes_while_held_waits_for_the_next_task() {
    let mut watch = holding(Mode::Process);
    assert_eq!(watch.hears(20, on_terms(1, terms(Mode::Burst, 500))), "");
    assert_eq!((watch.task(1).mode, watch.task(1).due()), (Mode::Process, Some(at(500))));
    assert_eq!(watch.hears(30, exits(1)), "1 ends at 30ms, 470ms float");
}

#[test]
fn a_new_hold_ends_a_grant_and_a_release_says_why() {
    let mut watch = holding(Mode::Process);
    release(&mut watch, 2, 20);
    assert_eq!(watch.task(1).reason, Some(Reason::ItsTurn));
    watch.tracker.grant(at(20), TaskId(1), at(90), Reason::WaitedLong(ms(20)));
    assert_eq!(watch.task(1).granted_until, Some(at(90)));
    watch.tracker.ask_hold(ask(3, 30), TaskId(1), Gate::Launches, BECAUSE);
    assert_eq!((watch.task(1).granted_until, watch.task(1).reason), (None, Some(BECAUSE)));
}

#[test]
fn a_gpu_remembers_when_somebody_was_last_let_in() {
    let mut watch = holding(Mode::Process);
    let let_in_at = |watch: &Watch| watch.tracker.gpu(GPU).and_then(|gpu| gpu.let_in_at);
    watch.tracker.let_in(at(5), TaskId(1), true);
    watch.tracker.let_in(at(7), TaskId(1), true);
    assert_eq!(let_in_at(&watch), Some(at(5)));
    watch.tracker.let_in(at(8), TaskId(1), false);
    watch.tracker.let_in(at(9), TaskId(1), true);
    assert_eq!(let_in_at(&watch), Some(at(9)));
}

#[test]
fn a_hold_that_somebody_else_ended_is_over_and_left_alone_for_a_while() {
    let mut watch = holding(Mode::Process);
    watch.hears(11, answers(1, Outcome::Held));
    watch.hears(12, stopped(1));
    assert_eq!(watch.hears(20, let_go(1)), "1 goes on at 20ms after 8ms");
    let task = watch.task(1);
    assert_eq!((task.grip, task.held_since, task.reason), (Grip::Free, None, Some(Reason::LetGo)));
    assert_eq!(task.unholdable_until, Some(at(1_020)));
    // The answer to a request that was under way then is old news.
    watch.tracker.ask_hold(ask(2, 1_030), TaskId(1), Gate::Launches, BECAUSE);
    watch.hears(1_031, let_go(1));
    watch.hears(1_032, answers(2, Outcome::Held));
    assert_eq!(watch.task(1).grip, Grip::Free);
}
