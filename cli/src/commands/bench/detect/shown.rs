//! What was seen, and what that cost, in tables and curves: rounds of one kind become one line.

use super::errors::{Errors, Measured};
use crate::commands::bench::cost;
use crate::commands::bench::figures::{Spread, add, read, rounds_told};
use crate::commands::bench::report::{Plot, Report, Scale, Series, Table};
use serde_json::{Value, json};
use wire::agent::NodeLine;

/// Figures that tell a case from others.
const NAMES: [&str; 4] = ["case", "tier", "kind", "containers"];
/// Figures that count something: of all rounds together.
const SUMS: [&str; 3] = ["tasks", "unseen", "tasks_told"];
/// An error of less than that is none: the agent's clock has no finer unit, and the logarithm of nothing is no place on an axis.
const ERROR_US_MIN: i64 = 1;

/// What was found, by kind, in the order it was measured.
#[derive(Default)]
pub(super) struct Found {
    pub(super) errors: Vec<Measured>,
    pub(super) costs: Vec<Value>,
    pub(super) others: Vec<Value>,
}

impl Found {
    pub(super) fn report(self, node: &NodeLine, rounds: usize) -> Report {
        let mut report = Report::new("detect", node);
        let heading = [
            "CASE",
            "TIER",
            "TASKS",
            "UNSEEN",
            "START P50, P99, MAX",
            "END P50, P99, MAX",
            "RUN TIME P50, P99, MAX",
        ];
        let title = format!(
            "how far the agent is off the program's own clock, in milliseconds; {}",
            rounds_told(rounds)
        );
        let mut table = Table::new(title, &heading);
        let of_each: Vec<Value> = self.errors.iter().map(|one| one.figures.clone()).collect();
        for errors in merged(&of_each) {
            let ms = |name: &str| {
                let figure = |of: &str| read(&errors, &format!("{name}_error_us_{of}")).scaled(1e-3);
                format!("{:.3}, {:.3}, {:.3}", figure("p50"), figure("p99"), figure("max"))
            };
            let word =
                |name: &str| errors[name].as_str().map_or_else(|| errors[name].to_string(), str::to_owned);
            let cells = [
                word("case"),
                word("tier"),
                word("tasks"),
                word("unseen"),
                ms("start"),
                ms("end"),
                ms("run"),
            ];
            table.row(errors.clone(), cells);
        }
        report.plot(curves(&self.errors, "start", |errors| &errors.starts));
        report.plot(curves(&self.errors, "end", |errors| &errors.ends));
        report.table(table);
        self.others.into_iter().for_each(|case| report.case(case));
        report.table(cost::table(&merged(&self.costs)));
        report
    }
}

/// Which share of the errors was no larger, of all rounds: a curve for each case and way of seeing.
fn curves(all: &[Measured], what: &str, of: fn(&Errors) -> &Vec<i64>) -> Plot {
    let name = |one: &Measured| {
        let word = |name: &str| one.figures[name].as_str().unwrap_or_default();
        format!("{}, {}", word("tier"), word("case"))
    };
    let mut names: Vec<String> = Vec::new();
    for one in all {
        if !names.contains(&name(one)) {
            names.push(name(one));
        }
    }
    let series = names.into_iter().map(|wanted| {
        let same = all.iter().filter(|one| name(one) == wanted);
        let ms = same.flat_map(|one| of(&one.errors)).map(|us| (*us).max(ERROR_US_MIN) as f64 / 1e3);
        Series::shares(wanted.clone(), ms)
    });
    let title = format!("How far the agent's {what} of a task is off");
    let (across, up) = (("ms", Scale::Log), ("share that is off by no more", Scale::Linear));
    Plot::new(what, title, across, up, series.collect())
}

/// Rounds of the same case become one: the median of each figure, with the least and the most.
fn merged(all: &[Value]) -> Vec<Value> {
    let mut cases: Vec<Vec<&Value>> = Vec::new();
    for one in all {
        let is_same = |case: &&mut Vec<&Value>| NAMES.iter().all(|name| case[0].get(name) == one.get(name));
        match cases.iter_mut().find(is_same) {
            Some(case) => case.push(one),
            None => cases.push(vec![one]),
        }
    }
    cases.iter().map(|rounds| one_of(rounds)).collect()
}

fn one_of(rounds: &[&Value]) -> Value {
    let mut merged = rounds[0].clone();
    merged["rounds"] = json!(rounds.len());
    for name in rounds[0].as_object().into_iter().flat_map(|figures| figures.keys()) {
        let figures = || rounds.iter().filter_map(|round| round[name].as_f64());
        if SUMS.contains(&name.as_str()) {
            merged[name] = json!(figures().sum::<f64>() as u64);
        } else if !NAMES.contains(&name.as_str()) && figures().next().is_some() {
            add(&mut merged, name, Spread::of(figures()));
            if rounds.len() == 1 {
                // As it was measured: whole numbers stay whole.
                let ends = [name.clone(), format!("{name}_least"), format!("{name}_most")];
                ends.into_iter().for_each(|end| merged[end] = rounds[0][name].clone());
            }
        }
    }
    merged
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_of_one_case_become_one_with_their_spread() {
        let round =
            |tier: &str, us: Option<i64>| json!({ "case": "errors", "tier": tier, "tasks": 5, "us": us });
        let all = [round("polling", Some(3)), round("probes", None), round("polling", Some(5))];
        let both = json!({ "case": "errors", "tier": "polling", "tasks": 10, "rounds": 2,
            "us": 4.0, "us_least": 3.0, "us_most": 5.0 });
        let none = json!({ "case": "errors", "tier": "probes", "tasks": 5, "rounds": 1, "us": null });
        assert_eq!(merged(&all), [both, none]);
    }
}
