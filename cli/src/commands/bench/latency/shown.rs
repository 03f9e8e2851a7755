//! What requests took, in a table and in curves: one picture for each case.

use super::{Case, Latency, NEIGHBOURS, Outcome, Round, WARM};
use crate::commands::bench::figures::{Spread, add, rounds_told};
use crate::commands::bench::report::{Plot, Report, Scale, Series, Table};
use serde_json::json;
use wire::agent::NodeLine;

/// A figure of one case in one round: from the server alone, and from time slicing and an agent.
type Figure = fn(&Outcome, &(Outcome, Outcome)) -> f64;

/// What is written down of each case: the median of the rounds, with the least and the most.
const FIGURES: [(&str, Figure); 11] = [
    ("alone_ms_p50", |alone, _| alone.at(50)),
    ("alone_ms_p99", |alone, _| alone.at(99)),
    ("time_slicing_ms_p50", |_, (sliced, _)| sliced.at(50)),
    ("time_slicing_ms_p99", |_, (sliced, _)| sliced.at(99)),
    ("leeway_ms_p50", |_, (_, managed)| managed.at(50)),
    ("leeway_ms_p99", |_, (_, managed)| managed.at(99)),
    ("leeway_ms_max", |_, (_, managed)| managed.at(100)),
    ("leeway_warm_ms", |_, (_, managed)| managed.warm_most),
    ("time_slicing_p99_ratio", |alone, (sliced, _)| sliced.at(99) / alone.at(99)),
    ("leeway_p99_ratio", |alone, (_, managed)| managed.at(99) / alone.at(99)),
    ("batch_throughput_ratio", |_, (sliced, managed)| managed.throughput / sliced.throughput),
];

impl Latency {
    pub(super) fn shown(&self, node: &NodeLine, rounds: &[Round]) -> Report {
        let mut report = Report::new("latency", node);
        let heading = [
            "BESIDE",
            "ALONE P50, P99",
            "TIME SLICING",
            "LEEWAY",
            "WORST",
            "WORST OF THE FIRST TEN",
            "P99 RATIO",
            "BATCHES' THROUGHPUT",
        ];
        let title = format!(
            "milliseconds per request; ratios to being alone, and to time slicing; {}",
            rounds_told(rounds.len())
        );
        let mut table = Table::new(title, &heading);
        for (number, case) in self.cases.iter().enumerate() {
            self.row(&mut table, *case, number, rounds);
            report.plot(curves(*case, number, rounds));
        }
        report.table(table);
        report
    }

    fn row(&self, table: &mut Table, Case { kernel_us, depth }: Case, number: usize, rounds: &[Round]) {
        let mut figures = json!({
            "case": format!("beside {NEIGHBOURS} batches of {kernel_us} us kernels, {depth} queued"),
            "requests": self.requests as usize - WARM,
            "rounds": rounds.len(),
            "batch_deadline_ms": self.batch_deadline.map(|deadline| deadline.as_millis() as u64),
        });
        let of = |figure: Figure| {
            Spread::of(rounds.iter().map(|round| figure(&round.alone, &round.cases[number])))
        };
        let spreads = FIGURES.map(|(name, figure)| {
            add(&mut figures, name, of(figure));
            of(figure)
        });
        let [alone_50, alone_99, sliced_50, sliced_99, p50, p99, worst, warm, _, ratio, throughput] = spreads;
        let cells = [
            format!("{NEIGHBOURS} × {kernel_us} us, {depth} deep"),
            format!("{alone_50:.1}, {alone_99:.1}"),
            format!("{sliced_50:.1}, {sliced_99:.1}"),
            format!("{p50:.1}, {p99:.1}"),
            format!("{worst:.1}"),
            format!("{warm:.1}"),
            ratio.to_string(),
            throughput.to_string(),
        ];
        table.row(figures, cells);
    }
}

/// Which share of the requests took no longer, of all rounds.
fn curves(Case { kernel_us, depth }: Case, number: usize, rounds: &[Round]) -> Plot {
    let shares = |name: &str, of: fn(&Round, usize) -> &Outcome| {
        Series::shares(name, rounds.iter().flat_map(|round| of(round, number).times.iter().copied()))
    };
    let series = vec![
        shares("time slicing", |round, number| &round.cases[number].0),
        shares("Leeway", |round, number| &round.cases[number].1),
        shares("alone", |round, _| &round.alone),
    ];
    let title = format!("Requests beside {NEIGHBOURS} batches of {kernel_us} us kernels, {depth} queued");
    let (across, up) = (("ms", Scale::Linear), ("share of the requests that took no longer", Scale::Linear));
    Plot::new(format!("{kernel_us}-{depth}"), title, across, up, series)
}
