//! A placement among 500 times as many nodes must not take anywhere near 500 times as long.
//!
//! Only the ratio is asserted, since machines differ; the benchmark prints the times.

use std::hint::black_box;
use std::time::{Duration, Instant};

use sched::placement::{NodeList, Strategy};

mod crowd;
use crowd::{Ease, NOW, asking, crowd};

const FEW: u32 = 200;
const MANY: u32 = 100_000;
/// Measured: ten at most. Walking the list would be 500.
const RATIO_MAX: u32 = 50;
const PLACEMENTS: u32 = 2_000;
/// Another process may have the processor while we measure; it will not have it every time.
const TRIES: u32 = 5;

#[test]
fn a_long_list_does_not_take_long() {
    for strategy in Strategy::ALL {
        let (mut few, mut many) = (crowd(FEW, strategy), crowd(MANY, strategy));
        for ease in Ease::ALL {
            let ratio = (0..TRIES).find_map(|_| {
                let short = time(&mut few, FEW, strategy, ease).as_nanos().max(1);
                let long = time(&mut many, MANY, strategy, ease).as_nanos();
                println!(
                    "{strategy} {ease:?}: {} ns, then {} ns",
                    short / PLACEMENTS as u128,
                    long / PLACEMENTS as u128
                );
                (long <= short * RATIO_MAX as u128).then_some(long / short)
            });
            assert!(ratio.is_some(), "{strategy} {ease:?} takes more than {RATIO_MAX} times as long");
        }
    }
}

#[test]
fn the_crowd_is_as_hard_as_it_says() {
    for strategy in Strategy::ALL {
        let mut list = crowd(FEW, strategy);
        let mut place = |ease| list.place(NOW, &asking(ease, strategy, FEW), strategy, &[]);
        let last = if strategy == Strategy::Spread { 0 } else { FEW - 1 };
        assert!(place(Ease::First).is_some_and(|placement| placement.key.node != last));
        assert_eq!(place(Ease::Last).map(|placement| placement.key.node), Some(last));
        assert_eq!(place(Ease::None), None);
    }
}

fn time(list: &mut NodeList, nodes: u32, strategy: Strategy, ease: Ease) -> Duration {
    let request = asking(ease, strategy, nodes);
    let start = Instant::now();
    for _ in 0..PLACEMENTS {
        black_box(list.place(NOW, black_box(&request), strategy, &[]));
    }
    start.elapsed()
}
