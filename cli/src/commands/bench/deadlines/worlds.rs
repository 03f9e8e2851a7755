//! The same loads in many simulated worlds: one after another, for all of them at once would not fit into memory.

use crate::commands::bench::figures::Spread;
use crate::commands::bench::{Interruption, Progress};
use crate::failure::Failure;
use sim::bound::bound;
use sim::workload::Generator;
use sim::world::{Costs, Setup, run as simulate};

/// How many tasks a world has.
const TASKS: usize = 1_000;
/// What one takes, in seconds, roughly: for the progress bar only.
const WORLD_S: f64 = 0.05;

/// What all seeds gave at one load: the share of the deadlines that were met, and that of the bound.
pub(super) struct Worlds {
    pub(super) load: f64,
    pub(super) policy: String,
    pub(super) seeds: u64,
    pub(super) hit_rate: Spread,
    pub(super) best: Spread,
    pub(super) of_best: Spread,
}

/// What each policy takes, in seconds, roughly.
pub(super) fn about_s(loads: usize, seeds: u64) -> f64 {
    (loads as u64 * seeds) as f64 * WORLD_S
}

pub(super) fn run(
    loads: &[f64],
    first: u64,
    seeds: u64,
    policies: &[String],
    progress: &Progress,
    interruption: &Interruption,
) -> Result<Vec<Worlds>, Failure> {
    let mut all = Vec::new();
    for load in loads.iter().filter(|_| seeds > 0) {
        progress.now(&format!("worlds, load {load}"));
        let wanted = sched::policy::NAMES.into_iter().filter(|name| policies.iter().any(|one| one == name));
        let mut rates: Vec<(&str, Vec<f64>)> = wanted.map(|policy| (policy, Vec::new())).collect();
        let mut best = Vec::new();
        for seed in first..first + seeds {
            let workload = Generator { seed, tasks: TASKS, load: *load }.workload();
            best.push(bound(&workload).hit_rate.unwrap_or(f64::NAN));
            for (policy, rates) in &mut rates {
                let outcome = simulate(&workload, Setup::plain(policy, Costs::H200), |_| {});
                rates.push(outcome.hit_rate().unwrap_or(f64::NAN));
                interruption.check()?;
                progress.done(WORLD_S);
            }
        }
        for (policy, rates) in rates {
            let of_best = Spread::of(rates.iter().zip(&best).map(|(rate, best)| rate / best));
            let (hit_rate, best) = (Spread::of(rates), Spread::of(best.iter().copied()));
            all.push(Worlds { load: *load, policy: policy.to_owned(), seeds, hit_rate, best, of_best });
        }
    }
    Ok(all)
}
