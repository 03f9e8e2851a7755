//! Stories about the node list: one title, one small cluster.

use alloc::string::{String, ToString};
use alloc::vec::Vec;

use super::*;
use crate::node::{Float, Report, State};
use crate::time::Instant;

const GIB: u64 = 1 << 30;
const IDLE: Float = Float::Unlimited;

fn at(millis: u64) -> Instant {
    Instant::from_micros(millis * 1_000)
}

fn key(node: u32) -> Key {
    Key { node, gpu: 0 }
}

fn secs(secs: i64) -> Float {
    Float::Limited(Span::from_secs(secs))
}

/// Both floats are the same, unless a story is about the difference.
fn report(sequence: u64, gib: u64, float: Float) -> Report {
    let state = State::default();
    Report { sequence, state, memory_free: gib * GIB, float_sum: float, float_least: float }
}

fn request(deadline: i64, forecast: i64, gib: u64) -> Request {
    let span = |secs| Some(Span::from_secs(secs));
    Request { deadline: span(deadline), memory: gib * GIB, forecast: span(forecast) }
}

/// A list at time 0 with these nodes, numbered from 0: free GiB and float.
fn list(nodes: &[(u64, Float)]) -> NodeList {
    let mut list = NodeList::new(Settings::default());
    for (node, (gib, float)) in nodes.iter().enumerate() {
        assert!(list.report(at(0), key(node as u32), at(0), report(1, *gib, *float)));
    }
    list
}

fn placed(list: &mut NodeList, request: &Request, strategy: Strategy) -> Option<u32> {
    list.place(at(0), request, strategy, &[]).map(|placement| placement.key.node)
}

#[test]
fn an_empty_list_places_nothing_and_says_so() {
    let mut list = list(&[]);
    for strategy in Strategy::ALL {
        assert_eq!(placed(&mut list, &request(2, 1, 0), strategy), None);
    }
    let told = list.explain(at(0), &request(2, 1, 0), Strategy::Spread, &[]);
    assert_eq!(told.to_string(), "no node reports");
    assert!(list.ranked(at(0), Strategy::Spread).is_empty());
    assert_eq!(list.reserve(at(0), key(0), &request(2, 1, 0)), None);
}

#[test]
fn memory_takes_the_first_by_free_memory_whose_summed_float_exceeds_the_deadline() {
    let mut list = list(&[(8, secs(9)), (24, secs(2)), (16, secs(3)), (12, IDLE)]);
    assert_eq!(placed(&mut list, &request(2, 1, 0), Strategy::Memory), Some(2), "2 s does not exceed 2 s");
    assert_eq!(placed(&mut list, &request(1, 1, 0), Strategy::Memory), Some(1));
    assert_eq!(placed(&mut list, &request(5, 1, 0), Strategy::Memory), Some(3), "an idle node has any float");
    assert_eq!(placed(&mut list, &request(5, 1, 13), Strategy::Memory), None);
}

#[test]
fn best_fit_takes_the_float_that_exceeds_the_deadline_by_least() {
    let mut list = list(&[(8, secs(9)), (2, secs(4)), (24, secs(5)), (16, secs(5)), (24, IDLE)]);
    assert_eq!(placed(&mut list, &request(3, 1, 0), Strategy::BestFit), Some(1));
    assert_eq!(placed(&mut list, &request(3, 1, 8), Strategy::BestFit), Some(3), "tightest memory on ties");
    assert_eq!(placed(&mut list, &request(9, 1, 8), Strategy::BestFit), Some(4));
}

#[test]
fn spread_leaves_the_most_float_and_takes_the_tightest_memory_on_ties() {
    let mut list = list(&[(8, secs(9)), (24, secs(4)), (16, secs(9)), (4, secs(9))]);
    assert_eq!(placed(&mut list, &request(3, 1, 0), Strategy::Spread), Some(3));
    assert_eq!(placed(&mut list, &request(3, 1, 5), Strategy::Spread), Some(0));
    assert_eq!(placed(&mut list, &request(3, 1, 20), Strategy::Spread), Some(1));
    assert_eq!(placed(&mut list, &request(30, 9, 0), Strategy::Spread), None, "nothing would be left");
}

#[test]
fn equals_go_to_the_lowest_number() {
    let mut list = list(&alloc::vec![(8, secs(5)); 2_000]);
    for strategy in Strategy::ALL {
        assert_eq!(placed(&mut list, &request(3, 1, 8), strategy), Some(0));
    }
}

