//! What contention did, in tables and curves: the ones of the papers.

use super::cases::{Case, Mode, Work};
use super::{Runs, Times};
use crate::commands::bench::figures::{Spread, add, deviation, mean, round, rounds_told};
use crate::commands::bench::report::{Plot, Report, Scale, Series, Table};
use serde_json::{Value, json};
use wire::agent::NodeLine;

/// What all runs of one case under one mode gave, in seconds.
struct Measured {
    case: Case,
    mode: Mode,
    wall: Spread,
    turnaround_mean: Spread,
    turnaround_deviation: Spread,
    /// Means over the tasks: what each waited in this phase, its own wait and the others' work included.
    input: Spread,
    kernel: Spread,
    output: Spread,
    /// Of a small task's requests, all together.
    requests: Spread,
    /// Of each task of the first run, in order.
    turnarounds: Vec<f64>,
}

pub(super) fn report(node: &NodeLine, tier: &str, cases: &[Case], modes: &[Mode], runs: &Runs) -> Report {
    let mut report = Report::new("contention", node);
    let of = |case: &Case, mode: Mode| Some(measured(case, mode, runs.get(&(case.clone(), mode))?));
    let all: Vec<Measured> =
        cases.iter().flat_map(|case| modes.iter().filter_map(move |mode| of(case, *mode))).collect();
    let rounds = runs.values().map(Vec::len).max().unwrap_or(0);
    let title = format!("seconds; {}", rounds_told(rounds));
    let heading = [
        "TASKS",
        "MODE",
        "WALL",
        "MEAN TURNAROUND",
        "DEVIATION",
        "BOUND",
        "TO BOUND",
        "TO NONE",
        "MEAN TO NONE",
    ];
    let mut table = Table::new(title, &heading);
    for one in &all {
        let none = all.iter().find(|other| other.case == one.case && other.mode == Mode::None);
        row(&mut table, one, tier, bound(&one.case, runs), none);
    }
    report.table(table);
    report.table(phases(&all));
    curves(&mut report, &all, runs);
    report
}

fn measured(case: &Case, mode: Mode, runs: &[Vec<Times>]) -> Measured {
    let each = |of: fn(&Times) -> f64| Spread::of(runs.iter().map(move |run| mean(&taken(run, of))));
    let turnarounds = |run: &Vec<Times>| taken(run, |task| task.end - task.init);
    Measured {
        case: case.clone(),
        mode,
        wall: Spread::of(runs.iter().map(|run| wall(run))),
        turnaround_mean: each(|task| task.end - task.init),
        turnaround_deviation: Spread::of(runs.iter().map(|run| deviation(&turnarounds(run)))),
        input: each(|task| task.input - task.allocated),
        kernel: each(|task| task.kernel - task.input),
        output: each(|task| task.output - task.kernel),
        requests: each(|task| task.requests),
        turnarounds: runs.first().map(turnarounds).unwrap_or_default(),
    }
}

fn taken(run: &[Times], of: fn(&Times) -> f64) -> Vec<f64> {
    run.iter().map(of).collect()
}

/// From the first start to the last end.
fn wall(run: &[Times]) -> f64 {
    let first = run.iter().map(|task| task.init).fold(f64::MAX, f64::min);
    run.iter().map(|task| task.end).fold(f64::MIN, f64::max) - first
}

/// What no way to share can beat, in seconds: the least that one of the tasks does off the GPU, and all kernels one after another.
/// Small tasks leave the GPU idle, and together take no longer than one of them.
fn bound(case: &Case, runs: &Runs) -> Option<f64> {
    let alone = |work: Work| {
        let runs = runs.get(&(Case::alone(work), Mode::None))?;
        let kernel = Spread::of(runs.iter().flatten().map(|task| task.kernel - task.input)).median;
        Some((Spread::of(runs.iter().map(|run| wall(run))).median, kernel))
    };
    if case.only() == Some(Work::Inference) {
        return alone(Work::Inference).map(|(wall, _)| wall);
    }
    let mut host = f64::MAX;
    let mut kernels = 0.0;
    for work in &case.0 {
        let (wall, kernel) = alone(*work)?;
        host = host.min(wall - kernel);
        kernels += kernel;
    }
    Some(host + kernels)
}

