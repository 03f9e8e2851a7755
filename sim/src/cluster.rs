//! A made-up cluster: what old reports do to placement, and what reservations do about it.
//!
//! Problem: a node reports once a second, and in that second a busy cluster places hundreds of
//! containers. Whoever sends each to the best of the last reports sends them all to the same node.
//! Approach: one seed makes one list of tasks, which is dispatched in several ways to 200 simulated
//! workers with one GPU each. Workers run the task that is due first (earliest deadline first,
//! preemptive, free of charge), judge themselves with `sched::node` and are chosen with
//! `sched::placement`. Units: microseconds.
//!
//! Every task must go somewhere here. If no node fits, it goes to the one with the most float among
//! those that are provisionable, and if there is none of these either, to a random one.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::luck::{Luck, Purpose};
use rand::RngExt;
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, Exp, LogNormal};
use sched::Reading;
use sched::admission::{Admission, Demand, admit};
use sched::node::{self, Resident};
use sched::placement::{Key, NodeList, Request, Settings, Strategy};
use sched::time::{Instant, Span};

/// Workers, one GPU each.
pub const NODES: u32 = 200;
/// How much of the cluster's time the tasks need.
pub const LOAD: f64 = 0.9;
/// How often each worker reports.
pub const REPORT_PERIOD: Span = Span::from_secs(1);
/// How long tasks keep coming.
pub const ARRIVALS_FOR: Span = Span::from_secs(60);
/// The mean run time of a task.
const RUN_MEAN_SECS: f64 = 0.5;
/// How much run times differ: the sigma of their logarithm.
const RUN_SIGMA: f64 = 1.0;
/// How wrong forecasts are: the sigma of the logarithm of forecast over run time.
const FORECAST_SIGMA: f64 = 0.2;
/// A deadline is the run time times something between these.
const DEADLINE_ALPHA: std::ops::Range<f64> = 1.5..4.0;
/// How many workers are asked for admission before the best of them gets the task anyway.
const TRIES_MAX: usize = 3;
/// Each worker's GPU memory; plenty, since this world is about time.
const MEMORY_TOTAL: u64 = 80 << 30;
/// What each task takes of it.
const MEMORY_OF_A_TASK: u64 = 1 << 30;
/// The largest core reading a busy worker gives, which strategy `spread` does not mind.
const CORE_BUSY_PERMILLE: u16 = 1000;

/// How a node is found for each task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dispatch {
    /// Any node, whatever it reports.
    Random,
    /// Strategy `spread` on the last reports, as they are. Idle nodes tie, and go by number.
    Reports,
    /// The same, with ties broken at random: the best that can be made of reports alone.
    ReportsShuffled,
    /// Strategy `spread` with reservations.
    Reservations,
    /// With reservations, and the worker has the last word; on a refusal the next of the list is asked.
    Admission,
    /// With reservations, and a worker that runs out of work reports at once, besides every second.
    IdleReports,
}

impl Dispatch {
    /// All of them, the simplest first.
    pub const ALL: [Dispatch; 6] = [
        Dispatch::Random,
        Dispatch::Reports,
        Dispatch::ReportsShuffled,
        Dispatch::Reservations,
        Dispatch::Admission,
        Dispatch::IdleReports,
    ];

    fn reserves(self) -> bool {
        matches!(self, Dispatch::Reservations | Dispatch::Admission | Dispatch::IdleReports)
    }
}

/// Workers that stop reporting, and go on working.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Silence {
    /// How many.
    pub nodes: u32,
    /// From when on.
    pub from: Instant,
}

/// How it went.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Tasks that came.
    pub tasks: u32,
    /// Tasks that ended by their deadline.
    pub on_time: u32,
    /// Tasks that no node fitted, and that were placed all the same.
    pub unfit: u32,
    /// Refusals by workers.
    pub refusals: u32,
    /// Tasks placed on a node that had been silent for longer than the list allows.
    pub on_silent: u32,
}

impl Outcome {
    /// The share of tasks that ended by their deadline.
    pub fn on_time_share(&self) -> f64 {
        f64::from(self.on_time) / f64::from(self.tasks.max(1))
    }
}

