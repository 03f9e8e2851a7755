//! What contention did, in tables and curves: the ones of the papers.

use super::cases::{Case, Mode, Work};
use super::{Runs, Times, late};
use crate::commands::bench::figures::{Spread, add, deviation, mean, round, rounds_told};
use crate::commands::bench::report::{Plot, Report, Scale, Series, Table};
use serde_json::{Value, json};
use wire::agent::NodeLine;

/// What all runs of one case under one mode gave, in seconds.
struct Measured {
    case: Case,
    mode: Mode,
    rounds: usize,
    /// How many programs began later than they should, in all rounds.
    began_late: usize,
    wall: Spread,
    turnaround_mean: Spread,
    turnaround_deviation: Spread,
    /// Means over the tasks: what each waited in this phase, its own wait and the others' work included.
    input: Spread,
    kernel: Spread,
    output: Spread,
    /// Of a small task's requests, all together; and to what they took without control in the same round.
    requests: Spread,
    requests_to_none: Spread,
    /// Of each task, from the one that was done soonest: medians of the rounds. Who is first may differ from round to round.
    turnarounds: Vec<f64>,
    bound: Spread,
    /// How much longer all took than each alone, one after another: the papers' distance to y = a·x.
    wall_less_line: Spread,
    /// Ratios of figures of the same round.
    wall_to_bound: Spread,
    wall_to_none: Spread,
    mean_to_none: Spread,
    /// Where all tasks are of one kind.
    kernel_to_alone: Spread,
}

impl Measured {
    fn is_inference(&self) -> bool {
        self.case.only() == Some(Work::Inference)
    }
}

pub(super) fn report(node: &NodeLine, tier: &str, cases: &[Case], modes: &[Mode], runs: &Runs) -> Report {
    let mut report = Report::new("contention", node);
    let all: Vec<Measured> = cases
        .iter()
        .flat_map(|case| modes.iter().filter_map(move |mode| measured(case, *mode, runs)))
        .collect();
    let rounds = runs.shared.values().map(Vec::len).max().unwrap_or(0);
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
    all.iter().for_each(|one| row(&mut table, one, tier));
    report.table(table);
    report.table(phases(&all));
    report.table(line(&all));
    curves(&mut report, &all);
    report
}

fn measured(case: &Case, mode: Mode, all: &Runs) -> Option<Measured> {
    let runs = all.shared.get(&(case.clone(), mode))?;
    let none = all.shared.get(&(case.clone(), Mode::None)).map_or(&[][..], Vec::as_slice);
    let bounds: Vec<f64> = (0..runs.len()).filter_map(|round| bound(case, all, round)).collect();
    let each = |of: fn(&Times) -> f64| Spread::of(runs.iter().map(move |run| mean(&taken(run, of))));
    let walls = || runs.iter().map(|run| wall(run));
    let kernels = runs.iter().map(|run| mean(&taken(run, kernel)));
    let kernels_alone =
        (0..runs.len()).filter_map(|round| alone(all, case.only()?, round)).map(|(_, kernel)| kernel);
    let lines = (0..runs.len()).map(|round| {
        let walls = case.0.iter().filter_map(|work| alone(all, *work, round)).map(|(wall, _)| wall);
        walls.sum::<f64>()
    });
    let to_none = |of: fn(&Times) -> f64| {
        let means = |runs: &[Vec<Times>]| runs.iter().map(|run| mean(&taken(run, of))).collect::<Vec<_>>();
        ratios(means(runs), means(none))
    };
    Some(Measured {
        case: case.clone(),
        mode,
        rounds: runs.len(),
        began_late: runs.iter().map(|run| late(run)).sum(),
        wall: Spread::of(walls()),
        turnaround_mean: each(turnaround),
        turnaround_deviation: Spread::of(runs.iter().map(|run| deviation(&taken(run, turnaround)))),
        input: each(|task| task.input - task.allocated),
        kernel: each(kernel),
        output: each(|task| task.output - task.kernel),
        requests: each(|task| task.requests),
        requests_to_none: to_none(|task| task.requests),
        turnarounds: from_the_soonest(runs),
        wall_to_bound: ratios(walls(), bounds.iter().copied()),
        wall_to_none: ratios(walls(), none.iter().map(|run| wall(run))),
        mean_to_none: to_none(turnaround),
        kernel_to_alone: ratios(kernels, kernels_alone),
        wall_less_line: Spread::of(walls().zip(lines).map(|(wall, line)| wall - line)),
        bound: Spread::of(bounds),
    })
}

/// What each round gave, to what the same round gave elsewhere.
fn ratios(here: impl IntoIterator<Item = f64>, there: impl IntoIterator<Item = f64>) -> Spread {
    Spread::of(here.into_iter().zip(there).map(|(here, there)| here / there))
}

fn taken(run: &[Times], of: fn(&Times) -> f64) -> Vec<f64> {
    run.iter().map(of).collect()
}

fn turnaround(task: &Times) -> f64 {
    task.end - task.init
}

fn kernel(task: &Times) -> f64 {
    task.kernel - task.input
}

