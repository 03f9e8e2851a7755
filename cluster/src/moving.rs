//! When a service moves to another node, and where it never goes again.
//!
//! Three reasons: it missed again and again where it is, swarm has lost its node, or its node is drained. A service that
//! moved rests before it moves again, and one that left a node because it missed there never goes back: to and fro would
//! cost a start each time and help nobody. A node that swarm has lost may still run its containers; its agent stops those
//! that may move soon after it hears of no master any more, and only later are they placed again.

use crate::clock;
use crate::engine::View;
use crate::engine::swarm::{PlacedService, Swarm};
use crate::master::Master;
use crate::placing;
use sched::time::{Instant, Span};
use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use wire::cluster::PlaceWanted;
use wire::{bytes, duration, labels};

/// So many tasks in a row must miss before a service moves.
pub(crate) const MISSES_TO_MOVE: u32 = 3;
/// A service that moved because it missed stays at least this long.
pub(crate) const REST: Span = Span::from_secs(60);
/// A node that was lost has had this long to stop what it lost the right to run. Agents take at most two thirds of it.
pub(crate) const CUT_OFF: Span = Span::from_secs(30);

/// Why a service moves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Why {
    /// So many of its tasks missed, one after the other.
    Missed(u32),
    /// Swarm has lost its node.
    Down,
    /// Its node is drained.
    Drained,
}

/// What is known when it is decided whether a service moves.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Situation {
    /// How many of its latest tasks missed where it is now, one after the other.
    pub(crate) missed_in_a_row: u32,
    /// How long ago it was moved.
    pub(crate) rested: Span,
    /// Swarm has lost its node.
    pub(crate) down: bool,
    /// Swarm stopped its container, for the node is drained.
    pub(crate) drained: bool,
    /// For how long its node's agent was not heard of.
    pub(crate) silent: Span,
    /// It runs once, then ends. Swarm does not stop the container of such a service when the service is changed, so that it
    /// would run twice.
    pub(crate) once: bool,
}

/// Whether a service moves, and why.
pub(crate) fn decide(situation: &Situation) -> Option<Why> {
    match situation {
        Situation { down: true, silent, .. } => (*silent >= CUT_OFF).then_some(Why::Down),
        Situation { once: true, .. } => None,
        Situation { drained: true, .. } => Some(Why::Drained),
        Situation { missed_in_a_row, rested, .. } => {
            (*missed_in_a_row >= MISSES_TO_MOVE && *rested >= REST).then_some(Why::Missed(*missed_in_a_row))
        }
    }
}

/// Moves what must move, and remembers what could not.
pub(crate) struct Mover {
    /// Since when this master has been the active one: before that it may have missed what agents said.
    since: Instant,
    /// Services that nobody takes, told of once.
    stuck: HashSet<String>,
}

impl Mover {
    pub(crate) fn new() -> Self {
        Self { since: clock::now(), stuck: HashSet::new() }
    }

    /// Looks at every service that may move, of those that are placed.
    pub(crate) async fn look(
        &mut self,
        master: &Arc<Master>,
        swarm: &Swarm,
        view: &View,
        services: &[PlacedService],
    ) {
        self.stuck.retain(|name| services.iter().any(|service| service.name == *name));
        for service in services.iter().filter(|service| service.may_move) {
            let (node, situation) = self.situation(master, view, service);
            let Some(why) = decide(&situation) else {
                self.stuck.remove(&service.name);
                continue;
            };
            if swarm.is_over(service).await.unwrap_or(true) {
                continue;
            }
            // Swarm stops what a drained node runs, and does not wait for that when the service changes meanwhile.
            if why == Why::Drained && swarm.still_runs(service).await.unwrap_or(true) {
                continue;
            }
            self.move_one(master, swarm, service, node.as_deref(), why).await;
        }
    }