/// Runs one seed's tasks through the cluster.
pub fn run(seed: u64, dispatch: Dispatch) -> Outcome {
    run_with(seed, dispatch, Silence::default())
}

/// The same, with workers that fall silent.
pub fn run_with(seed: u64, dispatch: Dispatch, silence: Silence) -> Outcome {
    let mut cluster = Cluster::new(seed, dispatch, silence);
    for (at, task) in tasks(seed) {
        cluster.reports_until(at);
        cluster.dispatch(at, task);
    }
    cluster.finish()
}

/// A task on its way or at work.
#[derive(Clone, Copy, Debug)]
struct Task {
    deadline: Span,
    due: Instant,
    /// What it still needs.
    left: Span,
    /// What everyone thinks that it still needs.
    left_forecast: Span,
}

/// All tasks of a seed, in the order they come.
fn tasks(seed: u64) -> Vec<(Instant, Task)> {
    let [mut arrivals, mut runs, mut deadlines, mut forecasts] =
        [Purpose::Arrivals, Purpose::Work, Purpose::Deadlines, Purpose::Estimates]
            .map(|purpose| Luck(seed).stream(purpose));
    let gap = distribution(Exp::new(f64::from(NODES) * LOAD / RUN_MEAN_SECS));
    let run = distribution(LogNormal::new(RUN_MEAN_SECS.ln() - RUN_SIGMA * RUN_SIGMA / 2.0, RUN_SIGMA));
    let error = distribution(LogNormal::new(0.0, FORECAST_SIGMA));
    let mut tasks = Vec::new();
    let mut at = Instant::ZERO;
    loop {
        at = at + seconds(gap.sample(&mut arrivals));
        if at.since(Instant::ZERO) > ARRIVALS_FOR {
            return tasks;
        }
        let run = run.sample(&mut runs);
        let deadline = seconds(run * deadlines.random_range(DEADLINE_ALPHA));
        let left_forecast = seconds(run * error.sample(&mut forecasts));
        tasks.push((at, Task { deadline, due: at + deadline, left: seconds(run), left_forecast }));
    }
}

fn distribution<D, E: std::fmt::Debug>(made: Result<D, E>) -> D {
    made.expect("the constants above make valid distributions")
}

fn seconds(seconds: f64) -> Span {
    Span::from_micros((seconds * 1e6) as i64)
}

/// Why a worker reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Occasion {
    Period,
    Idle,
}

/// The master, its workers, and when each of them reports next.
struct Cluster {
    dispatch: Dispatch,
    silence: Silence,
    settings: Settings,
    list: NodeList,
    workers: Vec<Worker>,
    reports: BinaryHeap<Reverse<(Instant, u32, Occasion)>>,
    places: ChaCha8Rng,
    outcome: Outcome,
}

impl Cluster {
    fn new(seed: u64, dispatch: Dispatch, silence: Silence) -> Cluster {
        // A task is on its node the moment it is placed.
        let settings = Settings { starts_within: Span::ZERO, ..Settings::default() };
        let mut list = NodeList::new(settings);
        let mut phases = Luck(seed).stream(Purpose::Reports);
        let mut reports = BinaryHeap::new();
        let mut workers = vec![Worker::default(); NODES as usize];
        for (node, worker) in (0..).zip(&mut workers) {
            list.report(Instant::ZERO, key(node), Instant::ZERO, worker.report(Instant::ZERO));
            let phase = Span::from_micros(phases.random_range(0..REPORT_PERIOD.as_micros()));
            reports.push(Reverse((Instant::ZERO + phase, node, Occasion::Period)));
        }
        let places = Luck(seed).stream(Purpose::Placement);
        Cluster { dispatch, silence, settings, list, workers, reports, places, outcome: Outcome::default() }
    }

