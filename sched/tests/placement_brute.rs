//! The node list against a list that looks at every node every time: same answers, always.
//!
//! Random lists are driven through random reports, reservations, cancellations, removals and waits. The
//! naive list keeps what it was told and derives everything anew, straight from the definitions.

use sched::node::{Float, Report, State};
use sched::placement::{Key, NodeList, Reason, Request, ReservationId, Settings, Strategy};
use sched::time::{Instant, Span};

const LISTS: u64 = 3_000;
const STEPS: u64 = 60;
const UNLIMITED: i64 = 1 << 60;

/// A linear congruential generator: enough luck for a test, in three lines.
struct Luck(u64);

impl Luck {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }

    fn one_in(&mut self, chances: u64) -> bool {
        self.below(chances) == 0
    }
}

#[derive(Clone)]
struct NaiveNode {
    key: Key,
    report: Report,
    taken: Instant,
    reserved: Vec<(Instant, ReservationId, Request)>,
}

struct Naive {
    settings: Settings,
    nodes: Vec<NaiveNode>,
}

impl Naive {
    fn report(&mut self, key: Key, taken: Instant, report: Report) -> bool {
        let starts_within = self.settings.starts_within;
        let Some(node) = self.nodes.iter_mut().find(|node| node.key == key) else {
            self.nodes.push(NaiveNode { key, report, taken, reserved: Vec::new() });
            return true;
        };
        if report.sequence <= node.report.sequence {
            return false;
        }
        (node.report, node.taken) = (report, taken);
        node.reserved.retain(|(at, _, _)| taken < *at + starts_within);
        true
    }

    /// (float, memory) of every node that may be used at all.
    fn usable(&self, now: Instant, strategy: Strategy) -> Vec<(Key, i64, u64)> {
        let mut usable = Vec::new();
        for node in &self.nodes {
            let state = node.report.state;
            let barred =
                state.missed || state.memory_full || (strategy == Strategy::Memory && state.core_full);
            if barred || now.since(node.taken) >= self.settings.silence_max {
                continue;
            }
            let reported =
                if strategy == Strategy::Memory { node.report.float_sum } else { node.report.float_least };
            let mut float = match reported {
                Float::Limited(span) => span.as_micros(),
                Float::Unlimited => UNLIMITED,
            };
            let (mut busy_until, mut memory) = (Instant::ZERO, node.report.memory_free);
            for (at, _, request) in &node.reserved {
                if now.since(*at) >= self.settings.reservation_life {
                    continue;
                }
                busy_until = busy_until.max(*at) + request.work();
                float = float.min(request.deadline.map_or(UNLIMITED, Span::as_micros));
                memory = memory.saturating_sub(request.memory);
            }
            usable.push((node.key, float - busy_until.since(now).or_zero().as_micros(), memory));
        }
        usable
    }

    fn place(&self, now: Instant, request: &Request, strategy: Strategy, refused: &[Key]) -> Option<Key> {
        let needed = match (strategy, request.deadline) {
            (_, None) => i64::MIN,
            (Strategy::Spread, Some(_)) => request.work().as_micros(),
            (_, Some(deadline)) => deadline.as_micros(),
        };
        let fits = self.usable(now, strategy).into_iter().filter(|(key, float, memory)| {
            *float > needed && *memory >= request.memory && !refused.contains(key)
        });
        let best = match strategy {
            Strategy::Spread => fits.min_by_key(|&(key, float, memory)| (-float, memory, key)),
            Strategy::BestFit => fits.min_by_key(|&(key, float, memory)| (float, memory, key)),
            Strategy::Memory => {
                let fits = fits.collect::<Vec<_>>();
                let most = fits.iter().map(|fit| fit.2).max()?;
                fits.into_iter().filter(|fit| fit.2 == most).min_by_key(|&(key, float, _)| (float, key))
            }
        };
        best.map(|(key, _, _)| key)
    }
}

/// Few different values, so that ties are common.
fn some_report(luck: &mut Luck, sequence: u64) -> Report {
    let mut float = || match luck.below(6) {
        0 => Float::Unlimited,
        1 => Float::Limited(Span::from_micros(luck.below(50).cast_signed() - 10)),
        _ => Float::Limited(Span::from_micros(luck.below(8).cast_signed() * 5)),
    };
    let (float_sum, float_least) = (float(), float());
    let state = State { missed: luck.one_in(8), memory_full: luck.one_in(9), core_full: luck.one_in(4) };
    Report { sequence, state, memory_free: luck.below(6), float_sum, float_least }
}

fn some_request(luck: &mut Luck) -> Request {
    let mut span = |limit| (!luck.one_in(5)).then(|| Span::from_micros(luck.below(limit).cast_signed()));
    let (deadline, forecast) = (span(40), span(20));
    Request { deadline, memory: luck.below(4), forecast }
}

