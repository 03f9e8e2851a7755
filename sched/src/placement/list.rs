//! The node list: every GPU that reports, kept sorted as reports arrive.
//!
//! Effective float = min(reported float, deadlines of the reservations) − backlog, and effective
//! memory = reported − reserved. Both change when a report arrives, when a reservation is made or
//! ends, and when a node falls silent: only then does a node move in the [`Index`]. What happens by the
//! mere passing of time waits in `wakes`, and is caught up with by [`NodeList::advance`]; there is no
//! timer in here. A wake may come early and find nothing to do, so that a report, which only ever
//! postpones silence, does not have to move its node's wake.

use alloc::collections::{BTreeMap, BTreeSet};

use super::index::{Found, Index, Needs, Spot};
use super::reservation::Reservations;
use super::{Key, Placement, Reason, Request, ReservationId, Settings, Strategy, UNLIMITED, bounded};
use crate::node::{Float, Report};
use crate::time::{Instant, Span};

/// Every GPU that reports.
#[derive(Clone, Debug, Default)]
pub struct NodeList {
    settings: Settings,
    /// As late as anyone has said it is. Time that jumps back stands still here.
    now: Instant,
    nodes: BTreeMap<Key, Node>,
    index: Index,
    wakes: BTreeSet<(Instant, Key)>,
    reservations_made: u64,
}

/// One GPU, as the master knows it.
#[derive(Clone, Debug)]
pub(super) struct Node {
    pub(super) report: Report,
    pub(super) taken: Instant,
    /// Its next report counts whatever its sequence.
    rejoins: bool,
    pub(super) reservations: Reservations,
    spot: Option<Spot>,
    wakes_at: Option<Instant>,
}

impl NodeList {
    /// An empty list.
    pub fn new(settings: Settings) -> NodeList {
        NodeList { settings, ..NodeList::default() }
    }

    /// Takes in a report; `taken` is when it was taken, on the master's clock (when it arrived, if
    /// nothing better is known). False if a newer one has overtaken it, which changes nothing.
    pub fn report(&mut self, now: Instant, key: Key, taken: Instant, report: Report) -> bool {
        self.advance(now);
        match self.nodes.get_mut(&key) {
            Some(node) if !node.rejoins && report.sequence <= node.report.sequence => return false,
            Some(node) => {
                node.report = report;
                node.taken = taken;
                node.rejoins = false;
                node.reservations.accounted(taken, &self.settings);
            }
            None => {
                self.nodes.insert(key, Node::new(report, taken));
            }
        }
        self.refresh(key);
        true
    }

    /// The node's agent has started anew and counts its reports from the beginning. What is reserved
    /// there stays reserved: its containers may have outlived the agent.
    pub fn rejoin(&mut self, key: Key) {
        if let Some(node) = self.nodes.get_mut(&key) {
            node.rejoins = true;
        }
    }

    /// Forgets a node and everything reserved there. False if it was not known.
    pub fn remove(&mut self, key: Key) -> bool {
        let Some(node) = self.nodes.remove(&key) else { return false };
        self.index.shift(key, node.spot, None);
        if let Some(at) = node.wakes_at {
            self.wakes.remove(&(at, key));
        }
        true
    }

    /// The best node for the request, passing over those in `refused`: on a worker's refusal, add it
    /// there and ask again, and the next of the list comes. Nothing is reserved yet.
    pub fn place(
        &mut self,
        now: Instant,
        request: &Request,
        strategy: Strategy,
        refused: &[Key],
    ) -> Option<Placement> {
        self.advance(now);
        let needs = Needs {
            float: strategy.float_needed(request),
            memory: memory_number(request.memory),
            skip: refused,
        };
        let found = self.index.find(self.now, strategy, &needs)?;
        Some(Placement { key: found.key, because: chosen(strategy, request, &found) })
    }

    /// Counts the request as placed there until a report accounts for it. None if the node is unknown.
    pub fn reserve(&mut self, now: Instant, key: Key, request: &Request) -> Option<ReservationId> {
        self.advance(now);
        let node = self.nodes.get_mut(&key)?;
        self.reservations_made += 1;
        let id = ReservationId(self.reservations_made);
        node.reservations.add(self.now, id, request);
        self.refresh(key);
        Some(id)
    }

    /// Takes a reservation back: the worker refused, or the container did not start. False if it was
    /// gone already.
    pub fn cancel(&mut self, now: Instant, key: Key, id: ReservationId) -> bool {
        self.advance(now);
        let known = self.nodes.get_mut(&key).is_some_and(|node| node.reservations.cancel(id));
        if known {
            self.refresh(key);
        }
        known
    }

