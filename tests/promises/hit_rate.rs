//! Deadlines met, against what a clairvoyant scheduler could meet at most.

use super::alone;
use sim::bound::bound;
use sim::workload::Generator;
use sim::world::{Costs, Setup, run};
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicU64, Ordering};

const SEEDS: u64 = 100;
const TASKS: usize = 1_000;
const LOAD: f64 = 0.9;

/// For one policy, the mean over all seeds of its hit rate over the bound's; no seed may exceed the bound.
fn share_of_the_bound(policy: &'static str, seeds: RangeInclusive<u64>) -> f64 {
    let next = AtomicU64::new(*seeds.start());
    let work = || {
        let mut sum = 0.0;
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if !seeds.contains(&seed) {
                return sum;
            }
            let workload = Generator { seed, tasks: TASKS, load: LOAD }.workload();
            let best = bound(&workload).hit_rate.expect("four tasks in five have a deadline");
            let outcome = run(&workload, Setup::plain(policy, Costs::H200), |_| {});
            let reached = outcome.hit_rate().expect("four tasks in five have a deadline");
            assert!(reached <= best, "seed {seed}: {policy} met {reached}, and the bound is {best}");
            assert!(outcome.makespan() >= bound(&workload).makespan, "seed {seed}: faster than possible");
            sum += reached / best;
        }
    };
    let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let sum: f64 = std::thread::scope(|scope| {
        let running: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        running.into_iter().map(|thread| thread.join().expect("no seed breaks the bound")).sum()
    });
    sum / seeds.count() as f64
}

#[test]
fn least_slack_reaches_95_percent_of_the_clairvoyant_bound() {
    let _alone = alone();
    let reached = share_of_the_bound("least-slack", 1..=SEEDS);
    println!(
        "least-slack reaches {:.1} % of the clairvoyant hit rate, mean of {SEEDS} seeds",
        reached * 100.0
    );
    assert!(reached >= 0.95, "{reached}");
}

#[test]
fn no_policy_exceeds_the_bound() {
    let _alone = alone();
    for policy in sched::policy::NAMES {
        let reached = share_of_the_bound(policy, 1..=10);
        println!("{policy} reaches {:.1} % of the clairvoyant hit rate", reached * 100.0);
    }
}
