//! How long a placement takes: the paper needs 164 ms among 200 nodes.
//!
//! The promises: 2 µs among 200 nodes and 20 µs among 100,000, even where nearly no node fits. A report
//! must cost no more, since each node sends one every second.

use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use sched::placement::{Key, Strategy};
use sched::time::Span;

#[path = "../tests/crowd/mod.rs"]
mod crowd;
use crowd::{Ease, NOW, asking, crowd, report, scatter};

const SIZES: [u32; 3] = [200, 100_000, 1_000_000];

fn place(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("place");
    for nodes in SIZES {
        for strategy in Strategy::ALL {
            let mut list = crowd(nodes, strategy);
            for ease in Ease::ALL {
                let request = asking(ease, strategy, nodes);
                group.bench_function(BenchmarkId::new(format!("{strategy} {ease:?}"), nodes), |bencher| {
                    bencher.iter(|| list.place(NOW, black_box(&request), strategy, &[]));
                });
            }
        }
    }
    group.finish();
}

/// Each report moves its node somewhere else, in a list where every node reports in turn.
fn take_report(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("report");
    for nodes in SIZES {
        let mut list = crowd(nodes, Strategy::Spread);
        let (mut now, mut sequence) = (NOW, 1);
        group.bench_function(BenchmarkId::from_parameter(nodes), |bencher| {
            bencher.iter(|| {
                sequence += 1;
                // The whole cluster reports once a second.
                now = now + Span::from_micros((1_000_000 / i64::from(nodes)).max(1));
                let key = Key { node: scatter(sequence as u32, nodes), gpu: 0 };
                let moved = scatter(key.node.wrapping_add(sequence as u32 / nodes * 7), nodes);
                list.report(now, key, now, report(sequence, moved, nodes, Strategy::Spread))
            });
        });
    }
    group.finish();
}

/// What one new container costs in all: a search and a reservation, which moves its node.
fn place_and_reserve(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("place and reserve");
    for nodes in SIZES {
        let mut list = crowd(nodes, Strategy::Spread);
        let request = asking(Ease::First, Strategy::Spread, nodes);
        let mut now = NOW;
        group.bench_function(BenchmarkId::from_parameter(nodes), |bencher| {
            bencher.iter(|| {
                now = now + Span::from_micros(1);
                let placement = list.place(now, &request, Strategy::Spread, &[])?;
                let id = list.reserve(now, placement.key, &request)?;
                // Taken back, so that the list does not fill up while it is measured.
                Some(list.cancel(now, placement.key, id))
            });
        });
    }
    group.finish();
}

criterion_group!(benches, place, take_report, place_and_reserve);
criterion_main!(benches);