/// The turnaround of who was done first, second and so on: medians of the rounds.
fn from_the_soonest(runs: &[Vec<Times>]) -> Vec<f64> {
    let sorted = |run: &Vec<Times>| {
        let mut turnarounds = taken(run, turnaround);
        turnarounds.sort_by(f64::total_cmp);
        turnarounds
    };
    let rounds: Vec<Vec<f64>> = runs.iter().map(sorted).collect();
    let tasks = rounds.first().map_or(0, Vec::len);
    let at = |place: usize| Spread::of(rounds.iter().filter_map(|round| round.get(place).copied())).median;
    (0..tasks).map(at).collect()
}

/// From the first start to the last end.
fn wall(run: &[Times]) -> f64 {
    let first = run.iter().map(|task| task.init).fold(f64::MAX, f64::min);
    run.iter().map(|task| task.end).fold(f64::MIN, f64::max) - first
}

/// What no way to share that runs one kernel at a time could beat in a round, in seconds: the least that one of the tasks does off the GPU, and
/// all kernels one after another. Small tasks leave the GPU idle, and together take no longer than one of them. Of both together nothing is
/// known: how much of a small task's time is the GPU's, it does not say.
fn bound(case: &Case, runs: &Runs, round: usize) -> Option<f64> {
    if case.only() == Some(Work::Inference) {
        return alone(runs, Work::Inference, round).map(|(wall, _)| wall);
    }
    if case.0.contains(&Work::Inference) {
        return None;
    }
    let mut host = f64::MAX;
    let mut kernels = 0.0;
    for work in &case.0 {
        let (wall, kernel) = alone(runs, *work, round)?;
        host = host.min(wall - kernel);
        kernels += kernel;
    }
    Some(host + kernels)
}

/// What one task takes alone, and its kernel.
fn alone(runs: &Runs, work: Work, round: usize) -> Option<(f64, f64)> {
    let times = runs.alone.get(&work)?.get(round)?;
    let median = |of: fn(&Times) -> f64| Spread::of(taken(times, of)).median;
    Some((median(turnaround), median(kernel)))
}

fn row(table: &mut Table, one: &Measured, tier: &str) {
    let tier = one.mode.policy().map(|_| tier);
    let mut case = json!({
        "case": format!("{}, {}", one.case, one.mode.name()),
        "tasks": one.case.0.len(),
        "work": one.case.kinds().iter().map(Work::to_string).collect::<Vec<_>>().join("+"),
        "mode": one.mode.name(),
        "tier": tier,
        "rounds": one.rounds,
        "began_late": one.began_late,
        "turnarounds_s": one.turnarounds.iter().map(|figure| round(*figure)).collect::<Vec<_>>(),
    });
    let spreads = [
        ("wall_s", one.wall),
        ("mean_turnaround_s", one.turnaround_mean),
        ("turnaround_deviation_s", one.turnaround_deviation),
        ("input_s", one.input),
        ("kernel_s", one.kernel),
        ("output_s", one.output),
        ("bound_s", one.bound),
        ("wall_to_bound", one.wall_to_bound),
        ("wall_to_none", one.wall_to_none),
        ("mean_turnaround_to_none", one.mean_to_none),
        ("kernel_to_alone", one.kernel_to_alone),
    ];
    spreads.into_iter().for_each(|(name, spread)| add(&mut case, name, spread));
    if one.is_inference() {
        add(&mut case, "requests_s", one.requests);
        add(&mut case, "requests_to_none", one.requests_to_none);
    } else {
        add(&mut case, "wall_less_line_s", one.wall_less_line);
    }
    let mode =
        tier.map_or_else(|| one.mode.name().to_owned(), |tier| format!("{} ({tier})", one.mode.name()));
    let cells = [
        one.case.to_string(),
        mode,
        one.wall.to_string(),
        one.turnaround_mean.to_string(),
        format!("{:.2}", one.turnaround_deviation.median),
        one.bound.to_string(),
        one.wall_to_bound.to_string(),
        one.wall_to_none.to_string(),
        one.mean_to_none.to_string(),
    ];
    table.row(case, cells);
}

/// Table 1 of paper 001: what the tasks spend in each phase. For small tasks, what their requests take (paper 000, Figure 4).
fn phases(all: &[Measured]) -> Table {
    let heading = ["TASKS", "MODE", "INPUT", "KERNEL", "TO ALONE", "OUTPUT", "REQUESTS", "TO NONE"];
    let title = "seconds in each phase, the mean of the tasks; the kernel's with what it waits, of small tasks from the first request to the last";
    let mut table = Table::new(title, &heading);
    for one in all {
        let of_requests = |told: String| if one.is_inference() { told } else { "-".to_owned() };
        let cells = [
            one.case.to_string(),
            one.mode.name().to_owned(),
            format!("{:.3}", one.input),
            format!("{:.3}", one.kernel),
            one.kernel_to_alone.to_string(),
            format!("{:.3}", one.output),
            of_requests(format!("{:.3}", one.requests)),
            of_requests(one.requests_to_none.to_string()),
        ];
        table.row(Value::Null, cells);
    }
    table
}

