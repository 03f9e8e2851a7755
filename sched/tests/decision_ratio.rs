//! A hundred times as many tasks must not take anywhere near ten thousand times as long.
//!
//! Only ratios are asserted, since machines differ; the benchmark `decisions` prints the times.

mod throng;
use sched::Span;
use std::time::{Duration, Instant};
use throng::{launch_and_drain, throng};

const FEW: u32 = 10;
const MANY: u32 = 1_000;
/// Linear would be 100; sorting and caches add to that.
const DECISION_RATIO_MAX: u32 = 600;
/// A fact touches a few ordered maps, whatever their size.
const FACT_RATIO_MAX: u32 = 12;
const ROUNDS: u32 = 200;
/// Another process may have the processor while we measure; it will not have it every time.
const TRIES: u32 = 5;

fn time(tasks: u32, policy: &str, decide: bool) -> Duration {
    let (mut scheduler, mut now) = throng(policy, tasks);
    let start = Instant::now();
    for round in 0..ROUNDS {
        now = now + Span::from_micros(10);
        launch_and_drain(&mut scheduler, now, round % tasks);
        if decide {
            scheduler.decide(now);
        }
    }
    start.elapsed()
}

fn grows_at_most(ratio_max: u32, policy: &str, decide: bool) {
    let holds = (0..TRIES).any(|_| {
        let (few, many) = (time(FEW, policy, decide), time(MANY, policy, decide));
        println!("{policy}: {:?} with {FEW} tasks, {:?} with {MANY}", few / ROUNDS, many / ROUNDS);
        many <= few.max(Duration::from_nanos(1)) * ratio_max
    });
    assert!(holds, "{policy}: more than {ratio_max} times as long");
}

#[test]
fn a_decision_grows_about_linearly() {
    for policy in sched::policy::NAMES {
        grows_at_most(DECISION_RATIO_MAX, policy, true);
    }
}

#[test]
fn a_fact_costs_about_the_same_however_many_tasks_there_are() {
    grows_at_most(FACT_RATIO_MAX, "least-slack", false);
}
