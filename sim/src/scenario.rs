//! Worlds to break promises in: one seed decides the containers, the policy, the tier and the faults.
//!
//! While it runs, `sched::check` must hold after every step. Then the faults stop, and everything must
//! come to its end: every process done, nobody standing, nothing left that the scheduler believes in.

use crate::fault::Faults;
use crate::luck::{Luck, Purpose};
use crate::outcome::Outcome;
use crate::workload::{Phases, TaskSpec, Workload};
use crate::world::{self, Costs, Setup, Tier};
use rand::RngExt;
use rand_chacha::ChaCha8Rng;
use sched::policy::{Judgement, Policy, Scene};
use sched::{Instant, Mode, Settings, Span};

/// How many containers a world has, at most.
const CONTAINERS_MAX: usize = 8;
/// How much memory a GPU of such a world has.
const GPU_MEMORY: u64 = 16 << 30;
/// Arrivals fall into this time.
const ARRIVALS_WITHIN: Span = Span::from_secs(6);

/// Runs the world of one seed under the policy it picks.
pub fn run(seed: u64) -> Outcome {
    run_with(seed, picked(seed))
}

/// Runs the world of one seed and keeps a log, to find out what went wrong in it.
pub fn run_logged(seed: u64) -> Outcome {
    run_in(seed, picked(seed), true)
}

/// Runs the world of one seed under that policy.
pub fn run_with(seed: u64, policy: MakePolicy) -> Outcome {
    run_in(seed, policy, false)
}

/// A new policy for every life of the agent.
pub type MakePolicy = Box<dyn Fn() -> Box<dyn Policy>>;

fn picked(seed: u64) -> MakePolicy {
    let name = sched::policy::NAMES[(seed % 4) as usize];
    Box::new(move || sched::policy::by_name(name).expect("the name is from the list"))
}

fn run_in(seed: u64, policy: MakePolicy, log: bool) -> Outcome {
    let mut luck = Luck(seed).stream(Purpose::Shape);
    let tier = if luck.random_ratio(1, 4) { Tier::Freeze } else { Tier::Gate };
    let workload = workload(&mut luck);
    let quiet_from = Instant::ZERO + ARRIVALS_WITHIN + Span::from_secs(4);
    let acts = policy().acts();
    let setup = Setup {
        policy,
        settings: Settings { burst_gap: Span::from_millis(1), ..Settings::default() },
        costs: Costs::H200,
        tier,
        faults: Faults::picked(seed, quiet_from),
        log,
        check: true,
    };
    // Only what has a task before it allocates, and may be touched, can be kept from allocating.
    let plain = workload.tasks.iter().all(|task| task.managed && task.mode == Mode::Process);
    let excused = !plain || !acts || tier == Tier::Freeze || setup.faults.excuse_lack_of_memory();
    let mut outcome = world::run(&workload, setup, |_| {});
    let starved = outcome.tasks.iter().find(|task| task.out_of_memory);
    if let Some(starved) = starved.filter(|_| !excused && outcome.broken.is_none()) {
        outcome.broken = Some(format!("{} ran out of GPU memory instead of waiting for it", starved.name));
    }
    outcome
}

fn workload(luck: &mut ChaCha8Rng) -> Workload {
    let gpus = luck.random_range(1..=2);
    let plain = luck.random_ratio(1, 2);
    let mut tasks = Vec::new();
    for container in 0..luck.random_range(2..=CONTAINERS_MAX) {
        let first = container_task(luck, container, gpus, plain);
        // A container's next process starts when its last may still run, or long after.
        for number in 0..luck.random_range(1..=3) {
            let later = Span::from_micros(luck.random_range(0..=ARRIVALS_WITHIN.as_micros()));
            let name = format!("{}-{number}", first.name);
            tasks.push(TaskSpec { name, arrives: later, ..first.clone() });
        }
    }
    tasks.sort_by_key(|task| task.arrives);
    Workload { name: "fuzzed".to_owned(), gpus: vec![GPU_MEMORY; gpus], tasks, alpha: None }
}

fn container_task(luck: &mut ChaCha8Rng, container: usize, gpus: usize, plain: bool) -> TaskSpec {
    let micros = |luck: &mut ChaCha8Rng, most: i64| Span::from_micros(luck.random_range(0..=most));
    let mode = [Mode::Process, Mode::Process, Mode::Memory, Mode::Burst][luck.random_range(0..4)];
    let kernel = Span::from_micros([300, 5_000, 80_000, 900_000][luck.random_range(0..4)]);
    let phases = Phases {
        // A context takes long enough for the first fact of a process to arrive before it allocates.
        context: Span::from_millis(50) + micros(luck, 200_000),
        host: micros(luck, 300_000),
        input: micros(luck, 100_000),
        kernels: luck.random_range(1..=12),
        kernel,
        depth: luck.random_range(1..=8),
        gap: micros(luck, 400),
        output: micros(luck, 50_000),
        rounds: luck.random_range(1..=3),
        think: micros(luck, 200_000),
    };
    let solo = phases.solo();
    let alpha = luck.random_range(5..=60);
    TaskSpec {
        name: format!("container-{container}"),
        container: format!("container-{container}"),
        gpu: luck.random_range(0..gpus),
        arrives: Span::ZERO,
        deadline: luck.random_ratio(3, 4).then(|| solo.scaled(alpha, 10)),
        expect: luck.random_ratio(1, 2).then_some(solo),
        mode: if plain { Mode::Process } else { mode },
        managed: plain || luck.random_ratio(7, 8),
        memory_declared: luck.random_ratio(1, 2),
        memory: luck.random_range(1..=10_u64) << 30,
        phases,
    }
}

/// A policy that must fail: it holds everybody who needs the GPU. A harness that passes it checks nothing.
pub struct Canary;

impl Policy for Canary {
    fn name(&self) -> &'static str {
        "canary"
    }

    fn judge(&self, scene: &Scene<'_>) -> Judgement {
        let needy = scene.candidates.iter().filter(|candidate| candidate.contends);
        let holds = needy.map(|candidate| (candidate.task.id, sched::Reason::CoreFull)).collect();
        Judgement { holds, wake: None }
    }
}
