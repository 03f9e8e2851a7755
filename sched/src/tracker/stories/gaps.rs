//! Who looks like a server in `process` mode is told so once.

use crate::fact::{Fact, GpuId};
use crate::node_under_test::*;
use crate::task::Mode;

/// Container 1 is known on these terms, and its process 1 is there.
fn watch(mode: Mode, deadline_ms: i64) -> Watch {
    let mut watch = Watch::new();
    watch.hears(0, on_terms(1, terms(mode, deadline_ms)));
    watch.hears(0, arrives(1, 1));
    watch
}

/// A request of 10 ms.
fn request(watch: &mut Watch, at_ms: u64) -> alloc::string::String {
    let news = watch.hears(at_ms, submits(1));
    watch.hears(at_ms + 10, drains(1));
    news
}

fn used(permille: u16) -> Fact {
    Fact::Core { process: process(1), gpu: GPU, permille }
}

#[test]
fn a_server_that_outlives_three_deadlines_is_told_once_that_burst_would_fit() {
    let mut watch = watch(Mode::Process, 100);
    for at_ms in [0, 100, 200] {
        assert!(!request(&mut watch, at_ms).contains("burst"));
    }
    assert_eq!(request(&mut watch, 300), "1 looks like a server at 300ms, 3 gaps");
    assert_eq!(request(&mut watch, 400), "");
    watch.hears(410, arrives_on(1, 1, GpuId(1)));
    assert_eq!(request(&mut watch, 900), "2 misses at 510ms");
}

#[test]
fn work_without_gaps_is_no_server() {
    let mut watch = watch(Mode::Process, 100);
    for at_ms in (0..1_000).step_by(20) {
        assert!(!request(&mut watch, at_ms).contains("server"), "{at_ms}");
    }
}

#[test]
fn gaps_within_three_deadlines_are_no_server() {
    let mut watch = watch(Mode::Process, 1_000);
    for at_ms in (0..3_000).step_by(100) {
        assert!(!request(&mut watch, at_ms).contains("server"), "{at_ms}");
    }
    assert!(request(&mut watch, 3_000).contains("server"));
}

#[test]
fn a_wait_at_the_gate_is_no_gap() {
    let mut watch = watch(Mode::Process, 100);
    for at_ms in (0..1_000).step_by(200) {
        watch.hears(at_ms, stands(1));
        assert!(!request(&mut watch, at_ms + 180).contains("server"), "{at_ms}");
    }
}

#[test]
fn other_modes_and_no_deadline_have_nothing_to_be_told() {
    for mut watch in [watch(Mode::Burst, 100), watch(Mode::Memory, 100), watch(Mode::Process, 0)] {
        for at_ms in (0..2_000).step_by(100) {
            assert!(!request(&mut watch, at_ms).contains("server"), "{at_ms}");
        }
    }
}

#[test]
fn use_of_the_core_shows_gaps_too() {
    let mut watch = watch(Mode::Process, 500);
    for second in 0..3 {
        assert!(!watch.hears(second * 2_000, used(900)).contains("server"));
        watch.hears(second * 2_000 + 1_000, used(0));
    }
    assert_eq!(watch.hears(6_000, used(100)), "1 looks like a server at 6s, 3 gaps");
    assert_eq!(watch.task(1).core_permille, 900);
}
