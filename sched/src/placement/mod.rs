//! The master's side of placement: which node gets the new container (paper 000, Algorithm 2, master).
//!
//! Problem: a master hears from every GPU about once a second, and has to answer within microseconds
//! which of 100,000 suits a container, although what it heard is old by then: going to the best of
//! old reports sends everybody to the same node. Approach: the [`NodeList`] is kept sorted as reports
//! arrive, so that a placement never sorts, and each placement is reserved on a virtual clock of its
//! node until a report accounts for it. Units: microseconds and bytes.
//!
//! In reading order: `reservation` (the virtual clock), `list` (the node list), `blocks` and `index`
//! (how it stays sorted), `reason` and `explain` (why this node, why not that one).

mod blocks;
mod explain;
mod index;
mod list;
mod reason;
mod reservation;
#[cfg(test)]
mod stories;

use core::fmt;

use crate::time::Span;

pub use explain::{Explanation, Standing};
pub use list::NodeList;
pub use reason::{Bytes, Offer, Reason};
pub use reservation::ReservationId;

/// One GPU of one node. The caller keeps the names; numbers are quicker to compare and to store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// Which node.
    pub node: u32,
    /// Which of its GPUs.
    pub gpu: u8,
}

/// What a new container asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// How long its tasks may take. Without one it is background work: it takes nobody's float, so
    /// that any provisionable node with enough memory will do.
    pub deadline: Option<Span>,
    /// The GPU memory it needs, in bytes; 0 if nobody knows.
    pub memory: u64,
    /// How long its task will take. Unknown: its deadline is assumed.
    pub forecast: Option<Span>,
}

impl Request {
    /// The GPU time that it takes from the others on its node before its deadline.
    pub fn work(&self) -> Span {
        match self.deadline {
            Some(deadline) => self.forecast.unwrap_or(deadline).or_zero(),
            None => Span::ZERO,
        }
    }
}

/// How a node is chosen among those that fit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Strategy {
    /// The most float left after the placement; the tightest memory on ties.
    #[default]
    Spread,
    /// The paper's: the first by free GPU memory whose summed float exceeds the deadline.
    Memory,
    /// The paper's future work: the node whose float exceeds the deadline by least; the tightest
    /// memory on ties.
    BestFit,
}

impl Strategy {
    /// All of them, the default first.
    pub const ALL: [Strategy; 3] = [Strategy::Spread, Strategy::Memory, Strategy::BestFit];

    /// The one that goes by this name on the command line and in JSON.
    pub fn named(name: &str) -> Option<Strategy> {
        Strategy::ALL.into_iter().find(|strategy| strategy.name() == name)
    }

    /// Its name on the command line and in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Strategy::Spread => "spread",
            Strategy::Memory => "memory",
            Strategy::BestFit => "best-fit",
        }
    }

    /// A node must have more float than this for the request to fit.
    fn float_needed(self, request: &Request) -> i64 {
        match (self, request.deadline) {
            (_, None) => i64::MIN,
            (Strategy::Spread, Some(_)) => bounded(request.work()),
            (Strategy::Memory | Strategy::BestFit, Some(deadline)) => bounded(deadline),
        }
    }
}

impl fmt::Display for Strategy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// How the list deals with time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// A node that has not reported for this long is silent: it gets nothing until it reports again.
    pub silence_max: Span,
    /// How long a container takes to start: a report from before that does not account for it.
    pub starts_within: Span,
    /// How long a reservation lives if no report accounts for it: the container never came.
    pub reservation_life: Span,
}

impl Default for Settings {
    /// Three report periods of one second; twice the half second that Swarm took to start a container;
    /// longer than the 21 s that it took to give up on an unreachable registry.
    fn default() -> Settings {
        Settings {
            silence_max: Span::from_secs(3),
            starts_within: Span::from_secs(1),
            reservation_life: Span::from_secs(30),
        }
    }
}

/// Which node, and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placement {
    /// The GPU that was chosen.
    pub key: Key,
    /// Why.
    pub because: Reason,
}

/// The longest span that counts, about 35 years: sums of a few stay far from [`UNLIMITED`].
const SPAN_MAX: i64 = 1 << 50;

/// Unlimited float as a number, so that it takes part in orders and subtractions like any other.
const UNLIMITED: i64 = 1 << 60;

/// A span as a number that can be added and subtracted without care.
fn bounded(span: Span) -> i64 {
    span.as_micros().clamp(-SPAN_MAX, SPAN_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strategies_go_by_the_names_of_the_command_line() {
        for strategy in Strategy::ALL {
            assert_eq!(Strategy::named(strategy.name()), Some(strategy));
        }
        assert_eq!(Strategy::named("bestfit"), None);
        assert_eq!(Strategy::default(), Strategy::Spread);
    }

    #[test]
    fn unknown_work_is_the_whole_deadline_and_background_work_is_none() {
        let mut request = Request { deadline: Some(Span::from_secs(2)), memory: 0, forecast: None };
        assert_eq!(request.work(), Span::from_secs(2));
        request.forecast = Some(Span::from_secs(1));
        assert_eq!(request.work(), Span::from_secs(1));
        request.deadline = None;
        assert_eq!(request.work(), Span::ZERO);
    }
}
