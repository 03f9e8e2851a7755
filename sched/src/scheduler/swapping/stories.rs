//! Stories about swapping: who leaves for whom, and how it comes back.

use crate::fact::{Fact, Outcome, Terms};
use crate::node_under_test::*;
use crate::task::{Grip, Mode};

/// A container's terms: with that deadline, none if it is 0; whether it may be swapped out.
fn swaps(deadline_ms: i64, swap: bool) -> Terms {
    Terms { swap, ..terms(Mode::Process, deadline_ms) }
}

fn is_out(pid: u32, gib: u64) -> Fact {
    Fact::SwappedOut { process: process(pid), gpu: GPU, bytes: gib * GIB }
}

fn is_back(pid: u32) -> Fact {
    Fact::SwappedIn { process: process(pid), gpu: GPU, asks: false }
}

fn is_back_and_asks(pid: u32) -> Fact {
    Fact::SwappedIn { process: process(pid), gpu: GPU, asks: true }
}

/// Process 1 has 8 of 10 GiB and computes; process 2 comes a while later, and asks for 6.
fn short_of_memory(first: Terms, second: Terms) -> Desk {
    let mut desk = Desk::new("earliest-deadline");
    desk.hears(0, on_terms(1, first));
    desk.hears(0, arrives(1, 1));
    desk.hears(0, reads(0));
    desk.decides(0);
    desk.hears(1, has(1, 8 * GIB));
    desk.hears(2, submits(1));
    desk.hears(3, reads(8 * GIB));
    desk.hears(10, on_terms(2, second));
    desk.hears(10, arrives(2, 2));
    let asks_first = "#1 hold 2 at allocations: it is not known how much GPU memory it needs";
    assert_eq!(desk.decides(10), asks_first);
    desk.hears(11, answers(1, Outcome::Held));
    desk.hears(20, asks(2, 6 * GIB));
    desk
}

const LEAVES: &str = "#2 swap out 1: 2 needs its GPU memory";

#[test]
fn who_is_due_sooner_has_the_memory_of_one_that_may_leave_and_that_one_comes_back() {
    let mut desk = short_of_memory(swaps(0, true), swaps(10_000, false));
    assert_eq!(desk.decides(20), "", "a process that exits gives its memory back late");
    assert_eq!(desk.decides(520), LEAVES);
    assert_eq!(desk.decides(1_000), "");
    assert_eq!(desk.hears(6_000, is_out(1, 9)), "1 is out at 6s, 9 GiB");
    assert_eq!(desk.decides(6_000), "", "no look at the GPU has shown it");
    desk.hears(6_050, reads(0));
    assert_eq!(desk.decides(6_050), "#3 pass 2: there is GPU memory for it");
    desk.hears(6_101, has(2, 6 * GIB));
    desk.hears(6_150, stands(2));
    assert_eq!(desk.decides(6_150), "#4 release 2: nobody is ahead of it");
    desk.hears(6_151, answers(4, Outcome::Released));
    desk.hears(6_200, reads(6 * GIB));
    assert_eq!(desk.decides(6_200), "", "9 GiB do not fit beside it");
    desk.hears(8_000, exits(2));
    assert_eq!(desk.decides(8_000), "", "its memory is not back yet");
    desk.hears(8_200, reads(0));
    assert_eq!(desk.decides(8_200), "#5 swap in 1: there is GPU memory for it");
    assert_eq!(desk.hears(10_000, is_back(1)), "1 is back at 10s after 4s");
    assert_eq!(desk.decides(10_000), "");
    assert_eq!(desk.task(1).stopped, ms(9_480), "the way out and in counts as waiting");
    assert_eq!(desk.broken(10_000), None);
}

#[test]
fn who_has_left_does_not_slip_in_front_of_the_one_it_left_for() {
    let mut desk = short_of_memory(swaps(0, true), swaps(10_000, false));
    desk.hears(30, Fact::Memory { process: process(1), gpu: GPU, bytes: 5 * GIB });
    desk.hears(31, reads(5 * GIB));
    assert_eq!(desk.decides(520), LEAVES);
    // Somebody else was quicker: 5 GiB are left, and not the 6 that the other waits for.
    desk.hears(5_990, arrives(3, 9));
    desk.hears(5_990, has(3, 5 * GIB));
    desk.hears(6_000, is_out(1, 5));
    assert_eq!(desk.decides(6_000), "");
    desk.hears(6_100, exits(3));
    desk.hears(6_200, reads(0));
    assert_eq!(desk.decides(6_200), "#3 pass 2: there is GPU memory for it");
}

