//! `leeway bench deadlines`: how many deadlines are met under each policy, against what a clairvoyant scheduler could meet at most.
//!
//! Staggered deadlines can all be met one after another, and hardly any by sharing. Random ones come at several loads, with works and
//! deadlines from a seed: the same that `leeway sim` generates, but run as real programs, under a real agent. The same loads are run in many
//! simulated worlds, too: there each seed takes a moment, so the spread over seeds is known.

mod shown;
mod worlds;

use super::figures::Spread;
use super::report::Output;
use super::troupe::{Ground, Part, Times, Troupe, began_late, empty, set_policy, tell_late};
use super::{Interruption, Progress};
use crate::failure::Failure;
use crate::stage::{Folder, Setting, Stage, Tier};
use anyhow::Result;
use sched::Span;
use shown::{Found, Met};
use sim::workload::{GPU_MEMORY, Generator, Phases, TaskSpec, Workload};
use std::path::PathBuf;
use std::time::Duration;

/// Memory of the simulated GPU.
const MEMORY: &str = "140GiB";
/// Work of each task with a staggered deadline, and of one of its kernels.
const WORK: Span = Span::from_secs(1);
const KERNEL: Span = Span::from_millis(10);
/// From one staggered deadline to the next, in hundredths of that work: what is left over is for the scheduler to be less than clairvoyant.
const APART_PERCENT: i64 = 115;
/// How often the time that a program takes to its first launch, alone, fits before the first staggered deadline's work. Of programs that
/// start together each waits for the driver, which begins with all of them at once: on an H200 the first launches after twice that time.
const STARTS: i64 = 3;
/// How often a program is run alone, to learn what it takes.
const ALONE: usize = 3;
/// Between two runs that no agent watches.
const GAP: Duration = Duration::from_millis(200);

/// Measure how many deadlines are met, against the clairvoyant bound
#[derive(clap::Args)]
pub(super) struct Deadlines {
    /// How many tasks start together with staggered deadlines; 0: none
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(..=200))]
    staggered: u32,
    /// How many tasks arrive at each load, with random work and deadlines; 0: none
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(..=1000))]
    tasks: u32,
    /// GPU work that arrives per unit of time
    #[arg(long = "load", value_name = "L,…", value_delimiter = ',', default_values_t = [0.6, 0.9, 1.2], value_parser = load)]
    loads: Vec<f64>,
    /// How many simulated worlds to run at each load, of 1,000 tasks each; 0: none
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u64).range(..=100_000))]
    worlds: u64,
    /// The policies to compare; `none` is the GPU's own time slicing, with no agent
    #[arg(long = "policy", value_name = "POLICY,…", value_delimiter = ',', default_values_t = sched::policy::NAMES.map(str::to_owned), value_parser = clap::builder::PossibleValuesParser::new(sched::policy::NAMES))]
    policies: Vec<String>,
    /// How often each is run, each time with another seed; the median counts
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..=100))]
    rounds: u64,
    /// The first seed
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(..=u64::from(u32::MAX)))]
    seed: u64,
    /// What the tasks run in
    #[arg(long, value_enum, default_value = "cgroups")]
    ground: Ground,
    /// How the agent sees tasks; as well as it can, if not given
    #[arg(long, value_enum)]
    tier: Option<Tier>,
    /// The folder of the driver's libraries; without it, a simulated GPU is started
    #[arg(long, value_name = "DIR")]
    driver: Option<PathBuf>,
    #[command(flatten)]
    output: Output,
}

/// What a program with one task's work takes alone on the GPU.
#[derive(Clone, Copy)]
struct Alone {
    /// To its first launch.
    before: Span,
    /// What was asked for as `WORK`. Kernels are asked for in cycles of the GPU's highest clock, which it need not keep up.
    work: Span,
    /// From its last kernel to its end.
    after: Span,
}

impl Alone {
    /// The length to ask for of a kernel that shall take so long.
    fn asked(&self, kernel: Span) -> Span {
        kernel.scaled(WORK.as_micros(), self.work.as_micros().max(1))
    }
}

impl Deadlines {
    pub(super) fn run(self) -> Result<()> {
        self.output.prepare()?;
        if self.staggered == 0 && self.tasks == 0 && self.worlds == 0 {
            let why = "--staggered, --tasks and --worlds are all 0: there is nothing to measure";
            return Err(Failure::input(why).into());
        }
        let interruption = Interruption::expect()?;
        let setting = Setting {
            driver: self.driver.as_deref(),
            memory: MEMORY,
            listed_after_ms: 140,
            poll_ms: 5,
            policy: "none",
            run_dir: None,
            tier: self.tier,
            http: None,
        };
        let mut stage = Stage::set_in(Folder::new("leeway")?, &setting)?;
        let node = stage.node().ok_or_else(|| Failure::new("the agent went away"))?;
        let mut troupe = Troupe::new(self.ground, &interruption)?;
        let mut found = Vec::new();
        let alone = alone(&mut stage, &mut troupe)?;
        let plan = self.plan(alone);
        let about = |workload: &Workload| sim::bound::bound(workload).makespan.as_micros() as f64 / 1e6 + 1.0;
        let once: f64 = plan.iter().map(|(_, workload)| about(workload)).sum();
        let worlds_s = worlds::about_s(self.loads.len(), self.worlds);
        let progress = Progress::new((once + worlds_s) * self.policies.len() as f64);
        for (case, workload) in &plan {
            let best = sim::bound::bound(workload).hit_rate;
            for policy in &self.policies {
                progress.now(&format!("{case}, {policy}"));
                let (met, late) = one(&mut stage, &mut troupe, (workload, alone), policy)?;
                tell_late(late, &format!("{case} under {policy}"));
                found.push(Found { case: *case, policy: policy.clone(), met, best, began_late: late });
                progress.done(about(workload));
            }
        }
        drop((troupe, stage));
        let worlds =
            worlds::run(&self.loads, self.seed, self.worlds, &self.policies, &progress, &interruption)?;
        progress.end();
        self.output.show(&shown::report(&node, &found, &worlds))
    }

