//! Who stands because others have much in flight, and how it goes on.

use super::*;

/// It is let go before the word of its stop is read, and stands on for what others have in flight.
#[test]
fn the_word_of_a_stop_that_comes_late_keeps_nobody_standing() {
    let mut stage = Stage::new();
    let batch = stage.batch;
    stage.has_in_flight(MINUTE_NS);
    let stop = stage.stops_the_batch(ns_now());
    stage.gates.open(batch).expect("a gate");
    assert!(stage.gates.next_ns().is_some() && stage.is_stopped());
    assert_eq!(stage.gates.take(&stop), None);
    stage.gates.let_the_bounded_go(stage.gates.next_ns().expect("it goes on then"));
    assert_eq!(stage.told(), [(batch.pid, Work::Submitted)]);
    assert!(!stage.is_stopped());
}

#[test]
fn nobody_stands_long_for_what_others_have_in_flight_nor_at_all_for_what_the_dead_had() {
    let mut stage = Stage::new();
    let (batch, other) = (stage.batch, stage.server);
    // Late, it yields, and keeps the bound.
    stage.gates.set_roles([(other, (GPU, Role::Late))]);
    stage.is_bound();
    let until = stage.gates.next_ns().expect("it stands until then");
    assert!(until <= ns_now() + BOUND_MAX_NS && stage.is_stopped());
    let goes_on_after = |stage: &mut Stage, pending: u64| {
        stage.gates.enlist(other, GPU, true, None);
        stage.gates.set_roles([(other, (GPU, Role::Late)), (batch, (GPU, Role::Yields))]);
        stage.has(other, |span| span.pending = pending);
        let cleared = |stage: &Stage| stage.gates.tables.gpu_orders.get(&0, 0).expect("a GPU").cleared;
        let before = cleared(stage);
        stage.gates.bury(other);
        cleared(stage) != before
    };
    assert!(!goes_on_after(&mut stage, 0), "it had nothing in flight");
    assert!(goes_on_after(&mut stage, 1));
    stage.gates.let_the_bounded_go(ns_now());
    assert_eq!(stage.told(), [(batch.pid, Work::Submitted)]);
    assert!(!stage.is_stopped());
}

/// Docker says that a container is to stop before its process is gone.
#[test]
fn who_is_to_yield_no_more_and_then_dies_had_something_in_flight_all_the_same() {
    let mut stage = Stage::new();
    let (batch, other) = (stage.batch, stage.server);
    stage.gates.set_roles([(other, (GPU, Role::Late))]);
    stage.is_bound();
    stage.gates.set_roles([(other, (GPU, Role::Plain))]);
    stage.gates.set_roles([(batch, (GPU, Role::Yields))]);
    stage.has(other, |span| span.pending = 1);
    stage.gates.bury(other);
    assert!(stage.gates.tables.gpu_orders.get(&0, 0).expect("a GPU").cleared > 0);
}

#[test]
fn who_stands_for_what_is_in_flight_goes_on_as_soon_as_that_is_done_or_matters_no_more() {
    let mut stage = Stage::new();
    let goes_on = |stage: &mut Stage| {
        stage.gates.let_the_bounded_go(ns_now());
        let told = stage.told();
        told == [(stage.batch.pid, Work::Submitted)] && !stage.is_stopped()
    };
    stage.is_bound();
    assert!(!goes_on(&mut stage));
    stage.changes_the_gpu(|state| state.due = ns_now());
    let drain = Event { at: ns_now(), pid: stage.server.pid, kind: kind::DRAIN, value: 0 };
    stage.gates.take(&drain);
    assert!(goes_on(&mut stage), "it was done earlier than forecast");
    let (server, batch) = (stage.server, stage.batch);
    stage.is_bound();
    stage.gates.set_roles([(server, (GPU, Role::Plain))]);
    assert!(goes_on(&mut stage), "nobody is urgent");
    stage.gates.set_roles([(server, (GPU, Role::Urgent))]);
    stage.is_bound();
    stage.gates.set_roles([(batch, (GPU, Role::Plain))]);
    assert!(goes_on(&mut stage), "it is to yield no more");
}

/// Each has a kernel that takes a minute.
#[test]
fn of_two_who_stand_for_what_is_in_flight_one_goes_after_the_other() {
    let mut stage = Stage::new();
    let (other, batch) = (stage.server, stage.batch);
    // Late, it yields, and keeps the bound.
    stage.gates.set_roles([(other, (GPU, Role::Late))]);
    for (process, since) in [(other, ns_now() - 1), (batch, ns_now())] {
        stage.has(process, |span| span.estimate = MINUTE_NS);
        let mut standing = Standing::default();
        (standing.since, standing.began, standing.why) = (since, since, kind::STAND_BOUND);
        standing.value = ns_now() + 1;
        stage.gates.tables.standing.insert(process.pid, standing, 0).expect("room");
        stage.gates.take(&standing.event(process.pid));
    }
    let stands = |stage: &Stage, process: Process| stage.gates.tables.standing.get(&process.pid, 0).is_ok();
    stage.gates.let_the_bounded_go(ns_now());
    assert!(!stands(&stage, other) && stands(&stage, batch), "whoever has stood for longer goes first");
    stage.gates.let_the_bounded_go(ns_now());
    assert!(stands(&stage, batch));
    let drain = |at| Event { at, pid: other.pid, kind: kind::DRAIN, value: 0 };
    stage.gates.take(&drain(stage.gates.going[&0].since_ns - 1));
    stage.gates.let_the_bounded_go(ns_now());
    assert!(stands(&stage, batch), "that was before");
    stage.gates.take(&drain(ns_now()));
    stage.gates.let_the_bounded_go(ns_now());
    assert!(!stands(&stage, batch), "its work is done");
}

#[test]
fn who_yields_no_more_goes_on_though_another_was_let_go_before() {
    let mut stage = Stage::new();
    let (other, batch) = (stage.server, stage.batch);
    stage.gates.set_roles([(other, (GPU, Role::Late))]);
    stage.has(other, |span| span.estimate = MINUTE_NS);
    stage.gates.takes_its_turn(other.pid, Some(Stand::Launch), ns_now());
    stage.is_bound();
    stage.changes_the_gpu(|state| state.due = ns_now());
    stage.gates.stand_no_longer_than_needed(0);
    stage.gates.let_the_bounded_go(ns_now());
    assert!(stage.is_stopped(), "its turn comes next");
    stage.gates.set_roles([(other, (GPU, Role::Yields)), (batch, (GPU, Role::Urgent))]);
    stage.gates.let_the_bounded_go(ns_now());
    assert!(!stage.is_stopped());
}

#[test]
fn time_in_flight_stays_bounded_while_a_server_is_late() {
    let mut stage = Stage::new();
    let server = stage.server;
    let bound_as = |stage: &mut Stage, role| {
        stage.gates.set_roles([(server, (GPU, role))]);
        stage.gates.tables.gpu_orders.get(&0, 0).expect("a GPU").bound
    };
    assert_eq!(bound_as(&mut stage, Role::Urgent), BOUND_NS);
    assert_eq!(bound_as(&mut stage, Role::Late), BOUND_NS);
    assert!(stage.gates.somebody_yields(), "the guard must know");
    assert_eq!(bound_as(&mut stage, Role::Yields), 0);
    assert!(!stage.gates.somebody_yields());
}
