//! `leeway bench nodelist`: how long it takes to build a node list and to place a container, from 2 to 1,000,000 nodes.
//!
//! As in paper 000, Figure 11, the reports are made up. What the paper's master does for each new container (sort all nodes by free memory,
//! then go through them) is measured beside it, in this program and on this machine: it asks every node for each container, and we do not.

use super::figures::{Spread, add};
use super::report::{Output, Plot, Report, Scale, Series, Table};
use super::{Interruption, Progress};
use crate::failure::Failure;
use anyhow::Result;
use sched::node::{Float, Report as NodeReport, State};
use sched::placement::{Key, NodeList, Request, Settings, Strategy};
use sched::{Instant, Span};
use serde_json::json;
use std::hint::black_box;
use wire::report::{Figures, Record};

/// When everything happens.
const NOW: Instant = Instant::from_micros(1_000_000_000);
/// How many placements are timed together: one alone takes less than reading the clock.
const PLACEMENTS: u32 = 200;
/// How often the paper's way is timed: it takes long enough.
const SORTINGS: u32 = 3;
/// After how many nodes to look whether we were interrupted: a list of millions takes a while.
const LOOKS_EVERY: u32 = 10_000;
/// What a round takes, in seconds, roughly, and of that each node: for the progress bar only.
const ROUND_S: f64 = 0.001;
const NODE_S: f64 = 0.000_003;
/// One node in so many takes nobody.
const BARRED: u64 = 8;
/// The most memory a node has free.
const MEMORY_MAX: u64 = 24 << 30;

/// Measure the building of node lists and placement, with made-up nodes
#[derive(clap::Args)]
pub(super) struct Nodelist {
    /// How many nodes there are, one measurement each
    #[arg(long, value_name = "N,…", value_delimiter = ',', default_value = "2,20,200,2000,20000,200000,1000000", value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    nodes: Vec<u32>,
    /// How often each is measured; the median counts
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=100))]
    rounds: u32,
    #[command(flatten)]
    output: Output,
}

/// One measurement, in microseconds.
struct Measured {
    nodes: u32,
    rounds: u32,
    build: Spread,
    /// One more report, in a list that is there.
    report: Spread,
    /// A placement, by each strategy.
    place: [Spread; 3],
    /// The paper's way: sorted and gone through, for each container.
    sorting: Spread,
}

impl Nodelist {
    pub(super) fn run(self) -> Result<()> {
        self.output.prepare()?;
        let interruption = Interruption::expect()?;
        let about = |nodes: u32| ROUND_S + NODE_S * f64::from(nodes);
        let once: f64 = self.nodes.iter().map(|nodes| about(*nodes)).sum();
        let progress = Progress::new(once * f64::from(self.rounds));
        let mut all = Vec::new();
        for nodes in &self.nodes {
            let mut rounds = Vec::new();
            progress.now(&format!("{nodes} nodes"));
            for _ in 0..self.rounds {
                rounds.push(one(*nodes, || interruption.check())?);
                progress.done(about(*nodes));
            }
            let of = |index: usize| Spread::of(rounds.iter().map(|round| round[index]));
            let place = [of(2), of(3), of(4)];
            let (nodes, rounds) = (*nodes, self.rounds);
            all.push(Measured { nodes, rounds, build: of(0), report: of(1), place, sorting: of(5) });
        }
        progress.end();
        self.output.show(&shown(&all))
    }
}

/// Microseconds for: the list, one more report, a placement by each strategy, the paper's way; unless we may not go on.
fn one(nodes: u32, may_go_on: impl Fn() -> Result<(), Failure>) -> Result<[f64; 6], Failure> {
    let reports: Vec<NodeReport> = (0..nodes).map(|node| made_up(node.into())).collect();
    let mut list = NodeList::new(Settings::default());
    let start = std::time::Instant::now();
    for (node, report) in (0..nodes).zip(&reports) {
        if node.is_multiple_of(LOOKS_EVERY) {
            may_go_on()?;
        }
        list.report(NOW, Key { node, gpu: 0 }, NOW, *report);
    }
    let build = start.elapsed().as_secs_f64() * 1e6;
    let report = timed(PLACEMENTS, |turn| {
        let key = Key { node: (luck(turn.into()) % u64::from(nodes)) as u32, gpu: 0 };
        let again = NodeReport { sequence: u64::from(turn) + 2, ..made_up(luck(u64::from(turn) << 32)) };
        list.report(NOW, key, NOW, again);
    });
    let place = Strategy::ALL.map(|strategy| {
        timed(PLACEMENTS, |turn| {
            black_box(list.place(NOW, black_box(&request(turn)), strategy, &[]));
        })
    });
    may_go_on()?;
    let sorting = timed(SORTINGS, |turn| {
        let mut sorted: Vec<&NodeReport> =
            reports.iter().filter(|report| report.state.provisionable()).collect();
        sorted.sort_by_key(|report| std::cmp::Reverse(report.memory_free));
        let deadline = request(turn).deadline.map(Float::Limited);
        black_box(sorted.iter().position(|report| Some(report.float_sum) > deadline));
    });
    may_go_on()?;
    Ok([build, report, place[0], place[1], place[2], sorting])
}