    /// Lets the workers report that are due to.
    fn reports_until(&mut self, now: Instant) {
        while let Some(&Reverse((at, node, occasion))) = self.reports.peek()
            && at <= now
        {
            self.reports.pop();
            if node < self.silence.nodes && at >= self.silence.from {
                continue;
            }
            let worker = &mut self.workers[node as usize];
            match occasion {
                Occasion::Period => self.reports.push(Reverse((at + REPORT_PERIOD, node, Occasion::Period))),
                // More work came in the meantime.
                Occasion::Idle if !worker.is_idle(at) => continue,
                Occasion::Idle => {}
            }
            let report = worker.report(at);
            self.list.report(at, key(node), at, report);
        }
    }

    fn dispatch(&mut self, now: Instant, task: Task) {
        let (deadline, forecast) = (Some(task.deadline), Some(task.left_forecast));
        let request = Request { deadline, memory: MEMORY_OF_A_TASK, forecast };
        let place = match self.dispatch {
            Dispatch::Random => self.anywhere(),
            Dispatch::ReportsShuffled => self.best_shuffled(now),
            Dispatch::Admission => self.best_admitted(now, &request, &task),
            Dispatch::Reports | Dispatch::Reservations | Dispatch::IdleReports => {
                self.best(now, &request, &[])
            }
        };
        if self.dispatch.reserves() {
            self.list.reserve(now, place, &request);
        }
        let long_silent = self.silence.from + self.settings.silence_max;
        if place.node < self.silence.nodes && now > long_silent {
            self.outcome.on_silent += 1;
        }
        self.outcome.tasks += 1;
        let idle_at = self.workers[place.node as usize].take(now, task);
        if self.dispatch == Dispatch::IdleReports {
            self.reports.push(Reverse((idle_at, place.node, Occasion::Idle)));
        }
    }

    fn anywhere(&mut self) -> Key {
        key(self.places.random_range(0..NODES))
    }

    /// Any of the nodes with the most float.
    fn best_shuffled(&mut self, now: Instant) -> Key {
        let ranked = self.list.ranked(now, Strategy::Spread);
        let Some(first) = ranked.first().filter(|first| first.provisionable) else { return self.anywhere() };
        let equals = ranked.iter().take_while(|node| node.provisionable && node.float == first.float);
        ranked[self.places.random_range(0..equals.count())].key
    }

    /// The best node, or the least bad.
    fn best(&mut self, now: Instant, request: &Request, refused: &[Key]) -> Key {
        if let Some(placement) = self.list.place(now, request, Strategy::Spread, refused) {
            return placement.key;
        }
        if refused.is_empty() {
            self.outcome.unfit += 1;
        }
        // Without a deadline it asks for no float, so that the provisionable node with the most comes.
        let undemanding = Request { deadline: None, ..*request };
        let placement = self.list.place(now, &undemanding, Strategy::Spread, refused);
        placement.map_or_else(|| self.anywhere(), |placement| placement.key)
    }

    /// The first node that admits the task, or the first that was asked.
    fn best_admitted(&mut self, now: Instant, request: &Request, task: &Task) -> Key {
        let mut refused = Vec::new();
        while refused.len() < TRIES_MAX {
            let place = self.best(now, request, &refused);
            if self.workers[place.node as usize].admits(now, task) {
                return place;
            }
            self.outcome.refusals += 1;
            refused.push(place);
        }
        refused[0]
    }

    /// Lets all work end, and counts.
    fn finish(mut self) -> Outcome {
        for worker in &mut self.workers {
            worker.work_until(Instant::from_micros(u64::MAX / 4));
            self.outcome.on_time += worker.on_time;
        }
        self.outcome
    }
}

fn key(node: u32) -> Key {
    Key { node, gpu: 0 }
}

/// One node: a GPU and the tasks on it.
#[derive(Clone, Debug, Default)]
struct Worker {
    /// The one due first is first.
    tasks: Vec<Task>,
    worked_until: Instant,
    on_time: u32,
    reports: u64,
}

impl Worker {
    /// Takes a task, and says when everything will be done if no other comes.
    fn take(&mut self, now: Instant, task: Task) -> Instant {
        self.work_until(now);
        let position = self.tasks.partition_point(|other| other.due <= task.due);
        self.tasks.insert(position, task);
        now + self.tasks.iter().map(|task| task.left).sum()
    }

