//! The worker's side of placement: what one GPU of one node tells the master.
//!
//! Problem: the master must know who can take another container, without seeing every task of every
//! node. Approach: the node judges itself (paper 000, Algorithm 2, worker) and sends only the verdict,
//! its free GPU memory and two floats. Units: microseconds, bytes, thousandths.
//!
//! A report fits the paper's 16 bytes: one byte of flags (the three of [`State`], the rest is the
//! layout's version), one for the GPU, two for the lowest bits of the sequence (the receiver widens
//! them, since reports on one connection never run 32,768 apart), four for free memory in MiB, and four
//! for each float in milliseconds, rounded down, with the greatest value for [`Float::Unlimited`].

use crate::fact::{GpuId, Reading};
use crate::time::Span;
use crate::tracker::{Container, Tracker};
use alloc::vec::Vec;
use core::fmt;

/// A GPU core that is this busy, in thousandths, has nothing left over: 100 %, as in the paper.
pub const CORE_FULL_PERMILLE: u16 = 1000;

/// What the node knows of one of its containers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Resident {
    /// How long each of its tasks may take. Without one it has no float to lose and does not count.
    pub deadline: Option<Span>,
    /// How long its current or next task will take. Unknown: its deadline is assumed, so that the node
    /// promises nothing on behalf of a container that nobody has seen run.
    pub forecast: Option<Span>,
    /// What was left of the deadline when its latest finished task ended.
    pub latest_float: Option<Span>,
    /// Whether its latest task, running or finished, missed.
    pub missed: bool,
}

impl Resident {
    /// Deadline − forecast: the delay it can bear. None if it has no deadline.
    pub fn float(&self) -> Option<Span> {
        let deadline = self.deadline?;
        Some(deadline - self.forecast.unwrap_or(deadline))
    }
}

/// Why a node takes no more containers; all false on a node that does.
///
/// Three facts instead of the paper's one bit, because strategies differ on the third: a core at 100 %
/// bars every node that trains, so only strategy `memory` minds it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct State {
    /// The latest task of one of its containers missed.
    pub missed: bool,
    /// GPU memory is at 100 %.
    pub memory_full: bool,
    /// The GPU core is at 100 %.
    pub core_full: bool,
}

impl State {
    /// The paper's word: no miss, no full memory, no full core.
    pub fn provisionable(self) -> bool {
        self.provisionable_when_busy() && !self.core_full
    }

    /// Leeway's word: a busy core does not matter where float is what counts.
    pub fn provisionable_when_busy(self) -> bool {
        !self.missed && !self.memory_full
    }
}

/// How much delay a node can bear.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Float {
    /// This much, before a deadline is missed.
    Limited(Span),
    /// Any: nobody there has a deadline. The paper's sum is 0 then, and an idle node is never chosen.
    Unlimited,
}

impl fmt::Display for Float {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Float::Limited(span) => span.fmt(f),
            Float::Unlimited => f.write_str("unlimited"),
        }
    }
}

/// What one GPU of one node tells the master.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Report {
    /// Counts up, so that a report overtaken by a newer one is recognised.
    pub sequence: u64,
    /// Whether the node takes another container, and if not, why.
    pub state: State,
    /// GPU memory nobody uses, in bytes.
    pub memory_free: u64,
    /// The sum of the floats of its containers' latest finished tasks (paper 000).
    pub float_sum: Float,
    /// The least of (deadline − forecast) over its containers: what a newcomer may really use up.
    pub float_least: Float,
}

/// The containers that use a GPU, or used it last.
pub fn residents(tracker: &Tracker, gpu: GpuId) -> Vec<Resident> {
    let here = tracker.containers().filter(|(_, container)| container.gpu == Some(gpu));
    here.map(|(_, container)| Resident::from(container)).collect()
}

impl From<&Container> for Resident {
    fn from(container: &Container) -> Resident {
        let forecast = container.forecast();
        Resident {
            deadline: container.terms.deadline.map(|deadline| deadline.span()),
            forecast: forecast.is_known().then_some(forecast.upper),
            latest_float: container.latest_float,
            missed: container.latest.is_some_and(|latest| latest.missed),
        }
    }
}

/// The report of a GPU with these containers on it.
pub fn report(sequence: u64, reading: &Reading, residents: &[Resident]) -> Report {
    let state = State {
        missed: residents.iter().any(|resident| resident.missed),
        memory_full: reading.memory_used >= reading.memory_total,
        core_full: reading.core_permille >= CORE_FULL_PERMILLE,
    };
    Report {
        sequence,
        state,
        memory_free: reading.memory_total.saturating_sub(reading.memory_used),
        float_sum: float_sum(residents),
        float_least: float_least(residents),
    }
}

/// A container whose first task still runs adds nothing yet, as in the paper.
fn float_sum(residents: &[Resident]) -> Float {
    let mut bound = residents.iter().filter(|resident| resident.deadline.is_some()).peekable();
    if bound.peek().is_none() {
        return Float::Unlimited;
    }
    Float::Limited(bound.filter_map(|resident| resident.latest_float).sum())
}

