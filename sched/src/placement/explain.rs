//! For people: the list in rank order, and for each node why it was chosen or why not.
//!
//! These look at every node and sort; a placement never comes this way.

use alloc::vec::Vec;
use core::cmp::Ordering;
use core::fmt;

use super::index::{Found, precedes};
use super::list::{Node, float_from};
use super::reason::Offer;
use super::{Key, NodeList, Placement, Reason, Request, Strategy};
use crate::node::{Float, State};
use crate::time::{Instant, Span};

/// One line of the node list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Standing {
    /// Which GPU.
    pub key: Key,
    /// What the node says of itself.
    pub state: State,
    /// Whether the strategy may use it: it says so and is not silent.
    pub provisionable: bool,
    /// Free GPU memory, less what is reserved, in bytes.
    pub memory_free: u64,
    /// The float that the strategy goes by, less the backlog.
    pub float: Float,
    /// How old its report is.
    pub age: Span,
}

/// A placement, told in full.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explanation {
    /// Where it would go.
    pub placement: Option<Placement>,
    /// Every node in rank order: chosen, or why not.
    pub nodes: Vec<(Key, Reason)>,
}

impl fmt::Display for Explanation {
    /// Why the chosen one, or how many nodes do not fit for which kind of reason.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(placement) = &self.placement {
            return placement.because.fmt(f);
        }
        if self.nodes.is_empty() {
            return f.write_str("no node reports");
        }
        f.write_str("no node fits: ")?;
        let count = |kind| self.nodes.iter().filter(|(_, reason)| kind_of(reason) == Some(kind)).count();
        let counted = KINDS.map(|kind| (count(kind), kind));
        for (position, (count, kind)) in counted.into_iter().filter(|(count, _)| *count > 0).enumerate() {
            write!(f, "{}{count} {kind}", if position > 0 { ", " } else { "" })?;
        }
        Ok(())
    }
}

/// Why nodes do not fit, in a summary, in the order in which something can be done about it.
const KINDS: [&str; 5] =
    ["with too little float", "with too little GPU memory", "not provisionable", "silent", "that refused"];

fn kind_of(reason: &Reason) -> Option<&'static str> {
    let position = match reason {
        Reason::LittleFloat { .. } => 0,
        Reason::LittleMemory { .. } => 1,
        Reason::Missed | Reason::MemoryFull | Reason::CoreFull => 2,
        Reason::Silent { .. } => 3,
        Reason::Refused => 4,
        _ => return None,
    };
    Some(KINDS[position])
}

impl NodeList {
    /// Every node, the strategy's favourite first; those it may not use come last.
    pub fn ranked(&mut self, now: Instant, strategy: Strategy) -> Vec<Standing> {
        self.advance(now);
        let (now, settings) = (self.now(), self.settings());
        let standing = |(key, node): (Key, &Node)| Standing {
            key,
            state: node.report.state,
            provisionable: !node.is_silent(now, settings) && barred(node.report.state, strategy).is_none(),
            memory_free: node.memory_free(),
            float: float_from(node.float(now, strategy)),
            age: now.since(node.taken),
        };
        let mut ranked: Vec<(Found, Standing)> = self
            .nodes()
            .map(|(key, node)| (found(key, node, now, strategy), standing((key, node))))
            .collect();
        ranked.sort_unstable_by(|(one, one_standing), (other, other_standing)| {
            let order = if precedes(strategy, one, other) { Ordering::Less } else { Ordering::Greater };
            other_standing.provisionable.cmp(&one_standing.provisionable).then(order)
        });
        ranked.into_iter().map(|(_, standing)| standing).collect()
    }

    /// Where the request would go, and for every node why it was chosen or why not.
    pub fn explain(
        &mut self,
        now: Instant,
        request: &Request,
        strategy: Strategy,
        refused: &[Key],
    ) -> Explanation {
        let placement = self.place(now, request, strategy, refused);
        let ranked = self.ranked(now, strategy);
        let offer = |standing: &Standing| Offer { float: standing.float, memory_free: standing.memory_free };
        let chosen = placement.and_then(|placed| ranked.iter().find(|standing| standing.key == placed.key));
        let why = |standing: &Standing| match placement {
            Some(placed) if placed.key == standing.key => placed.because,
            _ if refused.contains(&standing.key) => Reason::Refused,
            _ => unfit(standing, request, strategy).unwrap_or(Reason::Outranked {
                strategy,
                offer: offer(standing),
                chosen: offer(chosen.unwrap_or(standing)),
            }),
        };
        Explanation {
            placement,
            nodes: ranked.iter().map(|standing| (standing.key, why(standing))).collect(),
        }
    }
}

fn found(key: Key, node: &Node, now: Instant, strategy: Strategy) -> Found {
    let memory = i64::try_from(node.memory_free()).unwrap_or(i64::MAX);
    Found { key, float: node.float(now, strategy), memory }
}

/// Why the strategy may not use a node that says this of itself.
fn barred(state: State, strategy: Strategy) -> Option<Reason> {
    if state.missed {
        Some(Reason::Missed)
    } else if state.memory_full {
        Some(Reason::MemoryFull)
    } else if state.core_full && strategy == Strategy::Memory {
        Some(Reason::CoreFull)
    } else {
        None
    }
}

/// Why the request does not fit there.
fn unfit(standing: &Standing, request: &Request, strategy: Strategy) -> Option<Reason> {
    if let Some(reason) = barred(standing.state, strategy) {
        return Some(reason);
    }
    if !standing.provisionable {
        return Some(Reason::Silent { age: standing.age });
    }
    let Standing { memory_free: free, float, .. } = *standing;
    if free < request.memory {
        return Some(Reason::LittleMemory { free, needed: request.memory });
    }
    let needed = Span::from_micros(strategy.float_needed(request));
    (float <= Float::Limited(needed)).then_some(Reason::LittleFloat { float, needed })
}