#[test]
fn a_node_without_free_memory_takes_only_who_asks_for_none() {
    let mut list = list(&[(0, IDLE)]);
    for strategy in Strategy::ALL {
        assert_eq!(placed(&mut list, &request(3, 1, 0), strategy), Some(0));
        assert_eq!(placed(&mut list, &request(3, 1, 1), strategy), None);
    }
}

#[test]
fn background_work_needs_no_float() {
    let mut list = list(&[(8, secs(-1)), (8, secs(1))]);
    let background = Request { deadline: None, memory: GIB, forecast: None };
    assert_eq!(placed(&mut list, &background, Strategy::Spread), Some(1));
    assert_eq!(placed(&mut list, &background, Strategy::BestFit), Some(0));
    list.reserve(at(0), key(1), &background);
    assert_eq!(list.ranked(at(0), Strategy::Spread)[0].float, secs(1), "and takes none");
}

#[test]
fn a_full_core_bars_a_node_for_memory_only() {
    let mut list = list(&[(8, secs(5))]);
    let training = State { core_full: true, ..State::default() };
    list.report(at(1), key(0), at(1), Report { state: training, ..report(2, 8, secs(5)) });
    assert_eq!(placed(&mut list, &request(3, 1, 0), Strategy::Memory), None);
    assert_eq!(placed(&mut list, &request(3, 1, 0), Strategy::Spread), Some(0));
}

#[test]
fn two_placements_in_a_row_go_to_two_idle_nodes() {
    let mut list = list(&[(8, IDLE), (8, IDLE), (8, IDLE)]);
    let request = request(4, 1, 1);
    let mut places = Vec::new();
    for _ in 0..5 {
        let placement = list.place(at(0), &request, Strategy::Spread, &[]).unwrap();
        list.reserve(at(0), placement.key, &request);
        places.push(placement.key.node);
    }
    assert_eq!(places, [0, 1, 2, 0, 1]);
    let float = |list: &mut NodeList, millis| list.ranked(at(millis), Strategy::Spread)[0];
    assert_eq!(float(&mut list, 0).float, secs(3), "the best has one second of backlog");
    assert_eq!(float(&mut list, 500).float, Float::Limited(Span::from_millis(3_500)));
    assert_eq!(float(&mut list, 2_000).float, secs(4), "time has worked off the backlog");
}

#[test]
fn a_report_from_before_the_container_started_leaves_its_reservation_alone() {
    let mut list = list(&[(8, IDLE)]);
    list.reserve(at(0), key(0), &request(4, 3, 2));
    let free = |list: &mut NodeList, now| list.ranked(at(now), Strategy::Spread)[0].memory_free / GIB;
    assert_eq!(free(&mut list, 0), 6);
    list.report(at(900), key(0), at(900), report(2, 8, IDLE));
    assert_eq!(free(&mut list, 900), 6, "it takes a second to start");
    list.report(at(1_050), key(0), at(990), report(3, 8, IDLE));
    assert_eq!(free(&mut list, 1_050), 6, "what counts is when the report was taken");
    list.report(at(1_100), key(0), at(1_000), report(4, 5, secs(1)));
    assert_eq!(free(&mut list, 1_100), 5);
}

#[test]
fn a_reservation_whose_container_never_came_expires() {
    let settings = Settings { silence_max: Span::from_secs(60), ..Settings::default() };
    let mut list = NodeList::new(settings);
    list.report(at(0), key(0), at(0), report(1, 8, IDLE));
    list.reserve(at(0), key(0), &request(4, 3, 8));
    let wants = request(4, 1, 1);
    assert_eq!(list.place(at(29_999), &wants, Strategy::Spread, &[]), None);
    let because = Reason::MostFloatLeft { left: IDLE };
    let placement = Some(Placement { key: key(0), because });
    assert_eq!(list.place(at(30_000), &wants, Strategy::Spread, &[]), placement);
}

#[test]
fn a_reservation_taken_back_is_gone() {
    let mut list = list(&[(8, IDLE)]);
    let id = list.reserve(at(0), key(0), &request(4, 3, 8)).unwrap();
    assert!(list.cancel(at(1), key(0), id));
    assert!(!list.cancel(at(1), key(0), id));
    assert_eq!(placed(&mut list, &request(4, 1, 8), Strategy::BestFit), Some(0));
}