    fn is_idle(&mut self, now: Instant) -> bool {
        self.work_until(now);
        self.tasks.is_empty()
    }

    /// Nothing comes in between, so that the order of the tasks stands and work is a simple sum.
    fn work_until(&mut self, now: Instant) {
        while let Some(task) = self.tasks.first_mut() {
            let time = now.since(self.worked_until).min(task.left);
            self.worked_until = self.worked_until + time;
            task.left -= time;
            task.left_forecast = (task.left_forecast - time).or_zero();
            if task.left > Span::ZERO {
                return;
            }
            self.on_time += u32::from(self.worked_until <= task.due);
            self.tasks.remove(0);
        }
        self.worked_until = now;
    }

    /// A task's forecast counts what runs before it: that is what its deadline has to bear.
    fn report(&mut self, now: Instant) -> node::Report {
        self.work_until(now);
        self.reports += 1;
        let mut ahead = Span::ZERO;
        let residents: Vec<Resident> = self
            .tasks
            .iter()
            .map(|task| {
                ahead += task.left_forecast;
                Resident {
                    deadline: Some(task.due.since(now)),
                    forecast: Some(ahead),
                    latest_float: None,
                    missed: task.due < now,
                }
            })
            .collect();
        let reading = Reading {
            core_permille: if self.tasks.is_empty() { 0 } else { CORE_BUSY_PERMILLE },
            memory_used: self.tasks.len() as u64 * MEMORY_OF_A_TASK,
            memory_total: MEMORY_TOTAL,
        };
        node::report(self.reports, &reading, &residents)
    }

    /// Preemption is free here, so that nobody blocks and holding takes no time.
    fn admits(&mut self, now: Instant, newcomer: &Task) -> bool {
        self.work_until(now);
        let demand = |task: &Task| Demand {
            deadline: task.due.since(now),
            run: task.left_forecast,
            blocking: Span::ZERO,
        };
        let residents: Vec<Demand> = self.tasks.iter().map(demand).collect();
        matches!(admit(&demand(newcomer), &residents, Span::ZERO), Admission::Admitted { .. })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SEEDS: std::ops::RangeInclusive<u64> = 1..=3;

    /// The mean over all seeds.
    fn on_time_share(dispatch: Dispatch) -> f64 {
        let shares = SEEDS.map(|seed| run(seed, dispatch).on_time_share());
        shares.sum::<f64>() / SEEDS.count() as f64
    }

    #[test]
    fn reservations_keep_the_herd_apart() {
        let shares = Dispatch::ALL.map(on_time_share);
        println!("{NODES} nodes, load {LOAD}, a report every {REPORT_PERIOD}:");
        for (dispatch, share) in Dispatch::ALL.iter().zip(shares) {
            println!("{:>16}  {:5.1} % on time", format!("{dispatch:?}"), share * 100.0);
        }
        let [random, reports, shuffled, reservations, admission, idle_reports] = shares;
        assert!(reports < random, "the best of old reports is no better than any node");
        assert!(shuffled < random + 0.05, "and breaking ties at random does not mend that");
        assert!(reservations >= 0.9 && reservations >= 2.0 * reports);
        assert!(admission >= 0.9);
        assert!(idle_reports >= 0.99);
    }

    #[test]
    fn a_seed_tells_the_same_story_twice() {
        for dispatch in Dispatch::ALL {
            assert_eq!(run(7, dispatch), run(7, dispatch));
        }
        assert_ne!(run(7, Dispatch::Random), run(8, Dispatch::Random));
    }

    #[test]
    fn nodes_that_fall_silent_get_no_more_tasks() {
        let silence = Silence { nodes: 5, from: Instant::from_micros(20_000_000) };
        let blind = run_with(1, Dispatch::Random, silence);
        assert!(blind.on_silent > 0, "they would get some otherwise");
        for dispatch in [Dispatch::Reservations, Dispatch::IdleReports] {
            let outcome = run_with(1, dispatch, silence);
            assert_eq!(outcome.on_silent, 0, "{outcome:?}");
            assert!(outcome.on_time_share() >= 0.8, "{outcome:?}");
        }
    }
}
