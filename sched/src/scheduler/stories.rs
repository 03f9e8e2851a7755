//! Stories about the scheduler: what it asks for, when it asks again, and whom it leaves alone.

use crate::fact::{ContainerId, Fact, GpuId, Outcome, Terms};
use crate::node_under_test::*;
use crate::policy;
use crate::scheduler::Settings;
use crate::task::{Gate, Grip, Mode};
use crate::time::Span;
use alloc::boxed::Box;

const HOLDS_2: &str = "#1 hold 2 at launches: 1 is due sooner";

/// Task 2 is held behind task 1.
fn held() -> Desk {
    let mut desk = Desk::with_two_deadlines("earliest-deadline");
    assert_eq!(desk.decides(0), HOLDS_2);
    desk.hears(1, answers(1, Outcome::Held));
    assert_eq!(desk.decides(1), "");
    desk
}

/// Task 1 has a deadline, tasks 2 and 3 have none.
fn patient() -> Desk {
    let mut desk = Desk::new("earliest-deadline");
    for (number, deadline_ms) in [(1, 60_000), (2, 0), (3, 0)] {
        desk.hears(0, on_terms(number, terms(Mode::Process, deadline_ms)));
        desk.hears(0, arrives(number, number));
        desk.hears(0, submits(number));
    }
    let holds = "#1 hold 2 at launches: 1 has a deadline to make; \
                 #2 hold 3 at launches: 1 has a deadline to make";
    assert_eq!(desk.decides(0), holds);
    desk.hears(0, answers(1, Outcome::Held));
    desk.hears(0, answers(2, Outcome::Held));
    desk.hears(0, stands(2));
    desk.hears(0, stands(3));
    assert_eq!(desk.decides(0), "");
    desk
}

#[test]
fn only_the_difference_is_asked_for_and_numbers_grow() {
    let mut desk = held();
    assert_eq!(desk.decides(5), "");
    desk.hears(10, exits(1));
    assert_eq!(desk.decides(10), "#2 release 2: nobody is ahead of it");
    desk.hears(11, answers(2, Outcome::Released));
    assert_eq!(desk.decides(11), "");
    assert_eq!(desk.task(2).grip, Grip::Free);
}

#[test]
fn an_agent_that_restarts_goes_on_numbering_after_its_predecessor() {
    let mut desk = Desk::with_two_deadlines("earliest-deadline");
    desk.scheduler.number_requests_from(100);
    desk.scheduler.number_requests_from(7);
    assert_eq!(desk.decides(0), "#101 hold 2 at launches: 1 is due sooner");
}

#[test]
fn a_hold_whose_answer_is_lost_is_asked_for_again() {
    let mut desk = Desk::with_two_deadlines("earliest-deadline");
    assert_eq!(desk.decides(0), HOLDS_2);
    assert_eq!(desk.wakes_at(), Some(ms(1_000)));
    desk.hears(999, submits(1));
    assert_eq!(desk.decides(999), "");
    assert_eq!(desk.wakes_at(), Some(ms(1_000)));
    assert_eq!(desk.decides(1_000), "#2 hold 2 at launches: 1 is due sooner");
    assert_eq!(desk.wakes_at(), Some(ms(2_000)));
    desk.hears(1_001, answers(1, Outcome::Held));
    assert!(matches!(desk.task(2).grip, Grip::Holding(..)));
}

#[test]
fn a_release_that_failed_or_got_lost_is_asked_for_again() {
    let mut desk = held();
    desk.hears(10, exits(1));
    assert_eq!(desk.decides(10), "#2 release 2: nobody is ahead of it");
    desk.hears(20, answers(2, Outcome::Failed));
    assert_eq!(desk.decides(20), "");
    assert_eq!(desk.wakes_at(), Some(ms(1_010)));
    assert_eq!(desk.decides(1_010), "#3 release 2: nobody is ahead of it");
    assert_eq!(desk.decides(2_010), "#4 release 2: nobody is ahead of it");
}