    /// The workloads, with what each is a case of.
    fn plan(&self, alone: Alone) -> Vec<(shown::Case, Workload)> {
        let mut plan = Vec::new();
        for round in 0..self.rounds {
            if self.staggered > 0 {
                let count = self.staggered as usize;
                plan.push((shown::Case::Staggered(count), staggered(count, alone)));
            }
            for load in self.loads.iter().filter(|_| self.tasks > 0) {
                let generator =
                    Generator { seed: self.seed + round, tasks: self.tasks as usize, load: *load };
                plan.push((shown::Case::Random(*load), with_host(generator.workload(), alone)));
            }
        }
        plan
    }
}

/// Medians of a few runs: the first one after a while may wait for the driver to wake the GPU.
fn alone(stage: &mut Stage, troupe: &mut Troupe<'_>) -> Result<Alone> {
    let task = Phases::kernels_of(WORK, KERNEL);
    let mut runs = Vec::new();
    stage.leave_agent();
    let progress = Progress::new(ALONE as f64 * WORK.as_micros() as f64 / 1e6);
    progress.now("a task alone");
    for _ in 0..ALONE {
        let part = Part {
            name: "alone".to_owned(),
            labels: Vec::new(),
            words: words(&task, KERNEL),
            after: Duration::ZERO,
        };
        runs.extend(troupe.play(stage, &[part], false)?);
        progress.done(WORK.as_micros() as f64 / 1e6);
    }
    progress.end();
    let median = |from: fn(&Times) -> f64, to: fn(&Times) -> f64| {
        let seconds = Spread::of(runs.iter().map(|times| to(times) - from(times))).median;
        Span::from_micros((seconds * 1e6) as i64)
    };
    Ok(Alone {
        before: median(|times| times.init, |times| times.input),
        work: median(|times| times.input, |times| times.kernel),
        after: median(|times| times.kernel, |times| times.end),
    })
}

/// One run, by the programs' own clocks: what became of the deadlines, nothing where no task has one, as can happen to few random ones; and how
/// many programs began late.
fn one(
    stage: &mut Stage,
    troupe: &mut Troupe<'_>,
    (workload, alone): (&Workload, Alone),
    policy: &str,
) -> Result<(Option<Met>, usize)> {
    let watched = policy != "none";
    if !watched {
        stage.leave_agent();
    } else if stage.agent_pid().is_err() {
        stage.enter_agent()?;
    }
    if watched {
        set_policy(stage, policy)?;
    }
    let parts: Vec<Part> = workload.tasks.iter().map(|task| part(task, alone)).collect();
    let times = troupe.play(stage, &parts, false)?;
    if watched {
        empty(stage, troupe.interruption)?;
    } else {
        std::thread::sleep(GAP);
    }
    let dated = workload.tasks.iter().zip(&times).filter_map(|(task, times)| Some((task.deadline?, times)));
    let late: Vec<f64> =
        dated.map(|(deadline, times)| times.end - times.init - deadline.as_micros() as f64 / 1e6).collect();
    Ok((met(&late), began_late(parts.iter().zip(&times).map(began))))
}

/// When a program began, by its own clock, less the time that it should begin after the first.
fn began((part, times): (&Part, &Times)) -> f64 {
    times.init - part.after.as_secs_f64()
}

/// How many seconds after its deadline each was done.
fn met(late: &[f64]) -> Option<Met> {
    let latest = late.iter().copied().reduce(f64::max)?;
    let met = late.iter().filter(|late| **late <= 0.0).count();
    Some(Met { hit_rate: met as f64 / late.len() as f64, latest, late: late.to_vec() })
}

/// A task as a program with labels, whose kernels take what the task says.
fn part(task: &TaskSpec, alone: Alone) -> Part {
    let millis = |span: Span| format!("{}ms", (span.as_micros() / 1_000).max(1));
    let mut labels = vec![("leeway.manage", "true".to_owned())];
    labels.extend(task.deadline.map(|deadline| ("leeway.deadline", millis(deadline))));
    labels.extend(task.expect.map(|expect| ("leeway.expect", millis(expect))));
    Part {
        name: task.name.clone(),
        labels,
        words: words(&task.phases, alone.asked(task.phases.kernel)),
        after: Duration::from_micros(task.arrives.as_micros().unsigned_abs()),
    }
}

