//! What no scheduler can exceed, however much it knows: the yardstick for every policy.
//!
//! Problem: the most deadlines that can be met, with arrivals over time, is intractable for a thousand
//! tasks once launches, copies and gates are real. A bound must still be below no policy's result.
//!
//! Approach: a relaxation. Run times are known, switching is free, kernels can be cut anywhere, copies
//! and host work of different tasks do not disturb each other; what is left is one GPU that does one
//! thing at a time. Of the tasks that become ready at `a` or later and are due by `b`, some must miss if
//! their work exceeds what fits. How many at least is what earliest-deadline-first with dropping the
//! longest (Moore and Hodgson) says if all were ready at `a`. Such sets of tasks are disjoint for
//! intervals that do not overlap, so their misses add up, and the best chain of intervals is the bound.
//! It is zero exactly if preemptive earliest-deadline-first meets all deadlines.

use crate::workload::{TaskSpec, Workload};
use sched::{Mode, Span};
use std::collections::BinaryHeap;

/// Beyond this many tasks in one busy period, only some of their moments are tried as the start of an
/// interval. That can only loosen the bound.
const STARTS_MAX: usize = 2_000;

/// The best that could be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bound {
    /// Share of the tasks with a deadline that could meet it; none if none has one.
    pub hit_rate: Option<f64>,
    /// From the first arrival to the last end.
    pub makespan: Span,
}

/// What one task needs of the GPU, in microseconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Need {
    pub ready: i64,
    pub work: i64,
    /// When its work on the GPU must be done.
    pub due: Option<i64>,
    /// What follows after that.
    pub tail: i64,
}

impl Need {
    fn of(task: &TaskSpec) -> Need {
        let tail = task.phases.output;
        Need {
            ready: (task.arrives + task.phases.before()).as_micros(),
            work: task.phases.work().as_micros(),
            // A server's deadline is each request's; that it could meet them all is the least one can say.
            due: Some(task)
                .filter(|task| task.mode == Mode::Process)
                .and_then(|task| Some((task.arrives + task.deadline? - tail).as_micros())),
            tail: tail.as_micros(),
        }
    }
}

/// The bound for a workload.
pub fn bound(workload: &Workload) -> Bound {
    let first = workload.tasks.iter().map(|task| task.arrives).min().unwrap_or_default();
    let (mut last, mut misses) = (first, 0);
    for gpu in 0..workload.gpus.len() {
        let of_gpu = workload.tasks.iter().filter(|task| task.gpu == gpu);
        let needs: Vec<Need> = of_gpu.map(Need::of).collect();
        last = last.max(Span::from_micros(makespan(&needs)));
        // Nobody is done before it would be alone, thinking included.
        let alone = workload.tasks.iter().filter(|task| task.gpu == gpu);
        last = alone.map(|task| task.arrives + task.phases.solo()).fold(last, Span::max);
        misses += misses_at_least(&needs);
    }
    let with_deadline = workload.tasks.iter().filter(|task| task.deadline.is_some()).count();
    let hit_rate = (with_deadline > 0).then(|| (with_deadline - misses) as f64 / with_deadline as f64);
    Bound { hit_rate, makespan: last - first }
}

/// How many deadlines must be missed, whatever is done.
pub(crate) fn misses_at_least(needs: &[Need]) -> usize {
    let mut dated: Vec<(i64, i64, i64)> =
        needs.iter().filter_map(|need| Some((need.ready, need.work, need.due?))).collect();
    // Who could not make it even alone is a miss whatever is done, and is nobody's overload.
    let before = dated.len();
    dated.retain(|(ready, work, due)| due - ready >= *work);
    let mut total = before - dated.len();
    dated.sort_unstable();
    let mut from = 0;
    let mut busy_until = i64::MIN;
    for index in 0..=dated.len() {
        let idle = dated.get(index).is_none_or(|(ready, ..)| *ready >= busy_until);
        if idle {
            total += misses_of_busy_period(&dated[from..index]);
            from = index;
        }
        if let Some((ready, work, _)) = dated.get(index) {
            busy_until = busy_until.max(*ready) + work;
        }
    }
    total
}

/// The best chain of intervals within one busy period; tasks sorted by when they are ready.
fn misses_of_busy_period(tasks: &[(i64, i64, i64)]) -> usize {
    let mut by_due = tasks.to_vec();
    by_due.sort_unstable_by_key(|(ready, _, due)| (*due, *ready));
    // What a chain that ends by each due can reach.
    let mut reached = vec![0; by_due.len()];
    let stride = tasks.len().div_ceil(STARTS_MAX).max(1);
    for (start, ..) in tasks.iter().step_by(stride) {
        let ended_before = by_due.partition_point(|(.., due)| due <= start);
        let so_far = reached[..ended_before].iter().copied().max().unwrap_or(0);
        let (mut work, mut dropped) = (0, 0);
        let mut kept = BinaryHeap::new();
        for (index, (ready, length, due)) in by_due.iter().enumerate() {
            if ready >= start {
                work += length;
                kept.push(*length);
                if work > due - start {
                    work -= kept.pop().unwrap_or(0);
                    dropped += 1;
                }
            }
            reached[index] = reached[index].max(so_far + dropped);
        }
    }
    reached.into_iter().max().unwrap_or(0)
}

