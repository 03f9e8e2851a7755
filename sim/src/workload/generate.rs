//! A random workload: one GPU, lognormal work, deadlines that are a multiple of the run time.

use super::{GPU_MEMORY, Phases, TaskSpec, Workload};
use crate::luck::{Luck, Purpose};
use rand::RngExt;
use rand_distr::{Distribution, Exp1, LogNormal, StandardNormal};
use sched::{Mode, Span};

/// A deadline is at least this many times the task's run time alone.
pub const ALPHA_MIN: f64 = 1.5;
/// A deadline is at most this many times the task's run time alone.
pub const ALPHA_MAX: f64 = 4.0;

/// Mean GPU work of a task, in microseconds.
const WORK_MEAN_US: f64 = 500_000.0;
/// Spread of its logarithm: the longest tasks are tens of times the median.
const WORK_SIGMA: f64 = 1.0;
/// Spread of the logarithm of declared over real run time: people are off by a fifth.
const ESTIMATE_SIGMA: f64 = 0.2;
/// One task in so many has no deadline.
const WITHOUT_DEADLINE: u32 = 5;
/// How long one kernel takes.
const KERNEL: Span = Span::from_millis(10);
/// Host time between two launches.
const GAP: Span = Span::from_micros(10);
/// How deep kernels are queued, at most.
const DEPTH_MAX: u32 = 4;

/// What to generate.
#[derive(Clone, Copy, Debug)]
pub struct Generator {
    /// The seed that decides everything.
    pub seed: u64,
    /// How many tasks.
    pub tasks: usize,
    /// GPU work that arrives per unit of time.
    pub load: f64,
}

impl Generator {
    /// The workload.
    pub fn workload(&self) -> Workload {
        let luck = Luck(self.seed);
        let mut arrivals = luck.stream(Purpose::Arrivals);
        let mut works = luck.stream(Purpose::Work);
        let mut deadlines = luck.stream(Purpose::Deadlines);
        let mut estimates = luck.stream(Purpose::Estimates);
        let work_median = WORK_MEAN_US.ln() - WORK_SIGMA * WORK_SIGMA / 2.0;
        let work = LogNormal::new(work_median, WORK_SIGMA).expect("the spread is a positive number");
        let mut now_us = 0.0;
        let tasks = (1..=self.tasks).map(|number| {
            let gap: f64 = Exp1.sample(&mut arrivals);
            now_us += gap * WORK_MEAN_US / self.load;
            let work = Span::from_micros((work.sample(&mut works) as i64).max(1_000));
            let mut phases = Phases::kernels_of(work, KERNEL);
            phases.gap = GAP;
            phases.depth = works.random_range(1..=DEPTH_MAX);
            let alpha = deadlines.random_range(ALPHA_MIN..=ALPHA_MAX);
            let has_deadline = !deadlines.random_ratio(1, WITHOUT_DEADLINE);
            let error: f64 = StandardNormal.sample(&mut estimates);
            let solo_us = phases.solo().as_micros() as f64;
            let expect = Span::from_micros((solo_us * (ESTIMATE_SIGMA * error).exp()) as i64);
            let deadline = Span::from_micros((solo_us * alpha) as i64).min(sched::Deadline::MAX);
            TaskSpec {
                name: format!("task-{number}"),
                container: format!("task-{number}"),
                gpu: 0,
                arrives: Span::from_micros(now_us as i64),
                deadline: has_deadline.then_some(deadline),
                expect: Some(expect),
                mode: Mode::Process,
                managed: true,
                memory_declared: true,
                memory: 1 << 30,
                phases,
            }
        });
        let tasks = tasks.collect();
        Workload {
            name: format!("{} tasks at load {} from seed {}", self.tasks, self.load, self.seed),
            gpus: vec![GPU_MEMORY],
            tasks,
            alpha: Some([ALPHA_MIN, ALPHA_MAX]),
        }
    }
}