/// A program with those kernels, of that length.
fn words(phases: &Phases, kernel: Span) -> Vec<String> {
    let [kernel, kernels, depth] =
        [kernel.as_micros().max(1) as u64, u64::from(phases.kernels), u64::from(phases.depth)]
            .map(|figure| figure.to_string());
    ["batch", "--kernel-us", &kernel, "--count", &kernels, "--depth", &depth].map(str::to_owned).to_vec()
}

/// Tasks that start together, of which each deadline leaves room for one more than the one before.
fn staggered(count: usize, alone: Alone) -> Workload {
    let task = |place: usize| {
        let in_turn = WORK.scaled(APART_PERCENT * (place as i64 + 1), 100);
        let phases =
            Phases { context: alone.before, output: alone.after, ..Phases::kernels_of(WORK, KERNEL) };
        TaskSpec {
            name: format!("task-{place}"),
            container: format!("task-{place}"),
            gpu: 0,
            arrives: Span::ZERO,
            deadline: Some(alone.before.scaled(STARTS, 1) + in_turn + alone.after),
            expect: Some(phases.solo()),
            mode: sched::Mode::Process,
            managed: true,
            memory_declared: true,
            memory: 0,
            phases,
        }
    };
    let tasks = (0..count).map(task).collect();
    Workload { name: "staggered deadlines".to_owned(), gpus: vec![GPU_MEMORY], tasks, alpha: None }
}

/// The generator knows of work on the GPU only: a real program also starts and ends, and its deadline is a multiple of all of it.
fn with_host(mut workload: Workload, alone: Alone) -> Workload {
    for task in &mut workload.tasks {
        let before = task.phases.solo().as_micros().max(1);
        (task.phases.context, task.phases.output) = (alone.before, alone.after);
        let after = task.phases.solo().as_micros();
        task.deadline = task.deadline.map(|deadline| deadline.scaled(after, before));
        task.expect = task.expect.map(|expect| expect.scaled(after, before));
    }
    workload
}

fn load(text: &str) -> Result<f64, String> {
    let load = text.parse().ok().filter(|load| (0.05..=5.0).contains(load));
    load.ok_or_else(|| "accepted is 0.05 to 5".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALONE: Alone =
        Alone { before: Span::from_millis(230), work: Span::from_millis(1_070), after: Span::from_millis(5) };

    #[test]
    fn staggered_deadlines_can_all_be_met_by_an_order_and_not_by_sharing() {
        let workload = staggered(10, ALONE);
        assert_eq!(sim::bound::bound(&workload).hit_rate, Some(1.0));
        let rate = |policy| {
            let setup = sim::world::Setup::plain(policy, sim::world::Costs::H200);
            sim::world::run(&workload, setup, |_| {}).hit_rate().unwrap()
        };
        assert!(rate("least-slack") > 0.99, "{}", rate("least-slack"));
        assert!(rate("none") <= 0.2, "{}", rate("none"));
    }

    #[test]
    fn kernels_are_asked_for_so_that_they_take_what_they_should() {
        assert_eq!(ALONE.asked(KERNEL), Span::from_micros(9_345));
        assert_eq!(
            words(&Phases::kernels_of(WORK, KERNEL), ALONE.asked(KERNEL))[2..5],
            ["9345", "--count", "100"]
        );
    }

    #[test]
    fn who_begins_later_than_its_arrival_says_is_late() {
        let task = |after: u64, init: f64| {
            let (name, after) = (String::new(), Duration::from_millis(after));
            let part = Part { name, labels: Vec::new(), words: Vec::new(), after };
            (part, Times { init, ..Times::default() })
        };
        // All begin half a second after their moment, and the third one more than that.
        let tasks = [task(0, 10.5), task(2_000, 12.55), task(3_000, 14.0)];
        assert_eq!(began_late(tasks.iter().map(|(part, times)| began((part, times)))), 1);
    }

    #[test]
    fn no_share_is_met_where_nobody_has_a_deadline() {
        assert!(met(&[]).is_none());
        let two = met(&[-0.5, 0.25]).unwrap();
        assert_eq!((two.hit_rate, two.latest), (0.5, 0.25));
    }

    #[test]
    fn a_deadline_stays_the_same_multiple_of_what_the_task_takes() {
        let plain = Generator { seed: 1, tasks: 50, load: 0.9 }.workload();
        let hosted = with_host(plain.clone(), ALONE);
        for (plain, hosted) in plain.tasks.iter().zip(&hosted.tasks) {
            let alpha = |task: &TaskSpec| {
                Some(task.deadline?.as_micros() as f64 / task.phases.solo().as_micros() as f64)
            };
            let (Some(before), Some(after)) = (alpha(plain), alpha(hosted)) else { continue };
            assert!((before - after).abs() < 0.01, "{before} {after}");
        }
    }
}