fn row(table: &mut Table, one: &Measured, tier: &str, bound: Option<f64>, none: Option<&Measured>) {
    let to_bound = bound.map(|bound| one.wall.median / bound);
    let to_none = none.map(|none| one.wall.median / none.wall.median);
    let mean_to_none = none.map(|none| one.turnaround_mean.median / none.turnaround_mean.median);
    let tier = one.mode.policy().map(|_| tier);
    let rounded = |figure: Option<f64>| figure.map(round);
    let mut case = json!({
        "case": format!("{}, {}", one.case, one.mode.name()),
        "tasks": one.case.0.len(),
        "work": one.case.kinds().iter().map(Work::to_string).collect::<Vec<_>>().join("+"),
        "mode": one.mode.name(),
        "tier": tier,
        "bound_s": rounded(bound),
        "wall_to_bound": rounded(to_bound),
        "wall_to_none": rounded(to_none),
        "mean_turnaround_to_none": rounded(mean_to_none),
        "turnarounds_s": one.turnarounds.iter().map(|figure| round(*figure)).collect::<Vec<_>>(),
    });
    let spreads = [
        ("wall_s", one.wall),
        ("mean_turnaround_s", one.turnaround_mean),
        ("turnaround_deviation_s", one.turnaround_deviation),
        ("input_s", one.input),
        ("kernel_s", one.kernel),
        ("output_s", one.output),
    ];
    spreads.into_iter().for_each(|(name, spread)| add(&mut case, name, spread));
    if one.case.only() == Some(Work::Inference) {
        add(&mut case, "requests_s", one.requests);
    }
    let told = |figure: Option<f64>| figure.map_or_else(|| "-".to_owned(), |figure| format!("{figure:.2}"));
    let mode =
        tier.map_or_else(|| one.mode.name().to_owned(), |tier| format!("{} ({tier})", one.mode.name()));
    let cells = [
        one.case.to_string(),
        mode,
        one.wall.to_string(),
        one.turnaround_mean.to_string(),
        format!("{:.2}", one.turnaround_deviation.median),
        told(bound),
        told(to_bound),
        told(to_none),
        told(mean_to_none),
    ];
    table.row(case, cells);
}

/// Table 1 of paper 001: what the tasks spend in each phase. For small tasks, what their requests take (paper 000, Figure 4).
fn phases(all: &[Measured]) -> Table {
    let heading = ["TASKS", "MODE", "INPUT", "KERNEL", "OUTPUT", "REQUESTS"];
    let title = "seconds in each phase, the mean of the tasks; the kernel's with what it waits";
    let mut table = Table::new(title, &heading);
    for one in all {
        let requests = one.case.only() == Some(Work::Inference);
        let cells = [
            one.case.to_string(),
            one.mode.name().to_owned(),
            format!("{:.3}", one.input),
            format!("{:.3}", one.kernel),
            format!("{:.3}", one.output),
            if requests { format!("{:.3}", one.requests) } else { "-".to_owned() },
        ];
        table.row(Value::Null, cells);
    }
    table
}

/// The papers' figures: for each kind of task, by the number of tasks; and each task's own where most run together.
fn curves(report: &mut Report, all: &[Measured], runs: &Runs) {
    let mut kinds: Vec<Work> = all.iter().filter_map(|one| one.case.only()).collect();
    kinds.sort_unstable();
    kinds.dedup();
    for kind in kinds {
        let of_kind: Vec<&Measured> = all.iter().filter(|one| one.case.only() == Some(kind)).collect();
        let name = kind.to_string().replace('²', "");
        let most = of_kind.iter().map(|one| one.case.0.len()).max().unwrap_or(0);
        let counts = of_kind.iter().map(|one| one.case.0.len()).collect::<std::collections::BTreeSet<_>>();
        if counts.len() > 1 {
            let bounds = counts
                .iter()
                .filter_map(|count| Some((*count as f64, bound(&Case(vec![kind; *count]), runs)?)));
            let bounds = Series::line("lower bound", bounds.collect());
            let mut walls = by_count(&of_kind, |one| one.wall);
            walls.push(bounds);
            let title = format!("Wall time of {kind}");
            report.plot(Plot::new(format!("wall-{name}"), title, TASKS, SECONDS, walls));
            let means = by_count(&of_kind, |one| {
                let (mean, deviation) = (one.turnaround_mean.median, one.turnaround_deviation.median);
                Spread { median: mean, least: mean - deviation, most: mean + deviation }
            });
            let title = format!("Turnaround of {kind}: mean and deviation");
            report.plot(Plot::new(format!("turnaround-{name}"), title, TASKS, SECONDS, means));
        }
        if most > 1 {
            let largest = of_kind.iter().filter(|one| one.case.0.len() == most);
            let each = largest.map(|one| {
                let points = one.turnarounds.iter().enumerate();
                let points = points.map(|(number, seconds)| ((number + 1) as f64, *seconds));
                Series::line(one.mode.name(), points.collect())
            });
            let title = format!("Turnaround of each of {most} × {kind}");
            let across = ("task", Scale::Linear);
            report.plot(Plot::new(format!("tasks-{name}"), title, across, SECONDS, each.collect()));
        }
    }
}

const TASKS: (&str, Scale) = ("tasks", Scale::Linear);
const SECONDS: (&str, Scale) = ("seconds", Scale::Linear);

/// A curve for each mode.
fn by_count(all: &[&Measured], of: fn(&Measured) -> Spread) -> Vec<Series> {
    let mut modes: Vec<Mode> = all.iter().map(|one| one.mode).collect();
    modes.sort_unstable();
    modes.dedup();
    let curve = |mode: Mode| {
        let of_mode =
            || all.iter().filter(move |one| one.mode == mode).map(|one| (one.case.0.len() as f64, of(one)));
        let points = of_mode().map(|(count, spread)| (count, spread.median)).collect();
        let whiskers = of_mode().map(|(count, spread)| (count, spread.least, spread.most)).collect();
        Series::line(mode.name(), points).with_whiskers(whiskers)
    };
    modes.into_iter().map(curve).collect()
}