/// Microseconds that each turn takes.
fn timed(turns: u32, mut turn: impl FnMut(u32)) -> f64 {
    let start = std::time::Instant::now();
    (0..turns).for_each(&mut turn);
    start.elapsed().as_secs_f64() * 1e6 / f64::from(turns)
}

/// A report with random figures, as in the paper.
fn made_up(seed: u64) -> NodeReport {
    let figure = |which: u64, below: u64| luck(seed.wrapping_mul(8) + which) % below;
    let float = Span::from_millis(figure(1, 60_000) as i64);
    NodeReport {
        sequence: 1,
        state: State { missed: figure(0, BARRED) == 0, ..State::default() },
        memory_free: figure(2, MEMORY_MAX),
        float_sum: Float::Limited(float.scaled(3, 1)),
        float_least: Float::Limited(float),
    }
}

fn request(turn: u32) -> Request {
    let seed = luck(u64::from(turn) + 1);
    let deadline = Some(Span::from_millis((seed % 10_000 + 1) as i64));
    Request { deadline, memory: seed % (MEMORY_MAX / 2), forecast: Some(Span::from_millis(100)) }
}

/// The same number for the same seed, and hardly related ones for neighbours (splitmix64).
fn luck(seed: u64) -> u64 {
    let mut mixed = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

fn shown(all: &[Measured]) -> Report {
    let mut report = Report::without_gpu("nodelist", "none: nodes are made up");
    let heading = [
        "NODES",
        "BUILT",
        "ONE REPORT",
        "PLACED: SPREAD",
        "PLACED: MEMORY",
        "PLACED: BEST-FIT",
        "SORTED FOR EACH",
    ];
    let mut table = Table::new("microseconds; the last is the paper's way, on this machine", &heading);
    for one in all {
        let [spread, memory, best_fit] = one.place;
        let mut case =
            json!({ "case": format!("{} nodes", one.nodes), "nodes": one.nodes, "rounds": one.rounds });
        let figures = [
            ("build_us", one.build),
            ("report_us", one.report),
            ("place_spread_us", spread),
            ("place_memory_us", memory),
            ("place_best_fit_us", best_fit),
            ("sorted_us", one.sorting),
        ];
        figures.into_iter().for_each(|(name, figure)| add(&mut case, name, figure));
        let told = |spread: Spread| spread.to_string();
        let cells = [
            one.nodes.to_string(),
            format!("{:.0}", one.build),
            told(one.report),
            told(spread),
            told(memory),
            told(best_fit),
            format!("{:.1}", one.sorting),
        ];
        table.row(case, cells);
    }
    report.table(table);
    report.case(bytes());
    let curve = |name: &str, of: fn(&Measured) -> Spread| {
        let points = all.iter().map(|one| (f64::from(one.nodes), of(one).median)).collect();
        let whiskers = all.iter().map(|one| (f64::from(one.nodes), of(one).least, of(one).most)).collect();
        Series::line(name, points).with_whiskers(whiskers)
    };
    let series = vec![
        curve("the whole list built", |one| one.build),
        curve("one report", |one| one.report),
        curve("placed (spread)", |one| one.place[0]),
        curve("sorted for each container", |one| one.sorting),
    ];
    let title = "Node list: time by the number of nodes";
    report.plot(Plot::new("times", title, ("nodes", Scale::Log), ("microseconds", Scale::Log), series));
    report
}

/// What a node sends (paper 000, Table 3: 16 bytes), as it is written to the stream.
fn bytes() -> serde_json::Value {
    let written = |figures: Option<Figures>| {
        let barred = figures.is_none();
        let record = Record { gpu: 0, missed: barred, memory_full: false, core_full: false, figures };
        let mut bytes = Vec::new();
        record.write(&mut bytes);
        bytes.len()
    };
    let figures =
        Figures { sequence: 1, memory_free_mib: 24_576, float_sum_ms: None, float_least_ms: Some(250) };
    json!({
        "case": "bytes per report",
        "report_bytes": written(Some(figures)),
        "report_bytes_of_a_gpu_that_takes_nobody": written(None),
        "paper_report_bytes": 16,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placement_does_not_grow_with_the_list_as_sorting_does() {
        let [few, many] = [200, 20_000].map(|nodes| one(nodes, || Ok(())).unwrap());
        assert!(few.iter().chain(&many).all(|figure| *figure > 0.0));
        assert!(many[2] < many[5], "placing among 20,000 takes longer than sorting them: {many:?}");
    }

    #[test]
    fn a_long_list_is_given_up_when_we_are_interrupted() {
        let looks = std::cell::Cell::new(0);
        let look = || {
            looks.set(looks.get() + 1);
            if looks.get() < 3 { Ok(()) } else { Err(Failure::new("interrupted")) }
        };
        assert!(one(100_000, look).is_err());
        assert_eq!(looks.get(), 3);
    }

    #[test]
    fn a_report_is_as_long_as_the_papers() {
        assert_eq!(bytes()["report_bytes"], bytes()["paper_report_bytes"]);
    }
}