#[test]
fn who_may_not_leave_is_waited_for() {
    let mut desk = short_of_memory(swaps(0, false), swaps(10_000, true));
    assert_eq!(desk.decides(520), "");
    assert_eq!(desk.decides(9_000), "");
    desk.hears(9_500, exits(1));
    desk.hears(9_600, reads(0));
    assert_eq!(desk.decides(9_600), "#2 release 2: nobody is ahead of it", "alone it need not ask");
}

#[test]
fn nobody_leaves_for_one_that_is_due_later() {
    let mut desk = short_of_memory(swaps(10_000, true), swaps(20_000, false));
    assert_eq!(desk.decides(520), "");
}

#[test]
fn who_cannot_be_swapped_is_not_asked_again() {
    let mut desk = short_of_memory(swaps(0, true), swaps(10_000, false));
    assert_eq!(desk.decides(520), LEAVES);
    desk.hears(600, answers(2, Outcome::Failed));
    // The kernel stopped it meanwhile, and let it go.
    desk.hears(599, stands(1));
    assert!(desk.task(1).stopped_since.is_some());
    desk.hears(601, submits(1));
    desk.hears(700, reads(8 * GIB));
    assert_eq!(desk.decides(700), "");
    assert_eq!(desk.decides(9_000), "");
    assert!(!desk.task(1).is_away() && desk.task(1).unswappable);
    assert_eq!(desk.broken(700), None);
}

#[test]
fn who_cannot_be_swapped_and_waits_for_more_memory_waits_on() {
    for let_go in [false, true] {
        let mut desk = Desk::new("earliest-deadline");
        desk.hears(0, reads(0));
        for number in [1, 2] {
            desk.hears(0, on_terms(number, swaps(0, true)));
            desk.hears(0, arrives(number, number));
        }
        desk.decides(0);
        for number in [1, 2] {
            desk.hears(10, has(number, 4 * GIB));
            desk.hears(20, asks(number, 3 * GIB));
        }
        desk.decides(20);
        assert_eq!(desk.decides(520), "#3 swap out 2: 1 needs its GPU memory");
        desk.hears(530, answers(3, Outcome::Failed));
        if let_go {
            desk.hears(531, Fact::LetGo { process: process(2), gpu: GPU });
        }
        desk.hears(540, reads(8 * GIB));
        desk.decides(540);
        assert_eq!(desk.task(2).stopped_since.is_some(), !let_go);
        assert_eq!(desk.broken(540), None);
    }
}

#[test]
fn who_may_not_leave_is_held_as_it_was() {
    let mut desk = Desk::new("earliest-deadline");
    desk.hears(0, reads(0));
    for (number, deadline_ms) in [(1, 10_000), (2, 0)] {
        desk.hears(0, on_terms(number, swaps(deadline_ms, number == 2)));
        desk.hears(0, arrives(number, number));
    }
    desk.decides(0);
    for number in [1, 2] {
        desk.hears(10, has(number, 4 * GIB));
    }
    desk.hears(20, asks(1, 4 * GIB));
    desk.hears(30, reads(8 * GIB));
    desk.decides(30);
    let (held, because) = (desk.task(2).grip, desk.task(2).reason);
    let Grip::Holding(_, gate) = held else { panic!("{held:?}") };
    assert_eq!(desk.decides(530), "#3 swap out 2: 1 needs its GPU memory");
    desk.hears(540, answers(3, Outcome::Failed));
    let task = desk.task(2);
    assert_eq!((task.grip, task.reason, task.stopped_since), (Grip::Held(gate), because, None));
    assert_eq!(desk.broken(540), None);
    // It comes to its gate while the refusal is on its way.
    desk.hears(535, asks(2, GIB));
    assert!(desk.task(2).stopped_since.is_some());
}

