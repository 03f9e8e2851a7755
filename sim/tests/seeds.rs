//! Thousands of worlds, each from its seed: no promise breaks, whatever goes wrong.

use sim::scenario;

/// How many worlds every test run tries. `LEEWAY_SEEDS=FROM..TO` tries others.
const SEEDS: std::ops::Range<u64> = 0..2_400;

#[test]
fn no_promise_breaks_in_any_world() {
    let seeds = std::env::var("LEEWAY_SEEDS").map_or(SEEDS, |range| {
        let (from, to) = range.split_once("..").expect("LEEWAY_SEEDS is FROM..TO");
        from.parse().expect("FROM is a number")..to.parse().expect("TO is a number")
    });
    let worlds = seeds.end - seeds.start;
    let broken: Vec<String> =
        seeds.filter_map(|seed| Some(format!("seed {seed}: {}", scenario::run(seed).broken?))).collect();
    println!("{worlds} worlds, {} with a broken promise", broken.len());
    assert!(
        broken.is_empty(),
        "{} of {worlds}:\n{}",
        broken.len(),
        broken[..broken.len().min(12)].join("\n")
    );
}

#[test]
fn the_same_seed_is_the_same_story() {
    for seed in [3, 17, 404] {
        let ends = |seed| -> Vec<_> { scenario::run(seed).tasks.iter().map(|task| task.ended).collect() };
        assert_eq!(ends(seed), ends(seed));
    }
}

#[test]
fn a_policy_that_must_fail_does() {
    let canary = || -> Box<dyn sched::policy::Policy> { Box::new(scenario::Canary) };
    let caught = (0..40).filter(|seed| scenario::run_with(*seed, Box::new(canary)).broken.is_some()).count();
    assert!(caught > 30, "only {caught} of 40 worlds noticed that everybody was held");
}
