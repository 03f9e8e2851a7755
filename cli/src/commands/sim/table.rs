//! The table of a simulation: one line per policy, and what nobody can exceed.

use sched::Span;
use wire::sim::SimReport;

pub(super) fn of(report: &SimReport) -> String {
    let span = |micros: i64| Span::from_micros(micros).to_string();
    let rate =
        |rate: Option<f64>| rate.map_or_else(|| "-".to_owned(), |rate| format!("{:.1} %", rate * 100.0));
    let mut rows = vec![
        ["POLICY", "MAKESPAN", "MEAN TURNAROUND", "P99 TURNAROUND", "HIT RATE", "HOLDS", "FAILED"]
            .map(str::to_owned),
    ];
    rows.extend(report.policies.iter().map(|policy| {
        [
            policy.policy.clone(),
            span(policy.makespan_us),
            span(policy.mean_turnaround_us),
            span(policy.p99_turnaround_us),
            rate(policy.hit_rate),
            policy.holds.to_string(),
            policy.failed.to_string(),
        ]
    }));
    let dash = || "-".to_owned();
    rows.push([
        "(bound)".to_owned(),
        span(report.bound.makespan_us),
        dash(),
        dash(),
        rate(report.bound.hit_rate),
        dash(),
        dash(),
    ]);
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: [usize; 7] = std::array::from_fn(width);
    let mut text = report.workload.clone();
    if let Some([least, most]) = report.alpha {
        text += &format!(", deadlines of {least} to {most} times the run time");
    }
    text += "\n\n";
    for row in rows {
        text += &format!("{:<w$}", row[0], w = widths[0]);
        for (cell, width) in row.iter().zip(widths).skip(1) {
            text += &format!("  {cell:>width$}");
        }
        text.push('\n');
    }
    text + "\nbound: what a clairvoyant scheduler with free switching could reach at most\n"
}