#[test]
fn a_hold_that_failed_ends_released_and_is_not_tried_again_for_a_second() {
    let mut desk = Desk::with_two_deadlines("earliest-deadline");
    assert_eq!(desk.decides(0), HOLDS_2);
    desk.hears(10, answers(1, Outcome::Failed));
    assert_eq!(desk.decides(10), "#2 release 2: it could not be held");
    desk.hears(12, answers(2, Outcome::Released));
    assert_eq!(desk.decides(12), "");
    assert_eq!(desk.wakes_at(), Some(ms(1_010)));
    desk.hears(1_009, submits(1));
    assert_eq!(desk.decides(1_009), "");
    assert_eq!(desk.decides(1_010), "#3 hold 2 at launches: 1 is due sooner");
}

#[test]
fn a_stop_that_is_told_after_the_release_is_released_again() {
    let mut desk = held();
    desk.hears(10, exits(1));
    desk.decides(10);
    desk.hears(11, answers(2, Outcome::Released));
    desk.hears(12, stands(2));
    assert_eq!(desk.decides(12), "#3 release 2: nobody is ahead of it");
    assert_eq!(desk.hears(13, answers(3, Outcome::Released)), "2 goes on at 13ms after 1ms");
}

#[test]
fn a_task_that_still_stands_after_its_release_is_released_again() {
    let mut desk = held();
    desk.hears(5, stands(2));
    desk.hears(10, exits(1));
    desk.decides(10);
    desk.hears(11, answers(2, Outcome::Released));
    assert_eq!(desk.decides(11), "");
    assert_eq!(desk.wakes_at(), Some(ms(1_011)));
    assert_eq!(desk.decides(1_011), "#3 release 2: nobody is ahead of it");
}

#[test]
fn the_next_burst_behind_a_shut_gate_is_not_stuck() {
    let mut desk = Desk::new("earliest-deadline");
    for (number, deadline_ms) in [(1, 10_000), (2, 20_000)] {
        desk.hears(0, on_terms(number, terms(Mode::Burst, deadline_ms)));
        desk.hears(0, arrives(number, number));
        desk.hears(0, submits(number));
    }
    assert_eq!(desk.decides(0), HOLDS_2);
    desk.hears(1, answers(1, Outcome::Held));
    desk.hears(5, drains(2));
    assert_eq!(desk.decides(5), "", "its next request would still be behind");
    desk.hears(6, stands(2));
    assert_eq!(desk.decides(6), "");
    desk.hears(6, drains(1));
    assert_eq!(desk.decides(6), "#2 release 3: nobody is ahead of it");
    assert_eq!(desk.hears(7, answers(2, Outcome::Released)), "3 goes on at 7ms after 1ms");
    let begun = desk.scheduler.tracker().tasks().filter(|task| !task.dormant);
    assert_eq!(begun.count(), 1);
}

#[test]
fn a_paused_container_is_neither_held_nor_released() {
    let two = ContainerId(2);
    let mut desk = Desk::with_two_deadlines("earliest-deadline");
    desk.hears(0, Fact::ContainerPaused(two));
    assert_eq!(desk.decides(0), "");
    desk.hears(1, Fact::ContainerResumed(two));
    assert_eq!(desk.decides(1), HOLDS_2);
    desk.hears(2, answers(1, Outcome::Held));
    desk.hears(3, Fact::ContainerPaused(two));
    desk.hears(4, exits(1));
    assert_eq!(desk.decides(4), "");
    desk.hears(5, Fact::ContainerResumed(two));
    assert_eq!(desk.decides(5), "#2 release 2: nobody is ahead of it");
}

#[test]
fn nobody_waits_for_a_paused_container() {
    let mut desk = held();
    desk.hears(5, Fact::ContainerPaused(ContainerId(1)));
    assert_eq!(desk.decides(5), "#2 release 2: nobody is ahead of it");
}

