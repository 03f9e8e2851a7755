//! Deadlines that were met, in tables and curves by load.

use super::worlds::Worlds;
use crate::commands::bench::figures::{Spread, add};
use crate::commands::bench::report::{Plot, Report, Scale, Series, Table};
use serde_json::json;
use std::fmt;
use wire::agent::NodeLine;

/// What the deadlines are like.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Case {
    /// So many that start together.
    Staggered(usize),
    /// At a load.
    Random(f64),
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Case::Staggered(count) => write!(f, "{count} staggered"),
            Case::Random(load) => write!(f, "random, load {load}"),
        }
    }
}

/// What one run gave.
pub(super) struct Found {
    pub(super) case: Case,
    pub(super) policy: String,
    /// Nothing where no task has a deadline.
    pub(super) met: Option<Met>,
    /// The share that could be met at most; the same holds of it.
    pub(super) best: Option<f64>,
    /// How many programs began later than they should.
    pub(super) began_late: usize,
}

/// What became of deadlines.
pub(super) struct Met {
    /// The share that was met.
    pub(super) hit_rate: f64,
    /// How many seconds after its deadline the latest was done; negative if all were met.
    pub(super) latest: f64,
    /// The same of each, in the order of the tasks.
    pub(super) late: Vec<f64>,
}

const HEADING: [&str; 5] = ["DEADLINES", "POLICY", "MET", "COULD BE MET", "OF THE BOUND"];

pub(super) fn report(node: &NodeLine, found: &[Found], worlds: &[Worlds]) -> Report {
    let mut report = Report::new("deadlines", node);
    let mut kinds: Vec<(Case, &str)> = Vec::new();
    for one in found {
        if !kinds.contains(&(one.case, one.policy.as_str())) {
            kinds.push((one.case, &one.policy));
        }
    }
    let tier = node.tier.as_str();
    let title = format!(
        "share of the deadlines that were met by real programs under a real agent ({tier}); how late the latest was"
    );
    let mut heading = HEADING.to_vec();
    heading.push("LATEST, S");
    let mut table = Table::new(title, &heading);
    let mut points = Vec::new();
    for (case, policy) in kinds {
        let runs = || found.iter().filter(move |one| one.case == case && one.policy == policy);
        let dated = || runs().filter_map(|one| one.met.as_ref().zip(one.best));
        let hit_rate = Spread::of(dated().map(|(met, _)| met.hit_rate));
        let best = Spread::of(dated().map(|(_, best)| best));
        let of_best = Spread::of(dated().map(|(met, best)| met.hit_rate / best));
        let latest = Spread::of(dated().map(|(met, _)| met.latest));
        let spreads = [hit_rate, best, of_best];
        let rounded = |late: &Vec<f64>| late.iter().map(|late| (late * 1e4).round() / 1e4).collect();
        let each = dated().map(|(met, _)| rounded(&met.late)).collect();
        // Where the GPU shares by itself nobody sees anything.
        let tier = (policy != "none").then_some(tier);
        let late = Late { tier, latest, each, began: runs().map(|one| one.began_late).sum() };
        row(&mut table, &case.to_string(), policy, runs().count() as u64, spreads, Some(late));
        if let Case::Random(load) = case {
            points.push((policy.to_owned(), load, hit_rate, best));
        }
    }
    report.table(table);
    let title = "share of the deadlines that were met in simulated worlds of 1,000 tasks";
    let mut table = Table::new(title, &HEADING);
    for one in worlds {
        let spreads = [one.hit_rate, one.best, one.of_best];
        row(&mut table, &format!("worlds, load {}", one.load), &one.policy, one.seeds, spreads, None);
    }
    report.table(table);
    report.plot(curves("programs", "Deadlines met by real programs, by load", &points));
    let points: Vec<_> =
        worlds.iter().map(|one| (one.policy.clone(), one.load, one.hit_rate, one.best)).collect();
    report.plot(curves("worlds", "Deadlines met in simulated worlds, by load", &points));
    report
}

/// How late real programs were: at their deadlines, the latest and each in each run, and how many at their beginning.
struct Late<'a> {
    /// And how the agent saw them.
    tier: Option<&'a str>,
    latest: Spread,
    each: Vec<Vec<f64>>,
    began: usize,
}

fn row(
    table: &mut Table,
    case: &str,
    policy: &str,
    runs: u64,
    [hit_rate, best, of_best]: [Spread; 3],
    late: Option<Late<'_>>,
) {
    let mut figures = json!({
        "case": format!("{case}, {policy}"),
        "deadlines": case,
        "policy": policy,
        "runs": runs,
    });
    add(&mut figures, "hit_rate", hit_rate);
    add(&mut figures, "bound_hit_rate", best);
    add(&mut figures, "hit_rate_to_bound", of_best);
    let mut cells = vec![case.to_owned(), policy.to_owned()];
    cells.extend([hit_rate, best, of_best].iter().map(Spread::to_string));
    if let Some(late) = late {
        cells.push(late.latest.to_string());
        add(&mut figures, "latest_s", late.latest);
        figures["late_s"] = json!(late.each);
        figures["began_late"] = json!(late.began);
        figures["tier"] = json!(late.tier);
    }
    table.row(figures, cells);
}

/// A curve for each policy, and one for the bound.
fn curves(name: &str, title: &str, points: &[(String, f64, Spread, Spread)]) -> Plot {
    let mut policies: Vec<&str> = Vec::new();
    for (policy, ..) in points {
        if !policies.contains(&policy.as_str()) {
            policies.push(policy);
        }
    }
    let curve = |name: &str, policy: &str, of_bound: bool| {
        let of = points.iter().filter(|(of, ..)| of == policy);
        let at: Vec<(f64, Spread)> =
            of.map(|(_, load, rate, best)| (*load, if of_bound { *best } else { *rate })).collect();
        let line = at.iter().map(|(load, spread)| (*load, spread.median)).collect();
        let whiskers = at.iter().map(|(load, spread)| (*load, spread.least, spread.most)).collect();
        Series::line(name, line).with_whiskers(whiskers)
    };
    let mut series: Vec<Series> = policies.iter().map(|policy| curve(policy, policy, false)).collect();
    series.extend(policies.first().map(|policy| curve("clairvoyant bound", policy, true)));
    Plot::new(name, title, ("load", Scale::Linear), ("share of the deadlines", Scale::Linear), series)
}
