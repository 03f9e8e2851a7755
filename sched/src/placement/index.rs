//! The orders in which nodes are searched, one search per strategy.
//!
//! Problem: a node with reservations gains float by the microsecond, as its virtual clock is worked
//! off, so that its place in the order would change all the time. Approach: two groups. Among *busy*
//! nodes float grows equally fast for all, so that they are sorted by float − `busy_until`, which stands
//! still; `now` is added when it is asked for. *Calm* nodes are sorted by float itself. A node changes
//! groups when its clock runs out. Each group is sorted by float (to find memory) and by memory (to
//! find float). Both groups are searched, and the better of two finds wins.

use core::cmp::Reverse;

use super::blocks::{Entry, SortedBlocks};
use super::{Key, Strategy};
use crate::time::Instant;

/// Where a node stands in the orders.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Spot {
    /// Whether its virtual clock is ahead of time.
    pub(super) busy: bool,
    /// Its least float; less `busy_until` if it is busy.
    pub(super) float_least: i64,
    /// Its summed float, likewise; none if strategy `memory` may not use it.
    pub(super) float_sum: Option<i64>,
    /// Free GPU memory, less what is reserved.
    pub(super) memory: i64,
}

/// A node that fits, with its float as of now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) key: Key,
    pub(super) float: i64,
    pub(super) memory: i64,
}

/// What a node must have: more float than this, and at least this much memory.
#[derive(Clone, Copy, Debug)]
pub(super) struct Needs<'a> {
    pub(super) float: i64,
    pub(super) memory: i64,
    pub(super) skip: &'a [Key],
}

/// All candidates, sorted.
#[derive(Clone, Debug, Default)]
pub(super) struct Index {
    calm: Group,
    busy: Group,
}

impl Index {
    /// Moves a node from one spot to another; none is outside.
    pub(super) fn shift(&mut self, key: Key, from: Option<Spot>, to: Option<Spot>) {
        let by_float = |spot: Spot| Entry { rank: spot.float_least, value: spot.memory, key };
        let by_memory = |spot: Spot| Some(Entry { rank: -spot.memory, value: spot.float_sum?, key });
        for (group, busy) in [(&mut self.calm, false), (&mut self.busy, true)] {
            let (from, to) = (from.filter(|spot| spot.busy == busy), to.filter(|spot| spot.busy == busy));
            exchange(&mut group.by_float, from.map(by_float), to.map(by_float));
            exchange(&mut group.by_memory, from.and_then(by_memory), to.and_then(by_memory));
        }
    }

    /// The node that the strategy prefers among those that fit.
    pub(super) fn find(&self, now: Instant, strategy: Strategy, needs: &Needs) -> Option<Found> {
        let calm = self.calm.find(0, strategy, needs);
        let busy = self.busy.find(now.as_micros().cast_signed(), strategy, needs);
        let (Some(one), Some(other)) = (calm, busy) else { return calm.or(busy) };
        Some(if precedes(strategy, &one, &other) { one } else { other })
    }
}

/// Whether the strategy prefers the one to the other, where both fit. It never takes them for equal,
/// so that the same list always gives the same answer.
pub(super) fn precedes(strategy: Strategy, one: &Found, other: &Found) -> bool {
    let tight = |found: &Found| (found.memory, found.key);
    match strategy {
        Strategy::Spread => (Reverse(one.float), tight(one)) < (Reverse(other.float), tight(other)),
        Strategy::BestFit => (one.float, tight(one)) < (other.float, tight(other)),
        // The paper says nothing of ties; the least float leaves the most for those who need it.
        Strategy::Memory => {
            (Reverse(one.memory), one.float, one.key) < (Reverse(other.memory), other.float, other.key)
        }
    }
}

/// One group of nodes in both orders.
#[derive(Clone, Debug, Default)]
struct Group {
    /// By least float, ascending; the value is memory.
    by_float: SortedBlocks,
    /// By memory, descending; the value is summed float.
    by_memory: SortedBlocks,
}

impl Group {
    /// `elapsed` is what float has gained on the rank: `now` for the busy, nothing for the calm.
    fn find(&self, elapsed: i64, strategy: Strategy, needs: &Needs) -> Option<Found> {
        let float_least = needs.float.saturating_sub(elapsed).saturating_add(1);
        let by_float =
            |entry: Entry| Found { key: entry.key, float: entry.rank + elapsed, memory: entry.value };
        match strategy {
            Strategy::Spread => {
                let most = self.by_float.last_with(needs.memory, needs.skip)?;
                if most.rank < float_least {
                    return None;
                }
                // The order is ascending, so that the first of those with this float is the tightest.
                self.by_float.first_from(most.rank, needs.memory, needs.skip).map(by_float)
            }
            Strategy::BestFit => {
                self.by_float.first_from(float_least, needs.memory, needs.skip).map(by_float)
            }
            Strategy::Memory => {
                let most = self.by_memory.first_from(i64::MIN, float_least, needs.skip)?;
                let found = Found { key: most.key, float: most.value + elapsed, memory: -most.rank };
                (found.memory >= needs.memory).then_some(found)
            }
        }
    }
}

/// A report that changes nothing, which is most of them on an idle node, costs nothing.
fn exchange(order: &mut SortedBlocks, from: Option<Entry>, to: Option<Entry>) {
    if from == to {
        return;
    }
    if let Some(entry) = from {
        order.remove(&entry);
    }
    if let Some(entry) = to {
        order.insert(entry);
    }
}