#[test]
fn a_container_that_stops_is_released_and_never_held_again() {
    let two = ContainerId(2);
    let mut desk = held();
    desk.hears(5, Fact::ContainerStopping(two));
    assert_eq!(desk.decides(5), "#2 release 2: its container is being stopped");
    desk.hears(6, answers(2, Outcome::Released));
    desk.hears(7, submits(2));
    assert_eq!(desk.decides(7), "");
}

#[test]
fn a_paused_container_that_stops_is_released_all_the_same() {
    let two = ContainerId(2);
    let mut desk = held();
    desk.hears(5, Fact::ContainerPaused(two));
    desk.hears(6, Fact::ContainerStopping(two));
    assert_eq!(desk.decides(6), "#2 release 2: its container is being stopped");
}

#[test]
fn who_is_not_managed_is_never_held_and_let_go_if_it_was() {
    let mut desk = Desk::with_two_deadlines("earliest-deadline");
    desk.hears(0, on_terms(2, Terms { managed: false, ..terms(Mode::Process, 20_000) }));
    assert_eq!(desk.decides(0), "");
    let mut desk = held();
    desk.hears(5, on_terms(2, Terms::UNMANAGED));
    assert_eq!(desk.decides(5), "#2 release 2: it is not to be touched");
    let mut outside = Desk::with_two_deadlines("earliest-deadline");
    outside.hears(0, arrives(3, 9));
    assert_eq!(outside.decides(0), HOLDS_2);
}

#[test]
fn what_a_held_task_is_told_changes_with_who_is_ahead() {
    let mut desk = held();
    desk.hears(5, on_terms(3, terms(Mode::Process, 15_000)));
    desk.hears(5, arrives(3, 3));
    desk.hears(5, submits(3));
    desk.hears(5, exits(1));
    assert_eq!(desk.decides(5), "");
    assert_eq!(desk.task(2).reason, Some(crate::action::Reason::DueSooner(desk.task(3).id)));
}

#[test]
fn the_longest_hold_of_the_settings_ends_a_hold() {
    let settings = Settings { hold_max: ms(200), ..Settings::default() };
    let mut desk = Desk::with(settings, policy::by_name("earliest-deadline").expect("a policy of that name"));
    let own = Terms { hold_max: Some(ms(500)), ..terms(Mode::Process, 30_000) };
    desk.hears(0, on_terms(3, own));
    for (number, deadline_ms) in [(1, 10_000), (2, 20_000)] {
        desk.hears(0, on_terms(number, terms(Mode::Process, deadline_ms)));
    }
    for number in [1, 2, 3] {
        desk.hears(0, arrives(number, number));
        desk.hears(0, submits(number));
    }
    desk.decides(0);
    desk.hears(1, answers(1, Outcome::Held));
    desk.hears(1, answers(2, Outcome::Held));
    desk.hears(1, stands(2));
    desk.hears(1, stands(3));
    assert_eq!(desk.decides(1), "");
    assert_eq!(desk.wakes_at(), Some(ms(201)));
    assert_eq!(desk.decides(200), "");
    assert_eq!(desk.decides(201), "#3 release 2: it was held for 200ms, its longest hold");
    desk.hears(202, answers(3, Outcome::Released));
    desk.hears(202, submits(2));
    assert_eq!(desk.decides(202), "");
    assert_eq!(desk.wakes_at(), Some(ms(501)));
    assert_eq!(desk.decides(501), "#4 release 3: it was held for 500ms, its longest hold");
    desk.hears(502, answers(4, Outcome::Released));
    desk.hears(502, submits(3));
    assert_eq!(desk.decides(502), "");
    // It has the GPU for a turn, then it waits again.
    assert_eq!(desk.wakes_at(), Some(ms(1_201)));
    assert_eq!(desk.decides(1_200), "");
    assert_eq!(desk.decides(1_201), "#5 hold 2 at launches: 1 is due sooner");
}