    /// Catches up with time: clocks that ran out, reservations that expired, nodes that fell silent.
    /// Everything else here calls it first; an idle master may call it to spread the work.
    pub fn advance(&mut self, now: Instant) {
        self.now = self.now.max(now);
        while let Some(&(at, key)) = self.wakes.first()
            && at <= self.now
        {
            self.wakes.pop_first();
            if let Some(node) = self.nodes.get_mut(&key) {
                node.wakes_at = None;
            }
            self.refresh(key);
        }
    }

    /// How many GPUs are known, the silent included.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Whether no GPU is known.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    pub(super) fn now(&self) -> Instant {
        self.now
    }

    pub(super) fn nodes(&self) -> impl Iterator<Item = (Key, &Node)> {
        self.nodes.iter().map(|(key, node)| (*key, node))
    }

    pub(super) fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Puts a node where it now belongs, and sees to its next wake.
    fn refresh(&mut self, key: Key) {
        let Some(node) = self.nodes.get_mut(&key) else { return };
        node.reservations.expire(self.now, &self.settings);
        let spot = node.spot_at(self.now, &self.settings);
        self.index.shift(key, node.spot, spot);
        node.spot = spot;
        let Some(wake) = node.next_wake(self.now, &self.settings) else { return };
        if node.wakes_at.is_none_or(|at| wake < at) {
            if let Some(at) = node.wakes_at {
                self.wakes.remove(&(at, key));
            }
            self.wakes.insert((wake, key));
            node.wakes_at = Some(wake);
        }
    }
}

impl Node {
    fn new(report: Report, taken: Instant) -> Node {
        let reservations = Reservations::default();
        Node { report, taken, rejoins: false, reservations, spot: None, wakes_at: None }
    }

    pub(super) fn is_silent(&self, now: Instant, settings: &Settings) -> bool {
        now.since(self.taken) >= settings.silence_max
    }

    /// The float that counts for a strategy.
    pub(super) fn float(&self, now: Instant, strategy: Strategy) -> i64 {
        let reported = match strategy {
            Strategy::Memory => self.report.float_sum,
            Strategy::Spread | Strategy::BestFit => self.report.float_least,
        };
        self.float_before_backlog(reported) - self.backlog(now).as_micros()
    }

    /// Free GPU memory, less what is reserved.
    pub(super) fn memory_free(&self) -> u64 {
        self.report.memory_free.saturating_sub(self.reservations.memory())
    }

    fn backlog(&self, now: Instant) -> Span {
        self.reservations.busy_until().since(now).or_zero()
    }

    fn float_before_backlog(&self, reported: Float) -> i64 {
        float_number(reported).min(self.reservations.deadline_least())
    }

    /// None if no strategy may use the node.
    fn spot_at(&self, now: Instant, settings: &Settings) -> Option<Spot> {
        let state = self.report.state;
        if self.is_silent(now, settings) || !state.provisionable_when_busy() {
            return None;
        }
        let busy_until = self.reservations.busy_until();
        let busy = busy_until > now;
        let clock = if busy { busy_until.as_micros().cast_signed() } else { 0 };
        let rank = |reported| self.float_before_backlog(reported) - clock;
        Some(Spot {
            busy,
            float_least: rank(self.report.float_least),
            float_sum: state.provisionable().then(|| rank(self.report.float_sum)),
            memory: memory_number(self.memory_free()),
        })
    }

    /// When time alone will next change its spot.
    fn next_wake(&self, now: Instant, settings: &Settings) -> Option<Instant> {
        let clock_runs_out = Some(self.reservations.busy_until());
        let expiry = self.reservations.next_expiry(settings);
        let silence = Some(self.taken + settings.silence_max);
        [clock_runs_out, expiry, silence].into_iter().flatten().filter(|at| *at > now).min()
    }
}

fn chosen(strategy: Strategy, request: &Request, found: &Found) -> Reason {
    match strategy {
        Strategy::Spread => Reason::MostFloatLeft { left: float_from(found.float - bounded(request.work())) },
        Strategy::BestFit => Reason::NearestFloat { float: float_from(found.float) },
        Strategy::Memory => Reason::MostMemory { memory_free: found.memory.cast_unsigned() },
    }
}

fn float_number(float: Float) -> i64 {
    match float {
        Float::Limited(span) => bounded(span),
        Float::Unlimited => UNLIMITED,
    }
}

/// Unlimited float less a backlog is still unlimited; no limited float comes near it.
pub(super) fn float_from(number: i64) -> Float {
    if number > UNLIMITED / 2 { Float::Unlimited } else { Float::Limited(Span::from_micros(number)) }
}

fn memory_number(memory: u64) -> i64 {
    i64::try_from(memory).unwrap_or(i64::MAX)
}