#[test]
fn without_deadlines_memory_changes_hands_when_keeping_it_has_paid_for_the_move() {
    let mut desk = short_of_memory(swaps(0, true), swaps(0, true));
    assert_eq!(desk.decides(520), "");
    assert_eq!(desk.decides(20_000), "");
    // 8 GiB take 7.4 s to move, and are kept four times as long.
    assert_eq!(desk.decides(29_440), LEAVES);
}

#[test]
fn who_keeps_memory_idle_leaves_for_anybody() {
    let mut desk = short_of_memory(swaps(1_000_000, true), swaps(0, false));
    desk.hears(500, drains(1));
    assert_eq!(desk.decides(20_000), "");
    assert_eq!(desk.decides(29_940), LEAVES);
    desk.hears(35_000, is_out(1, 9));
    desk.hears(35_050, reads(0));
    assert_eq!(desk.decides(35_050), "#3 pass 2: there is GPU memory for it");
}

#[test]
fn who_could_not_come_back_is_tried_again_after_a_second() {
    let mut desk = short_of_memory(swaps(0, true), swaps(10_000, false));
    desk.decides(520);
    desk.hears(6_000, is_out(1, 9));
    desk.hears(6_100, exits(2));
    desk.hears(6_200, reads(0));
    assert_eq!(desk.decides(6_200), "#3 swap in 1: there is GPU memory for it");
    desk.hears(6_300, answers(3, Outcome::Failed));
    assert_eq!(desk.decides(6_300), "");
    assert_eq!(desk.wakes_at(), Some(ms(7_300)));
    assert_eq!(desk.decides(7_300), "#4 swap in 1: there is GPU memory for it");
}

#[test]
fn under_none_what_was_swapped_out_comes_back() {
    let mut desk = short_of_memory(swaps(0, true), swaps(10_000, false));
    desk.decides(520);
    desk.hears(6_000, is_out(1, 9));
    desk.hears(6_100, exits(2));
    desk.hears(6_200, reads(0));
    desk.scheduler.set_every_policy(at(6_200), crate::policy::by_name("none").expect("a policy"));
    assert_eq!(desk.decides(6_200), "#3 swap in 1: there is GPU memory for it");
}

/// Process 2 has left with 4 of the 8 GiB that it asked for by then, and is about to come back beside process 3, which has 1 of 10.
fn comes_back_for_more() -> Desk {
    let mut desk = Desk::new("earliest-deadline");
    desk.hears(0, reads(0));
    for number in [1, 2, 3] {
        desk.hears(0, on_terms(number, swaps(0, number == 2)));
        desk.hears(0, arrives(number, number));
    }
    desk.decides(0);
    desk.hears(10, has(1, 4 * GIB));
    desk.hears(10, has(2, 4 * GIB));
    desk.hears(20, asks(1, 4 * GIB));
    desk.hears(20, asks(2, 4 * GIB));
    desk.hears(30, reads(8 * GIB));
    desk.decides(30);
    assert_eq!(desk.decides(530), "#4 swap out 2: 1 needs its GPU memory");
    desk.hears(5_000, is_out(2, 4));
    desk.hears(5_050, reads(4 * GIB));
    desk.decides(5_050);
    desk.hears(5_051, answers(6, Outcome::Held));
    desk.hears(5_060, has(1, 8 * GIB));
    desk.hears(5_070, has(3, GIB));
    desk.hears(6_000, exits(1));
    desk.hears(6_200, reads(GIB));
    let back = "#7 swap in 2, to its next allocation: there is GPU memory for it";
    assert_eq!(desk.decides(6_200), back);
    desk
}

#[test]
fn who_left_before_it_had_all_its_memory_asks_again_when_it_is_back() {
    let mut desk = comes_back_for_more();
    assert_eq!(desk.hears(7_000, is_back_and_asks(2)), "2 is back at 7s after 2s");
    assert_eq!(desk.decides(7_000), "", "it is held already");
    // It goes on with what it had asked for, and then asks for more than is left.
    desk.hears(7_001, has(2, 8 * GIB));
    desk.hears(7_002, asks(2, 2 * GIB));
    assert_eq!(desk.decides(7_002), "", "1 GiB is left");
    assert_eq!(desk.broken(7_002), None);
    desk.hears(7_500, exits(3));
    desk.hears(7_600, reads(8 * GIB));
    assert_eq!(desk.decides(7_600), "#8 release 2: nobody is ahead of it", "alone it need not ask");
}