#[test]
fn patience_grants_a_while_to_one_task_at_a_time() {
    let mut desk = patient();
    assert_eq!(desk.wakes_at(), Some(ms(5_000)));
    assert_eq!(desk.decides(5_000), "#3 release 2: it has waited 5s");
    assert_eq!(desk.task(2).granted_until, Some(at(5_100)));
    desk.hears(5_001, answers(3, Outcome::Released));
    desk.hears(5_001, submits(2));
    assert_eq!(desk.decides(5_001), "");
    assert_eq!(desk.wakes_at(), Some(ms(5_100)));
    assert_eq!(desk.decides(5_100), "#4 hold 2 at launches: 1 has a deadline to make");
    desk.hears(5_101, answers(4, Outcome::Held));
    desk.hears(5_101, stands(2));
    assert_eq!(desk.decides(5_101), "");
    assert_eq!(desk.wakes_at(), Some(ms(10_000)));
    assert_eq!(desk.decides(10_000), "#5 release 3: it has waited 5s");
    desk.hears(10_001, answers(5, Outcome::Released));
    desk.hears(10_001, submits(3));
    assert_eq!(desk.decides(10_100), "#6 hold 3 at launches: 1 has a deadline to make");
    desk.hears(10_101, answers(6, Outcome::Held));
    assert_eq!(desk.decides(15_000), "#7 release 2: it has waited 5s", "whoever waits longest is next");
}

#[test]
fn one_that_may_not_be_held_long_does_not_use_up_the_patience_of_others() {
    let mut desk = patient();
    let brief = Terms { hold_max: Some(ms(2_000)), ..terms(Mode::Process, 0) };
    desk.hears(0, on_terms(3, brief));
    assert_eq!(desk.decides(2_000), "#3 release 3: it was held for 2s, its longest hold");
    desk.hears(2_001, answers(3, Outcome::Released));
    assert_eq!(
        desk.decides(5_000),
        "#4 release 2: it has waited 5s; #5 hold 3 at launches: 1 has a deadline to make"
    );
}

#[test]
fn under_fifo_one_that_could_not_be_held_comes_no_sooner_for_that() {
    let mut desk = Desk::new("fifo");
    for number in [1, 2, 3] {
        desk.hears(0, on_terms(number, terms(Mode::Process, 0)));
        desk.hears(0, arrives(number, number));
    }
    let holds = "#1 hold 2 at launches: 1 came first; #2 hold 3 at launches: 1 came first";
    assert_eq!(desk.decides(0), holds);
    desk.hears(1, answers(1, Outcome::Held));
    desk.hears(1, answers(2, Outcome::Failed));
    assert_eq!(desk.decides(1), "#3 release 3: it could not be held");
    desk.hears(2, answers(3, Outcome::Released));
    assert_eq!(desk.decides(1_100), "#4 hold 3 at launches: 1 came first");
}

/// By polling nobody knows whether it computes; but it has no memory to compute on, or nobody sees its requests.
#[test]
fn nobody_waits_for_a_task_that_has_not_begun() {
    let mut desk = Desk::new("earliest-deadline");
    desk.hears(0, on_terms(1, terms(Mode::Memory, 1_000)));
    desk.hears(0, on_terms(2, terms(Mode::Process, 3_600_000)));
    desk.hears(0, polled(1, 1));
    desk.hears(0, polled(2, 2));
    assert_eq!(desk.decides(0), "");
    desk.hears(5, has(1, GIB));
    assert_eq!(desk.decides(5), "#1 hold 1 at launches: 2 is due sooner");
}

#[test]
fn a_task_that_waits_for_an_earlier_deadline_is_given_no_grant() {
    let mut desk = held();
    assert_eq!(desk.wakes_at(), Some(Span::from_micros(10_000_001)));
    assert_eq!(desk.decides(9_000), "");
}