#[test]
fn a_report_that_was_overtaken_is_ignored_unless_the_agent_started_anew() {
    let mut list = list(&[(8, IDLE)]);
    assert!(list.report(at(1), key(0), at(1), report(7, 2, secs(1))));
    assert!(!list.report(at(2), key(0), at(1), report(6, 8, IDLE)));
    assert!(!list.report(at(2), key(0), at(1), report(7, 8, IDLE)));
    assert_eq!(list.ranked(at(2), Strategy::Spread)[0].float, secs(1));
    list.rejoin(key(0));
    assert!(list.report(at(3), key(0), at(3), report(1, 8, IDLE)));
    assert!(!list.report(at(4), key(0), at(4), report(1, 8, IDLE)));
}

#[test]
fn a_node_removed_takes_its_reservations_along() {
    let mut list = list(&[(8, IDLE), (8, secs(5))]);
    let id = list.reserve(at(0), key(0), &request(4, 3, 8)).unwrap();
    assert!(list.remove(key(0)));
    assert!(!list.remove(key(0)));
    assert!(!list.cancel(at(0), key(0), id));
    assert_eq!(placed(&mut list, &request(4, 1, 1), Strategy::Spread), Some(1));
    list.report(at(1), key(0), at(1), report(1, 8, IDLE));
    assert_eq!(placed(&mut list, &request(4, 1, 8), Strategy::Spread), Some(0), "it comes back as new");
    assert_eq!(list.len(), 2);
}

#[test]
fn a_silent_node_gets_nothing_until_it_reports_again() {
    let mut list = list(&[(8, IDLE), (8, IDLE)]);
    list.report(at(2_000), key(1), at(2_000), report(2, 8, IDLE));
    let wants = request(4, 1, 1);
    let place =
        |list: &mut NodeList, now| list.place(at(now), &wants, Strategy::Spread, &[]).map(|p| p.key.node);
    assert_eq!(place(&mut list, 2_999), Some(0));
    assert_eq!(place(&mut list, 3_000), Some(1));
    assert_eq!(place(&mut list, 5_000), None);
    list.report(at(5_001), key(0), at(5_001), report(2, 8, IDLE));
    assert_eq!(place(&mut list, 5_001), Some(0));
}

#[test]
fn after_a_refusal_comes_the_next_of_the_list() {
    let mut list = list(&[(8, secs(7)), (8, secs(9)), (8, secs(8)), (8, secs(1))]);
    let mut refused = Vec::new();
    while let Some(placement) = list.place(at(0), &request(4, 2, 1), Strategy::Spread, &refused) {
        refused.push(placement.key);
    }
    assert_eq!(refused, [key(1), key(2), key(0)]);
}

#[test]
fn every_node_is_told_why() {
    let mut list =
        list(&[(8, secs(7)), (1, secs(9)), (8, secs(1)), (8, IDLE), (8, IDLE), (8, IDLE), (8, secs(8))]);
    let bad = [
        (3, State { missed: true, ..State::default() }),
        (4, State { memory_full: true, ..State::default() }),
    ];
    for (node, state) in bad {
        list.report(at(1), key(node), at(1), Report { state, ..report(2, 8, IDLE) });
    }
    for node in [0, 1, 2, 3, 4, 6] {
        let again = list.nodes().find(|(known, _)| *known == key(node)).unwrap().1.report;
        list.report(at(2_000), key(node), at(2_000), Report { sequence: 3, ..again });
    }
    let told = list.explain(at(4_500), &request(4, 2, 2), Strategy::Spread, &[key(0)]);
    let lines: Vec<String> =
        told.nodes.iter().map(|(key, reason)| alloc::format!("{}: {reason}", key.node)).collect();
    assert_eq!(
        lines,
        [
            "1: 1GiB of GPU memory free, 2GiB needed",
            "6: the most float left after it: 6s",
            "0: it refused",
            "2: a float of 1s, more than 2s needed",
            "3: a container there missed its deadline",
            "4: its GPU memory is full",
            "5: no report for 4.5s",
        ]
    );
    assert_eq!(told.to_string(), "the most float left after it: 6s");
    let none = list.explain(at(4_500), &request(40, 20, 2), Strategy::Spread, &[key(0)]);
    assert_eq!(
        none.to_string(),
        "no node fits: 2 with too little float, 1 with too little GPU memory, 2 not provisionable, 1 silent, \
         1 that refused"
    );
}