#[test]
fn who_asks_before_anybody_has_said_that_it_is_back_is_heard_all_the_same() {
    for asked_first in [true, false] {
        let mut desk = comes_back_for_more();
        if asked_first {
            desk.hears(6_999, asks(2, GIB));
        }
        desk.hears(7_000, is_back_and_asks(2));
        if !asked_first {
            desk.hears(6_999, asks(2, GIB));
        }
        assert_eq!(desk.decides(7_001), "#8 pass 2: there is GPU memory for it", "{asked_first}");
        assert_eq!(desk.broken(7_001), None);
    }
}

#[test]
fn what_an_earlier_agent_left_out_comes_back_and_what_somebody_brought_back_is_in() {
    let mut desk = Desk::new("least-slack");
    desk.hears(0, on_terms(1, swaps(0, true)));
    desk.hears(0, arrives(1, 1));
    assert_eq!(desk.hears(0, is_out(1, 4)), "1 is out at 0s, 4 GiB");
    assert_eq!(desk.decides(0), "", "how full the GPU is, is not known yet");
    desk.hears(10, reads(0));
    assert_eq!(desk.decides(10), "#1 swap in 1, to its next allocation: there is GPU memory for it");
    assert_eq!(desk.hears(900, is_back(1)), "1 is back at 900ms after 900ms");
    assert_eq!(desk.hears(901, is_back(1)), "");
    assert_eq!(desk.hears(902, answers(1, Outcome::Failed)), "");
    assert!(!desk.task(1).is_away());
}

#[test]
fn what_is_said_of_memory_while_it_is_away_does_not_count() {
    let mut desk = short_of_memory(swaps(0, true), swaps(10_000, false));
    desk.decides(520);
    desk.hears(5_990, has(1, 0));
    desk.hears(6_000, is_out(1, 9));
    desk.hears(6_005, has(1, 0));
    assert_eq!(desk.task(1).memory, 8 * GIB);
    assert!(!desk.task(1).contends(at(6_005), ms(1)));
    desk.hears(6_006, reads(0));
    desk.hears(6_010, exits(1));
    assert_eq!(desk.decides(6_010), "#3 release 2: nobody is ahead of it");
    assert_eq!(desk.broken(6_010), None);
}

#[test]
fn an_answer_that_never_comes_is_asked_for_again() {
    let mut desk = short_of_memory(swaps(0, true), swaps(10_000_000, false));
    assert_eq!(desk.decides(520), LEAVES);
    assert_eq!(desk.decides(600_519), "");
    assert_eq!(desk.decides(600_520), "#3 swap out 1: 2 needs its GPU memory");
    assert_eq!(desk.broken(600_520), None);
}

#[test]
fn what_is_allocated_after_a_look_does_not_hide_what_nobody_explains() {
    let mut desk = short_of_memory(swaps(0, false), swaps(0, false));
    // 1 GiB of contexts beside the 7 that process 1 has now; then process 2 has 1 of the 2 that are left.
    desk.hears(30, has(1, 7 * GIB));
    desk.hears(31, reads(8 * GIB));
    desk.hears(32, asks(2, GIB));
    assert_eq!(desk.decides(32), "#2 pass 2: there is GPU memory for it");
    desk.hears(33, has(2, GIB));
    desk.hears(34, asks(2, 2 * GIB));
    assert_eq!(desk.decides(34), "", "1 GiB is left");
}

#[test]
fn a_look_from_while_somebody_leaves_does_not_hide_what_nobody_explains() {
    let mut desk = short_of_memory(swaps(0, true), swaps(10_000, false));
    // 3 GiB of contexts beside the 5 that process 1 has now.
    desk.hears(30, Fact::Memory { process: process(1), gpu: GPU, bytes: 5 * GIB });
    desk.hears(31, reads(8 * GIB));
    assert_eq!(desk.decides(520), LEAVES);
    // Its memory is gone before it is said to be.
    desk.hears(5_990, reads(3 * GIB));
    desk.hears(6_000, is_out(1, 5));
    assert_eq!(desk.decides(6_000), "", "no look at the GPU has shown what is left");
    desk.hears(6_050, reads(3 * GIB));
    assert_eq!(desk.decides(6_050), "#3 pass 2: there is GPU memory for it");
    desk.hears(6_060, has(2, 6 * GIB));
    desk.hears(6_070, asks(2, 2 * GIB));
    assert_eq!(desk.decides(6_070), "", "1 GiB is left");
}