#[test]
fn a_gpu_can_be_given_a_policy_of_its_own() {
    let mut desk = held();
    let other = GpuId(1);
    desk.hears(2, arrives_on(3, 1, other));
    desk.hears(2, arrives_on(4, 2, other));
    assert_eq!(desk.decides(2), "#2 hold 4 at launches: 3 is due sooner");
    desk.hears(3, answers(2, Outcome::Held));
    desk.decides(3);
    desk.scheduler.set_policy(at(4), other, Box::new(policy::None));
    assert_eq!(desk.wakes_at(), Some(ms(4)));
    assert_eq!(desk.decides(4), "#3 release 4: nobody is ahead of it");
    assert_eq!(desk.task(2).grip, Grip::Held(Gate::Launches));
    desk.hears(5, answers(3, Outcome::Released));
    desk.scheduler.set_policy(at(6), other, Box::new(policy::Fifo));
    assert_eq!(desk.decides(6), "");
    assert_eq!(desk.scheduler.settings().answer_max, ms(1_000));
}

#[test]
fn under_none_everybody_is_released_and_nobody_held() {
    let mut desk = patient();
    desk.scheduler.set_policy(at(1), GPU, Box::new(policy::None));
    let releases = "#3 release 2: nobody is ahead of it; #4 release 3: nobody is ahead of it";
    assert_eq!(desk.decides(1), releases);
    desk.hears(2, answers(3, Outcome::Released));
    desk.hears(2, answers(4, Outcome::Released));
    desk.hears(3, reads(10 * GIB));
    assert_eq!(desk.decides(3), "");
}

/// A busy node: tasks with and without deadlines, one drained, one on the host, one at a gate nobody shut,
/// and holds of which some are never answered.
fn busy_node(policy: &str, answered: bool) -> Desk {
    let mut desk = Desk::new(policy);
    desk.hears(0, reads(9 * GIB));
    for (number, deadline_ms) in [(1, 3_000), (2, 9_000), (3, 0), (4, 0), (5, 4_000), (6, 0)] {
        let expect = (number % 2 == 0).then_some(ms(1_500));
        let hold_max = (number == 4).then_some(ms(700));
        desk.hears(0, on_terms(number, Terms { expect, hold_max, ..terms(Mode::Process, deadline_ms) }));
        desk.hears(0, arrives(number, number));
    }
    for fact in [submits(1), submits(2), drains(2), stands(3), submits(4), asks(6, 5 * GIB)] {
        desk.hears(0, fact);
    }
    desk.decides(0);
    if answered {
        for request in 1..=6 {
            desk.hears(1, answers(request, Outcome::Held));
        }
    }
    desk
}

#[test]
fn deciding_when_it_wakes_never_spins() {
    for policy in policy::NAMES {
        for answered in [false, true] {
            let mut desk = busy_node(policy, answered);
            let mut wakes = 0;
            while let Some(wake) = desk.scheduler.wake().filter(|wake| *wake < at(60_000)) {
                desk.scheduler.decide(wake);
                let next = desk.scheduler.wake();
                assert!(next.is_none_or(|next| next > wake), "{policy}: {wake:?}, then {next:?}");
                wakes += 1;
            }
            assert!(wakes < 1_000, "{policy}: {wakes} wakes in a minute");
        }
    }
}

#[test]
fn a_task_held_at_its_launches_that_lacks_memory_is_held_at_its_allocations_too() {
    let mut desk = held();
    desk.hears(5, has(1, GIB));
    desk.hears(5, on_terms(2, Terms { memory: Some(10 * GIB), ..terms(Mode::Process, 20_000) }));
    desk.hears(5, reads(GIB));
    let stricter = "#2 hold 2 at allocations: it needs 10240 MiB of GPU memory and 9216 MiB is left";
    assert_eq!(desk.decides(5), stricter);
    desk.hears(6, answers(2, Outcome::Held));
    assert_eq!(desk.task(2).grip, Grip::Held(Gate::Allocations));
    assert_eq!(desk.decides(6), "");
}

