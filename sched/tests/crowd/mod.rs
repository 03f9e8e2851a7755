//! Long node lists and the requests that are hardest on them, for the benchmark and the ratio test.

use sched::node::{Float, Report, State};
use sched::placement::{Key, NodeList, Request, Settings, Strategy};
use sched::time::{Instant, Span};

const GIB: u64 = 1 << 30;

/// When everything here happens.
pub(crate) const NOW: Instant = Instant::from_micros(1_000_000_000);

/// How easily a node is found.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Ease {
    /// The first node in the strategy's order fits.
    First,
    /// Only the last one fits: for `memory` and `best-fit` the search runs all the way forwards, for
    /// `spread` all the way backwards.
    Last,
    /// No node fits.
    None,
}

impl Ease {
    /// All of them.
    pub(crate) const ALL: [Ease; 3] = [Ease::First, Ease::Last, Ease::None];
}

/// That many nodes, half of them with a reservation. Floats from 10 s up, all different; memory of 1 to
/// 8 GiB, which no request for 16 GiB fits, except for the one at the far end of the search: the
/// greatest float for `best-fit`, the least for `spread`. For `memory` the node with the least memory
/// is the only one with a great summed float.
pub(crate) fn crowd(nodes: u32, strategy: Strategy) -> NodeList {
    let mut list = NodeList::new(Settings::default());
    for node in 0..nodes {
        let scattered = scatter(node, nodes);
        let key = Key { node: scattered, gpu: 0 };
        list.report(NOW, key, NOW, report(1, scattered, nodes, strategy));
        if node % 2 == 0 {
            list.reserve(NOW, key, &request(Some(Span::from_secs(3_600)), 0));
        }
    }
    list
}

/// The report of one node of the crowd. `number` decides its float.
pub(crate) fn report(sequence: u64, number: u32, nodes: u32, strategy: Strategy) -> Report {
    let last = match strategy {
        Strategy::Spread => number == 0,
        Strategy::Memory | Strategy::BestFit => number == nodes - 1,
    };
    let float = Float::Limited(Span::from_micros(10_000_000 + i64::from(number) * 1_000));
    let hour = Float::Limited(Span::from_secs(3_600));
    let usual = (1 + u64::from(number) % 8) * GIB + u64::from(number);
    let memory_free = match (last, strategy) {
        (true, Strategy::Memory) => 0,
        (true, _) => 16 * GIB,
        (false, _) => usual,
    };
    let float_sum = if last { hour } else { float };
    Report { sequence, state: State::default(), memory_free, float_sum, float_least: float }
}

/// The request that is this easy to place by that strategy among that many nodes.
pub(crate) fn asking(ease: Ease, strategy: Strategy, nodes: u32) -> Request {
    let beyond = Span::from_micros(20_000_000 + i64::from(nodes) * 1_000);
    let soon = Some(Span::from_secs(5));
    match (ease, strategy) {
        (Ease::First, _) => request(soon, 0),
        (Ease::Last, Strategy::Memory) => request(Some(beyond), 0),
        (Ease::Last, _) => request(soon, 16),
        (Ease::None, Strategy::Memory) => request(Some(Span::from_secs(7_200)), 0),
        (Ease::None, _) => request(soon, 17),
    }
}

/// Visits every number below `limit` once, in a scattered order.
pub(crate) fn scatter(number: u32, limit: u32) -> u32 {
    // A prime that divides none of the limits used here.
    const STRIDE: u64 = 2_654_435_761;
    (u64::from(number) * STRIDE % u64::from(limit)) as u32
}

fn request(deadline: Option<Span>, gib: u64) -> Request {
    Request { deadline, memory: gib * GIB, forecast: Some(Span::from_millis(1)) }
}