#[test]
fn who_waits_for_more_is_not_let_go_to_fail_while_one_that_exited_gives_its_memory_back() {
    let mut desk = Desk::new("earliest-deadline");
    desk.hears(0, reads(0));
    for number in [1, 2, 3] {
        desk.hears(0, on_terms(number, swaps(0, false)));
        desk.hears(0, arrives(number, number));
    }
    desk.decides(0);
    desk.hears(10, has(1, 4 * GIB));
    desk.hears(10, submits(1));
    for number in [2, 3] {
        desk.hears(10, has(number, 3 * GIB));
        desk.hears(20, asks(number, 3 * GIB));
    }
    desk.hears(30, reads(10 * GIB));
    desk.decides(30);
    desk.decides(9_000);
    desk.hears(9_500, exits(1));
    assert_eq!(desk.decides(9_500), "", "its memory is not back yet");
    desk.hears(9_600, reads(6 * GIB));
    assert_eq!(desk.decides(9_600), "#6 pass 2: there is GPU memory for it");
}

#[test]
fn who_waits_for_more_does_not_wait_for_ever_because_others_come_and_go() {
    let mut desk = Desk::new("earliest-deadline");
    desk.hears(0, reads(0));
    for number in [1, 2] {
        desk.hears(0, on_terms(number, swaps(0, false)));
        desk.hears(0, arrives(number, number));
    }
    desk.decides(0);
    for number in [1, 2] {
        desk.hears(10, has(number, 5 * GIB));
        desk.hears(20, asks(number, 3 * GIB));
    }
    desk.decides(20);
    for moment in (4_800..10_000).step_by(200) {
        let passer_by = moment as u32;
        desk.hears(moment, arrives(passer_by, 9));
        desk.hears(moment, has(passer_by, 1));
        desk.hears(moment + 1, exits(passer_by));
        desk.hears(moment + 2, reads(10 * GIB));
        assert_eq!(desk.decides(moment + 2), "", "somebody left a moment ago");
    }
    let stuck = "#3 pass 2: everybody who has GPU memory waits for more of it, and it came last";
    assert_eq!(desk.decides(10_020), stuck);
}

#[test]
fn a_look_that_an_allocation_overtook_shows_that_memory_left() {
    let mut desk = short_of_memory(swaps(0, true), swaps(10_000, false));
    assert_eq!(desk.decides(520), LEAVES);
    desk.hears(6_000, is_out(1, 9));
    desk.hears(6_001, arrives(3, 9));
    desk.hears(6_060, has(3, GIB));
    desk.hears(6_050, reads(0));
    assert_eq!(desk.decides(6_060), "#3 pass 2: there is GPU memory for it");
}

#[test]
fn of_two_that_have_memory_and_wait_for_more_the_later_leaves_and_comes_back_to_what_it_asked_for() {
    let mut desk = Desk::new("earliest-deadline");
    desk.hears(0, reads(0));
    for number in [1, 2] {
        desk.hears(0, on_terms(number, swaps(0, true)));
        desk.hears(0, arrives(number, number));
    }
    desk.decides(0);
    for number in [1, 2] {
        desk.hears(10, has(number, 4 * GIB));
        desk.hears(20, asks(number, 3 * GIB));
    }
    desk.decides(20);
    assert_eq!(desk.decides(520), "#3 swap out 2: 1 needs its GPU memory");
    desk.hears(4_000, is_out(2, 4));
    assert_eq!(desk.decides(4_000), "", "no look at the GPU has shown it");
    desk.hears(4_050, reads(4 * GIB));
    assert_eq!(desk.decides(4_050), "#4 pass 1: there is GPU memory for it");
    desk.hears(4_051, has(1, 6 * GIB));
    desk.hears(4_100, reads(6 * GIB));
    assert_eq!(desk.decides(16_000), "", "4 GiB are free, and it comes back to 7");
    desk.hears(17_000, exits(1));
    desk.hears(17_200, reads(0));
    assert_eq!(desk.decides(17_200), "#5 swap in 2, to its next allocation: there is GPU memory for it");
}
