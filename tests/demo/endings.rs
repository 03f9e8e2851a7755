//! However it ends, nothing is left: no process, container, image, cgroup or folder.

use crate::theatre::{On, Theatre};
use rustix::process::Signal;
use serde_json::Value;
use std::process::Stdio;

const GROUNDS: [On; 3] = [On::Docker, On::Cgroups, On::Processes];

fn three_have_come(line: &Value) -> bool {
    line["who"] == "train" && line["event"] == "started"
}

/// Ends it in the middle, and looks what is left.
fn ended_by(on: On, signal: Signal, code: i32) {
    let theatre = Theatre::new(on);
    let mut showing = theatre.start(&[]);
    showing.until(three_have_come);
    assert!(theatre.left_of(showing.pid()).len() > 5, "there is something to put away");
    showing.signal(signal);
    assert_eq!(showing.end().code(), Some(code), "{on:?}");
    assert_eq!(theatre.left_of(showing.pid()), Vec::<String>::new(), "{on:?}");
    assert_eq!(showing.complaints(), "error: ended early; all that it had made is gone\n");
}

#[test]
fn ctrl_c_leaves_nothing() {
    GROUNDS.into_iter().for_each(|on| ended_by(on, Signal::INT, 130));
}

#[test]
fn a_plain_kill_leaves_nothing() {
    GROUNDS.into_iter().for_each(|on| ended_by(on, Signal::TERM, 143));
}

#[test]
fn a_kill_that_cannot_be_caught_leaves_nothing_either() {
    for on in GROUNDS {
        let theatre = Theatre::new(on);
        let mut showing = theatre.start(&[]);
        showing.until(three_have_come);
        showing.signal(Signal::KILL);
        assert_eq!(showing.end().code(), None);
        theatre.is_empty_after(showing.pid());
    }
}

#[test]
fn one_that_is_killed_while_it_sets_up_leaves_nothing() {
    for on in GROUNDS {
        let theatre = Theatre::new(on);
        let mut showing = theatre.start(&[]);
        // There is the show itself and its sweeper, and now its folder, too.
        while theatre.left_of(showing.pid()).len() < 3 {}
        showing.signal(Signal::KILL);
        assert_eq!(showing.end().code(), None);
        theatre.is_empty_after(showing.pid());
    }
}

#[test]
fn one_that_nobody_reads_any_more_ends_and_leaves_nothing() {
    let theatre = Theatre::new(On::Cgroups);
    let mut child = theatre.demo(&["--stay"]).stdout(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    assert!(child.wait().unwrap().success());
    assert_eq!(theatre.left_of(child.id()), Vec::<String>::new());
}