/// Asks both lists for everything, and compares.
fn compare(now: Instant, luck: &mut Luck, list: &mut NodeList, naive: &Naive) {
    let request = some_request(luck);
    let refused: Vec<Key> = naive.nodes.iter().map(|node| node.key).filter(|_| luck.one_in(6)).collect();
    for strategy in Strategy::ALL {
        let expected = naive.place(now, &request, strategy, &refused);
        let placement = list.place(now, &request, strategy, &refused);
        assert_eq!(placement.map(|placed| placed.key), expected, "{strategy} {request:?} at {now:?}");

        let told = list.explain(now, &request, strategy, &refused);
        assert_eq!(told.placement, placement);
        assert_eq!(told.nodes.len(), naive.nodes.len());
        for (key, reason) in &told.nodes {
            assert_eq!(reason.is_chosen(), Some(*key) == expected);
            let alone: Vec<Key> =
                naive.nodes.iter().map(|node| node.key).filter(|other| other != key).collect();
            let fits = !refused.contains(key) && naive.place(now, &request, strategy, &alone).is_some();
            let told_to_fit = reason.is_chosen() || matches!(reason, Reason::Outranked { .. });
            assert_eq!(told_to_fit, fits, "{strategy}: {reason}");
        }

        let ranked = list.ranked(now, strategy);
        let usable = naive.usable(now, strategy);
        assert_eq!(ranked.iter().filter(|standing| standing.provisionable).count(), usable.len());
        let anything = Request { deadline: None, memory: 0, forecast: None };
        let first = ranked.first().filter(|standing| standing.provisionable);
        assert_eq!(first.map(|standing| standing.key), naive.place(now, &anything, strategy, &[]));
    }
}

fn play(seed: u64) {
    let mut luck = Luck(seed);
    let settings = Settings {
        silence_max: Span::from_micros(40),
        starts_within: Span::from_micros(luck.below(10).cast_signed()),
        reservation_life: Span::from_micros(5 + luck.below(40).cast_signed()),
    };
    let (mut list, mut naive) = (NodeList::new(settings), Naive { settings, nodes: Vec::new() });
    let keys = 1 + luck.below(12) as u32;
    let mut now = Instant::from_micros(luck.below(100));
    for step in 1..=STEPS {
        let key = Key { node: luck.below(keys.into()) as u32, gpu: luck.below(2) as u8 };
        match luck.below(10) {
            0..4 => {
                // Now and then an old one, and one that was long on its way.
                let sequence = step - luck.below(4).min(step);
                let report = some_report(&mut luck, sequence);
                let taken = now - Span::from_micros(luck.below(6).cast_signed());
                assert_eq!(list.report(now, key, taken, report), naive.report(key, taken, report));
            }
            4..7 => {
                let request = some_request(&mut luck);
                let id = list.reserve(now, key, &request);
                let node = naive.nodes.iter_mut().find(|node| node.key == key);
                assert_eq!(id.is_some(), node.is_some());
                if let (Some(id), Some(node)) = (id, node) {
                    node.reserved.push((now, id, request));
                }
            }
            7 => {
                let mut reserved = naive.nodes.iter_mut().filter(|node| !node.reserved.is_empty());
                if let Some(node) = reserved.next() {
                    let (at, id, _) = node.reserved.remove(0);
                    let lives = now.since(at) < settings.reservation_life;
                    assert_eq!(list.cancel(now, node.key, id), lives);
                }
            }
            8 if luck.one_in(4) => {
                let known = naive.nodes.iter().position(|node| node.key == key);
                assert_eq!(list.remove(key), known.is_some());
                known.map(|position| naive.nodes.remove(position));
            }
            _ => now = now + Span::from_micros(luck.below(15).cast_signed()),
        }
        compare(now, &mut luck, &mut list, &naive);
    }
}

#[test]
fn a_sorted_list_and_a_patient_one_always_agree() {
    for seed in 0..LISTS {
        play(seed);
    }
}

#[test]
fn they_agree_on_a_long_list_too() {
    let mut luck = Luck(1);
    let settings = Settings { starts_within: Span::ZERO, ..Settings::default() };
    let (mut list, mut naive) = (NodeList::new(settings), Naive { settings, nodes: Vec::new() });
    let mut now = Instant::ZERO;
    for step in 0..6_000_u64 {
        let key = Key { node: luck.below(2_000) as u32, gpu: 0 };
        let report = some_report(&mut luck, step);
        assert_eq!(list.report(now, key, now, report), naive.report(key, now, report));
        now = now + Span::from_micros(1);
        if step % 7 == 0 {
            let request = some_request(&mut luck);
            for strategy in Strategy::ALL {
                let placement = list.place(now, &request, strategy, &[]);
                assert_eq!(placement.map(|placed| placed.key), naive.place(now, &request, strategy, &[]));
            }
            if let Some(placed) = list.place(now, &request, Strategy::Spread, &[])
                && let Some(id) = list.reserve(now, placed.key, &request)
                && let Some(node) = naive.nodes.iter_mut().find(|node| node.key == placed.key)
            {
                node.reserved.push((now, id, request));
            }
        }
    }
}
