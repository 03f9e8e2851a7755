//! What launches cost, in a table and in curves.

use super::Taken;
use crate::commands::bench::figures::{Spread, add, round};
use crate::commands::bench::report::{Plot, Report, Scale, Series, Table};
use serde_json::json;

pub(super) fn table() -> Table {
    let heading = [
        "KERNELS",
        "LAUNCHES",
        "WITHOUT",
        "ALONE",
        "SHARING",
        "ALONE TO WITHOUT",
        "ALONE TO STOPPED",
        "AGENT CPU",
        "SHARING MORE",
    ];
    Table::new(
        "microseconds per launch: without an agent, alone with one, sharing the GPU; alone also to an agent that is stopped",
        &heading,
    )
}

pub(super) fn compare(table: &mut Table, kernel_us: u64, count: u64, taken: &Taken) {
    let runs = |with: &[f64]| -> Vec<(f64, f64)> {
        taken.without.iter().copied().zip(with.iter().copied()).collect()
    };
    let (alone, sharing) = (runs(&taken.alone), runs(&taken.sharing));
    // A piece that something else held up for long counts as one piece.
    let ratios = |pairs: &[(f64, f64)]| Spread::of_median(pairs.iter().map(|(first, second)| second / first));
    let (to_without, to_stopped) = (ratios(&alone), ratios(&taken.pieces));
    let more = Spread::of(sharing.iter().map(|(without, with)| with - without));
    let [without_us, alone_us, sharing_us, cpu] =
        [&taken.without, &taken.alone, &taken.sharing, &taken.agent_cpu]
            .map(|each| Spread::of(each.iter().copied()));
    let mut figures = json!({
        "case": case(kernel_us),
        "launches": count,
        "rounds": taken.without.len(),
        "alone_probed": taken.alone_probed,
        "shared_probed": taken.sharing_probed,
        "alone_ratio": round(to_without.median),
        "alone_ratio_bounds": [round(to_without.least), round(to_without.most)],
        "alone_to_stopped_ratio": round(to_stopped.median),
        "alone_to_stopped_ratio_bounds": [round(to_stopped.least), round(to_stopped.most)],
    });
    add(&mut figures, "without_agent_us", without_us);
    add(&mut figures, "alone_us", alone_us);
    add(&mut figures, "alone_agent_cpu_ratio", cpu);
    add(&mut figures, "shared_us", sharing_us);
    add(&mut figures, "shared_ratio", Spread::of(sharing.iter().map(|(without, with)| with / without)));
    add(&mut figures, "shared_more_us", more);
    let [without_us, alone_us, sharing_us, more] =
        [without_us, alone_us, sharing_us, more].map(|spread| spread.to_string());
    let [to_without, to_stopped] = [to_without, to_stopped].map(|ratio| format!("{ratio:.3}"));
    let cpu = format!("{:.2} %", cpu.median * 100.0);
    let count = count.to_string();
    let row = [case(kernel_us), count, without_us, alone_us, sharing_us, to_without, to_stopped, cpu, more];
    table.row(figures, row);
}

/// What a launch took in each round; and how much the agent's being there changes it, piece by piece.
pub(super) fn curves(report: &mut Report, kernel_us: u64, taken: &Taken) {
    let by_round = |name: &str, each: &[f64]| {
        let points = each.iter().enumerate().map(|(round, us)| ((round + 1) as f64, *us));
        Series::line(name, points.collect())
    };
    let series = vec![
        by_round("without an agent", &taken.without),
        by_round("alone with one", &taken.alone),
        by_round("sharing the GPU", &taken.sharing),
    ];
    let (across, up) = (("round", Scale::Linear), ("µs per launch", Scale::Linear));
    let title = format!("Launches of {}, round by round", case(kernel_us));
    report.plot(Plot::new(format!("rounds-{kernel_us}"), title, across, up, series));
    let ratios = taken.pieces.iter().map(|(stopped, runs)| runs / stopped);
    let (across, up) = (("ratio", Scale::Linear), ("share of the pieces that is not above", Scale::Linear));
    let title = format!("{}: alone with an agent, to one that is stopped", capital(&case(kernel_us)));
    let series = vec![Series::shares("pieces of a run, in pairs", ratios)];
    report.plot(Plot::new(format!("pieces-{kernel_us}"), title, across, up, series));
}

fn case(kernel_us: u64) -> String {
    if kernel_us == 0 { "empty kernels".to_owned() } else { format!("kernels of {kernel_us} us") }
}

fn capital(text: &str) -> String {
    let (first, rest) = text.split_at(text.chars().next().map_or(0, char::len_utf8));
    first.to_uppercase() + rest
}