fn float_least(residents: &[Resident]) -> Float {
    let least = residents.iter().filter_map(Resident::float).min();
    least.map_or(Float::Unlimited, Float::Limited)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fact::{ContainerId, Fact};
    use crate::node_under_test::*;
    use crate::task::Mode;
    use alloc::string::ToString;

    const QUIET: Reading = Reading { core_permille: 300, memory_used: 4, memory_total: 24 };

    fn resident(deadline: i64, forecast: i64, latest_float: i64) -> Resident {
        Resident {
            deadline: Some(Span::from_secs(deadline)),
            forecast: Some(Span::from_secs(forecast)),
            latest_float: Some(Span::from_secs(latest_float)),
            missed: false,
        }
    }

    #[test]
    fn an_idle_node_has_unlimited_float() {
        let idle = report(1, &QUIET, &[]);
        assert!(idle.state.provisionable());
        assert_eq!((idle.float_sum, idle.float_least), (Float::Unlimited, Float::Unlimited));
        assert_eq!(idle.memory_free, 20);
        let background = Resident::default();
        assert_eq!(report(2, &QUIET, &[background]).float_least, Float::Unlimited);
    }

    #[test]
    fn floats_are_summed_for_the_paper_and_the_least_is_kept_for_us() {
        let busy = report(1, &QUIET, &[resident(9, 4, 3), resident(5, 3, 1)]);
        assert_eq!(busy.float_sum, Float::Limited(Span::from_secs(4)));
        assert_eq!(busy.float_least, Float::Limited(Span::from_secs(2)));
    }

    #[test]
    fn a_container_nobody_has_seen_run_leaves_no_float() {
        let unknown = Resident { deadline: Some(Span::from_secs(2)), ..Resident::default() };
        let first = report(1, &QUIET, &[unknown]);
        assert_eq!(first.float_least, Float::Limited(Span::ZERO));
        assert_eq!(first.float_sum, Float::Limited(Span::ZERO));
    }

    #[test]
    fn a_miss_a_full_core_or_full_memory_bars_the_node() {
        let late = Resident { missed: true, ..resident(2, 1, 1) };
        assert!(!report(1, &QUIET, &[late]).state.provisionable_when_busy());
        let full = Reading { memory_used: 24, ..QUIET };
        assert!(!report(1, &full, &[]).state.provisionable_when_busy());
        let training = report(1, &Reading { core_permille: CORE_FULL_PERMILLE, ..QUIET }, &[]).state;
        assert!(!training.provisionable() && training.provisionable_when_busy());
    }

    #[test]
    fn a_container_is_a_resident_of_the_gpu_of_its_latest_task() {
        let mut watch = Watch::new();
        watch.hears(0, on_terms(1, terms(Mode::Process, 100)));
        watch.hears(0, on_terms(2, terms(Mode::Process, 0)));
        assert!(residents(&watch.tracker, GPU).is_empty());
        watch.hears(0, arrives(1, 1));
        let first_run = Resident { deadline: Some(ms(100)), ..Resident::default() };
        assert_eq!(residents(&watch.tracker, GPU), [first_run]);
        watch.hears(40, exits(1));
        // One run of 40 ms: the upper forecast is half as much again.
        let measured =
            Resident { forecast: Some(ms(60)), latest_float: Some(ms(60)), missed: false, ..first_run };
        assert_eq!(residents(&watch.tracker, GPU), [measured]);
        let other = GpuId(1);
        watch.hears(50, arrives_on(2, 1, other));
        assert!(residents(&watch.tracker, GPU).is_empty());
        assert_eq!(residents(&watch.tracker, other), [measured]);
        watch.hears(60, arrives(3, 2));
        assert_eq!(residents(&watch.tracker, GPU), [Resident::default()]);
    }

    #[test]
    fn a_resident_has_missed_from_the_moment_on_until_its_next_task() {
        let mut watch = Watch::new();
        watch.hears(0, on_terms(1, terms(Mode::Process, 100)));
        watch.hears(0, arrives(1, 1));
        let missed = |watch: &Watch| residents(&watch.tracker, GPU)[0].missed;
        watch.waits(100);
        assert!(!missed(&watch));
        watch.waits(101);
        assert!(missed(&watch));
        watch.hears(150, exits(1));
        assert!(missed(&watch));
        assert_eq!(residents(&watch.tracker, GPU)[0].latest_float, Some(ms(-50)));
        watch.hears(200, arrives(2, 1));
        assert!(!missed(&watch));
        assert_eq!(residents(&watch.tracker, GPU)[0].latest_float, Some(ms(-50)));
        watch.hears(250, Fact::ContainerGone(ContainerId(1)));
        assert!(residents(&watch.tracker, GPU).is_empty());
    }

    #[test]
    fn a_container_told_of_after_its_task_began_is_a_resident_too() {
        let mut watch = Watch::new();
        watch.hears(0, arrives(1, 1));
        assert!(residents(&watch.tracker, GPU).is_empty());
        watch.hears(10, on_terms(1, terms(Mode::Process, 100)));
        watch.waits(101);
        assert!(residents(&watch.tracker, GPU)[0].missed);
    }

    #[test]
    fn unlimited_is_more_than_any_float() {
        assert!(Float::Unlimited > Float::Limited(Span::MAX));
        assert_eq!(Float::Unlimited.to_string(), "unlimited");
        assert_eq!(Float::Limited(Span::from_millis(-250)).to_string(), "-250ms");
    }
}