#[test]
fn who_is_let_allocate_is_remembered_so() {
    let mut desk = Desk::with_two_deadlines("earliest-deadline");
    desk.hears(0, on_terms(1, Terms { memory: Some(GIB), ..terms(Mode::Process, 10_000) }));
    desk.hears(0, on_terms(2, Terms { memory: Some(10 * GIB), ..terms(Mode::Process, 20_000) }));
    desk.hears(0, reads(0));
    desk.decides(0);
    assert!(desk.task(1).admitted && !desk.task(2).admitted);
}

#[test]
fn a_longest_hold_that_is_shorter_than_patience_ends_first() {
    let mut desk = patient();
    desk.hears(1, on_terms(2, Terms { hold_max: Some(ms(700)), ..terms(Mode::Process, 0) }));
    assert_eq!(desk.decides(1), "");
    assert_eq!(desk.wakes_at(), Some(ms(700)));
    assert_eq!(desk.decides(700), "#3 release 2: it was held for 700ms, its longest hold");
}

#[test]
fn a_policy_changes_while_it_runs_for_one_gpu_or_for_all() {
    let mut desk = held();
    assert_eq!(desk.scheduler.policy(GPU).name(), "earliest-deadline");
    let none = || policy::by_name("none").expect("a policy of that name");
    desk.scheduler.set_policy(at(5), GpuId(1), none());
    assert_eq!(desk.decides(5), "");
    desk.scheduler.set_policy(at(6), GPU, none());
    assert_eq!(desk.decides(6), "#2 release 2: nobody is ahead of it");
    desk.hears(7, answers(2, Outcome::Released));
    desk.scheduler.set_every_policy(at(8), policy::by_name("least-slack").expect("a policy of that name"));
    assert_eq!(desk.scheduler.policy(GPU).name(), "least-slack");
    assert_eq!(desk.scheduler.policy(GpuId(7)).name(), "least-slack");
    assert_eq!(desk.decides(8), "#3 hold 2 at launches: 1 is due sooner");
    assert_eq!(desk.scheduler.deciding(), None);
}

/// Task 2 is due sooner, and came to its gate when task 1 had launched.
fn came_late() -> Desk {
    let mut desk = Desk::new("least-slack");
    for (number, deadline_ms) in [(1, 60_000), (2, 8_000)] {
        desk.hears(0, on_terms(number, terms(Mode::Process, deadline_ms)));
        desk.hears(0, arrives(number, number));
    }
    desk.hears(1, submits(1));
    desk.hears(2, stands(2));
    assert_eq!(desk.decides(2), "#1 hold 1 at launches: 2 is due sooner");
    desk.hears(3, answers(1, Outcome::Held));
    assert_eq!(desk.task(2).reason, Some(crate::action::Reason::StillRuns(desk.task(1).id)));
    desk
}

#[test]
fn the_next_has_the_gpu_once_what_is_in_flight_has_drained() {
    let mut desk = came_late();
    desk.hears(900, drains(1));
    assert!(desk.decides(900).contains("release 2: nobody is ahead of it"));
}

#[test]
fn nobody_waits_for_what_a_frozen_task_has_in_flight() {
    let mut desk = came_late();
    desk.hears(10, stopped(1));
    assert!(desk.decides(10).contains("release 2: nobody is ahead of it"), "its drain would never be seen");
    // What it launched before it was frozen, and is told of after, changes nothing.
    desk.hears(9, submits(1));
    assert!(desk.task(1).stopped_since.is_some());
}

#[test]
fn a_first_run_lets_others_finish_for_an_eighth_of_its_deadline() {
    let mut desk = came_late();
    assert_eq!(desk.decides(999), "");
    assert!(desk.decides(1_000).contains("release 2: nobody is ahead of it"));
}