    fn situation(
        &self,
        master: &Master,
        view: &View,
        service: &PlacedService,
    ) -> (Option<String>, Situation) {
        let now = clock::now();
        let book = master.book();
        let member = book.members().find(|member| member.engine_id == service.engine_id);
        let heard = member.map_or(self.since, |member| member.heard.max(self.since));
        // What is known of an earlier stay on the node is no reason to leave it now.
        let known = member.and_then(|member| member.containers.get(&service.name));
        let known = known.filter(|known| service.placement().is_none_or(|now| known.placement == now));
        let situation = Situation {
            missed_in_a_row: known.map_or(0, |known| known.missed_in_a_row),
            rested: Span::from_micros(clock::wall_now_us() - service.moved_us),
            down: view.down.contains(&service.engine_id),
            drained: view.drained.contains(&service.engine_id),
            silent: now.since(heard),
            once: service.runs_once(),
        };
        (member.map(|member| member.name.clone()), situation)
    }

    async fn move_one(
        &mut self,
        master: &Arc<Master>,
        swarm: &Swarm,
        service: &PlacedService,
        node: Option<&str>,
        why: Why,
    ) {
        let here = node.unwrap_or(&service.engine_id);
        let missed = matches!(why, Why::Missed(_));
        let mut avoid: Vec<String> = vec![here.to_owned()];
        avoid.extend(service.left.iter().filter(|_| missed).cloned());
        let moved = match placing::place(master, &wanted(service), &avoid).await {
            Err(nowhere) => Err(nowhere.to_string()),
            Ok(placed) => {
                let left = missed.then_some(here);
                let moved = swarm.move_to(service, &placed, clock::wall_now_us(), left).await;
                moved.map(|()| placed).map_err(|error| error.to_string())
            }
        };
        match moved {
            Ok(placed) => {
                self.stuck.remove(&service.name);
                master.counts.moves.fetch_add(1, Ordering::Relaxed);
                let reason = format!("from {here}, {}: {}", sentence(why), placed.reason);
                master.tell("moved", &service.name, &placed.node, reason);
            }
            Err(nowhere) if self.stuck.insert(service.name.clone()) => {
                let reason = format!("{}, and it cannot move: {nowhere}", sentence(why));
                master.tell("refused", &service.name, here, reason);
            }
            Err(_) => {}
        }
    }
}

/// What a service asks of its next node: what its labels said when it was made.
fn wanted(service: &PlacedService) -> PlaceWanted {
    let span = |label| {
        let parsed = duration::parse(service.label(label)?).ok()?;
        Some(parsed.as_micros() as i64)
    };
    let memory = service.label(labels::GPU_MEMORY).and_then(|text| bytes::parse(text).ok());
    PlaceWanted {
        deadline_us: span(labels::DEADLINE),
        expect_us: span(labels::EXPECT),
        gpu_memory_bytes: memory.unwrap_or(0),
        kind: service.kind(),
        ..PlaceWanted::default()
    }
}

fn sentence(why: Why) -> String {
    match why {
        Why::Missed(count) => format!("where its latest {count} tasks missed their deadlines"),
        Why::Down => "which swarm has lost".to_owned(),
        Why::Drained => "which is drained".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CALM: Situation = Situation {
        missed_in_a_row: 0,
        rested: REST,
        down: false,
        drained: false,
        silent: Span::ZERO,
        once: false,
    };

    #[test]
    fn a_service_moves_when_it_misses_again_and_again_and_then_rests() {
        assert_eq!(decide(&CALM), None);
        assert_eq!(decide(&Situation { missed_in_a_row: 2, ..CALM }), None);
        let misses = Situation { missed_in_a_row: 3, ..CALM };
        assert_eq!(decide(&misses), Some(Why::Missed(3)));
        assert_eq!(decide(&Situation { rested: Span::from_secs(59), ..misses }), None);
    }

    #[test]
    fn what_a_lost_node_ran_is_placed_again_when_its_agent_had_time_to_stop_it() {
        let lost = Situation { down: true, silent: Span::from_secs(29), ..CALM };
        assert_eq!(decide(&lost), None);
        assert_eq!(decide(&Situation { silent: CUT_OFF, ..lost }), Some(Why::Down));
        assert_eq!(decide(&Situation { drained: true, ..CALM }), Some(Why::Drained));
        assert_eq!(decide(&Situation { drained: true, once: true, ..CALM }), None);
        assert_eq!(decide(&Situation { silent: CUT_OFF, once: true, ..lost }), Some(Why::Down));
        let lost_and_drained = Situation { drained: true, ..lost };
        assert_eq!(decide(&lost_and_drained), None, "nobody has seen its containers stop");
    }
}