/// The earliest last end: whoever has the longest tail goes first (Jackson's rule, preemptive).
fn makespan(needs: &[Need]) -> i64 {
    let mut needs = needs.to_vec();
    needs.sort_unstable_by_key(|need| need.ready);
    let mut waiting: BinaryHeap<(i64, i64)> = BinaryHeap::new();
    let (mut now, mut last, mut next) = (0, 0, 0);
    while next < needs.len() || !waiting.is_empty() {
        if waiting.is_empty() {
            now = now.max(needs[next].ready);
        }
        while next < needs.len() && needs[next].ready <= now {
            waiting.push((needs[next].tail, needs[next].work));
            next += 1;
        }
        let Some((tail, work)) = waiting.pop() else { continue };
        let until = needs.get(next).map_or(i64::MAX, |need| need.ready);
        let done = work.min(until - now);
        now += done;
        if done < work {
            waiting.push((tail, work - done));
        } else {
            last = last.max(now + tail);
        }
    }
    last
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::luck::{Luck, Purpose};
    use rand::RngExt;

    fn need(ready: i64, work: i64, due: i64) -> Need {
        Need { ready, work, due: Some(due), tail: 0 }
    }

    #[test]
    fn what_fits_is_not_said_to_miss() {
        assert_eq!(misses_at_least(&[need(0, 10, 20), need(0, 10, 10), need(50, 10, 60)]), 0);
    }

    #[test]
    fn two_overloads_apart_from_each_other_add_up() {
        let tasks = [need(0, 10, 10), need(0, 10, 12), need(10, 10, 20), need(11, 10, 22), need(5, 30, 90)];
        assert_eq!(misses_at_least(&tasks), 2);
    }

    /// The truth for a handful of tasks: the largest set that preemptive earliest-deadline-first meets.
    fn oracle(needs: &[Need]) -> usize {
        let sets = 0..1_u32 << needs.len();
        let members =
            |set: u32| needs.iter().enumerate().filter(move |(i, _)| set >> i & 1 == 1).map(|(_, n)| *n);
        let feasible = sets.filter(|set| preemptive_edf_meets_all(members(*set).collect()));
        needs.len() - feasible.map(u32::count_ones).max().unwrap_or(0) as usize
    }

    fn preemptive_edf_meets_all(mut needs: Vec<Need>) -> bool {
        let mut now = 0;
        while !needs.is_empty() {
            let ready = needs.iter_mut().filter(|need| need.ready <= now).min_by_key(|need| need.due);
            match ready {
                Some(first) => first.work -= 1,
                None => {
                    now = needs.iter().map(|need| need.ready).min().unwrap_or(now);
                    continue;
                }
            }
            now += 1;
            if needs.iter().any(|need| need.work == 0 && need.due < Some(now)) {
                return false;
            }
            needs.retain(|need| need.work > 0);
        }
        true
    }

    #[test]
    fn the_bound_never_promises_less_than_brute_force_finds() {
        let mut luck = Luck(7).stream(Purpose::Shape);
        let (mut exact, mut total) = (0, 0);
        for _ in 0..3_000 {
            let count = luck.random_range(1..=6);
            let needs: Vec<Need> = (0..count)
                .map(|_| {
                    let (ready, work) = (luck.random_range(0..20), luck.random_range(1..10));
                    need(ready, work, ready + luck.random_range(-3..20))
                })
                .collect();
            let (bound, truth) = (misses_at_least(&needs), oracle(&needs));
            assert!(bound <= truth, "{needs:?}: at least {bound}, really {truth}");
            assert_eq!(bound == 0, truth == 0, "{needs:?}");
            exact += usize::from(bound == truth);
            total += 1;
        }
        println!("the bound is exact for {exact} of {total} sets of up to six tasks");
        assert!(exact * 10 > total * 8, "the bound is too loose to judge by");
    }

    #[test]
    fn who_could_not_make_it_alone_takes_nobody_with_it() {
        assert_eq!(misses_at_least(&[need(100, 10, 50), need(100, 10, 60), need(100, 10, 900)]), 2);
    }

    #[test]
    fn the_longest_tail_goes_first() {
        let tasks = [Need { tail: 50, ..need(0, 10, 0) }, Need { tail: 0, ..need(0, 10, 0) }];
        assert_eq!(makespan(&tasks), 60);
    }
}
