//! How long the scheduler takes: one decision about a GPU, and one fact on its way in.
//!
//! The promises: a decision with 1,000 tasks within 1 ms, a fact within 2 µs.

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use sched::{Span, policy};

#[path = "../tests/throng/mod.rs"]
mod throng;
use throng::{launch_and_drain, throng};

fn decide(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("decision");
    for policy in policy::NAMES {
        for tasks in [10, 1_000] {
            let (mut scheduler, mut now) = throng(policy, tasks);
            group.bench_function(BenchmarkId::new(policy, tasks), |bencher| {
                bencher.iter(|| {
                    now = now + Span::from_micros(10);
                    launch_and_drain(&mut scheduler, now, tasks / 2);
                    scheduler.decide(now)
                });
            });
        }
    }
    group.finish();
}

fn learn(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("fact");
    for tasks in [10, 1_000] {
        let (mut scheduler, mut now) = throng("least-slack", tasks);
        let mut number = 0;
        group.bench_function(BenchmarkId::new("launch and drain", tasks), |bencher| {
            bencher.iter(|| {
                now = now + Span::from_micros(1);
                number = (number + 7) % tasks;
                launch_and_drain(&mut scheduler, now, number);
            });
        });
    }
    group.finish();
}

criterion_group!(benches, decide, learn);
criterion_main!(benches);