/// Figures 3, 7b, 8b and 9b of paper 001: what all take beyond the line of one alone, and another, and another. Small tasks leave room for each
/// other, and have no such line.
fn line(all: &[Measured]) -> Table {
    let title = "seconds that all took longer than each alone, one after another";
    let mut table = Table::new(title, &["TASKS", "MODE", "LONGER"]);
    for one in all.iter().filter(|one| !one.is_inference()) {
        let cells = [one.case.to_string(), one.mode.name().to_owned(), one.wall_less_line.to_string()];
        table.row(Value::Null, cells);
    }
    table
}

/// The papers' figures: for each kind of task, by the number of tasks; and each task's own where most run together.
fn curves(report: &mut Report, all: &[Measured]) {
    let mut kinds: Vec<Work> = all.iter().filter_map(|one| one.case.only()).collect();
    kinds.sort_unstable();
    kinds.dedup();
    for kind in kinds {
        let of_kind: Vec<&Measured> = all.iter().filter(|one| one.case.only() == Some(kind)).collect();
        let name = kind.to_string().replace('²', "");
        let most = of_kind.iter().map(|one| one.case.0.len()).max().unwrap_or(0);
        let counts = of_kind.iter().map(|one| one.case.0.len()).collect::<std::collections::BTreeSet<_>>();
        if counts.len() > 1 {
            // A case has the same bound under every mode.
            let of_count = |count: &usize| of_kind.iter().find(|one| one.case.0.len() == *count);
            let bounds =
                counts.iter().filter_map(|count| Some((*count as f64, of_count(count)?.bound.median)));
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
            let (ending, title, of): (&str, String, fn(&Measured) -> Spread) = if kind == Work::Inference {
                ("requests", "All requests of each small task".to_owned(), |one| one.requests)
            } else {
                ("line", format!("Wall time of {kind}, less as many alone"), |one| one.wall_less_line)
            };
            let plot = Plot::new(format!("{ending}-{name}"), title, TASKS, SECONDS, by_count(&of_kind, of));
            report.plot(plot);
        }
        if most > 1 {
            let largest = of_kind.iter().filter(|one| one.case.0.len() == most);
            let each = largest.map(|one| {
                let points = one.turnarounds.iter().enumerate();
                let points = points.map(|(number, seconds)| ((number + 1) as f64, *seconds));
                Series::line(one.mode.name(), points.collect())
            });
            let title = format!("Turnaround of each of {most} × {kind}");
            let across = ("task, from the one done soonest", Scale::Linear);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_are_compared_with_themselves() {
        let task = |init: f64, end: f64| Times { init, end, kernel: end, ..Times::default() };
        let run = |ends: [f64; 2]| ends.map(|end| task(10.0, 10.0 + end)).to_vec();
        let case = Case::parse("64:2").unwrap();
        // The second round found the machine twice as slow, and somebody else first.
        let mut runs = Runs::default();
        let alone = [[5.0, 1.0, 0.5], [2.0, 2.0, 9.0]].map(|ends| ends.map(|end| task(0.0, end)).to_vec());
        runs.alone.insert(Work::Matmul(64), alone.to_vec());
        runs.shared.insert((case.clone(), Mode::None), vec![run([4.0, 4.0]), run([8.0, 8.0])]);
        let managed = vec![run([2.0, 3.0]), vec![task(10.0, 16.0), task(10.25, 14.25)]];
        runs.shared.insert((case.clone(), Mode::LeastSlack), managed);
        let told = measured(&case, Mode::LeastSlack, &runs).unwrap();
        assert_eq!((told.rounds, told.began_late), (2, 1));
        assert_eq!(told.turnarounds, [3.0, 4.5]);
        assert_eq!(told.wall_to_none, Spread { median: 0.75, least: 0.75, most: 0.75 });
        assert_eq!(told.wall_to_bound, Spread { median: 1.5, least: 1.5, most: 1.5 });
        assert_eq!((told.mean_to_none.least, told.mean_to_none.most), (0.625, 0.625));
        assert_eq!((told.wall_less_line.least, told.wall_less_line.most), (1.0, 2.0));
        let serial = measured(&case, Mode::Serial, &runs);
        assert!(serial.is_none());
    }

    #[test]
    fn nothing_bounds_small_tasks_beside_large_ones() {
        let task = |kernel: f64| Times { input: 0.25, kernel, end: kernel + 0.25, ..Times::default() };
        let mut runs = Runs::default();
        runs.alone.insert(Work::Inference, vec![vec![task(3.25)]]);
        runs.alone.insert(Work::Matmul(64), vec![vec![task(1.25)]]);
        let bound = |text: &str| bound(&Case::parse(text).unwrap(), &runs, 0);
        assert_eq!(bound("64:2"), Some(2.5));
        assert_eq!(bound("inference:2"), Some(3.5));
        assert_eq!(bound("64:2+inference:1"), None);
    }
}
