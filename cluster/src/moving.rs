//! When a service moves to another node, and where it never goes again.
//!
//! Four reasons: it missed again and again where it is, swarm has lost its node, its node is drained, or its node stopped it while
//! it was cut off and swarm does not start it again. A service that moved rests before it moves again, and one that left a node
//! because it missed there never goes back: to and fro would cost a start each time and help nobody.
//!
//! A node that swarm has lost may still run its containers. Its agent stops those that may move soon after no master lets it run on
//! any more, and only later are they placed again: when the agent was silent for long enough to have done so, or says that it has.

use crate::clock;
use crate::engine::View;
use crate::engine::swarm::{Fate, PlacedService, Swarm, soon};
use crate::master::Master;
use crate::placing;
use sched::time::{Instant, Span};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use tokio::sync::watch;
use wire::cluster::PlaceWanted;
use wire::{bytes, duration, labels};

/// So many tasks in a row must miss before a service moves.
pub(crate) const MISSES_TO_MOVE: u32 = 3;
/// A service that moved because it missed stays at least this long.
pub(crate) const REST: Span = Span::from_secs(60);
/// A node that was lost has had this long to stop what it lost the right to run. Agents take at most 28 s from a cut on, and swarm takes
/// 10 at least to call the node lost.
pub(crate) const CUT_OFF: Span = Span::from_secs(30);
/// A node that was lost or drained, and is not any more, has had this long to stop what swarm wants stopped there, and to say so.
const SHAKEN: Span = Span::from_secs(60);
/// The same for one that this master has never heard: all masters may have been stopped on purpose, and it waits for one to come
/// back. Agents take at most four fifths of it.
pub(crate) const NEVER_HEARD: Span = Span::from_secs(300);

/// Why a service moves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Why {
    /// So many of its tasks missed, one after the other.
    Missed(u32),
    /// Swarm has lost its node.
    Down,
    /// Its node is drained.
    Drained,
    /// Its node stopped it while it was cut off.
    Stopped,
}

/// What is known when it is decided whether a service moves.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Situation {
    /// How many of its latest tasks missed where it is now, one after the other.
    pub(crate) missed_in_a_row: u32,
    /// How long ago it was moved.
    pub(crate) rested: Span,
    /// For how long swarm has lost its node.
    pub(crate) lost: Option<Span>,
    /// Swarm stopped its container, for the node is drained.
    pub(crate) drained: bool,
    /// For how long its node's agent was not heard of; nothing if it never was.
    pub(crate) silent: Option<Span>,
    /// The agent says that the node is cut off, and nothing runs there that may move.
    pub(crate) nothing_runs: bool,
    /// The agent says that it stopped this very container.
    pub(crate) stopped: bool,
    /// Swarm may have stopped it, and nobody told: its node was lost or drained a moment ago, or nobody took it then, or this master has
    /// not been the active one for long.
    pub(crate) shaken: bool,
    /// It runs once, then ends, and swarm does not start it again.
    pub(crate) once: bool,
    /// Swarm counts how often it starts it again, and counts what its node stopped.
    pub(crate) limited: bool,
}

/// Whether a service moves, and why.
pub(crate) fn decide(situation: &Situation) -> Option<Why> {
    match situation {
        Situation { lost: Some(lost), silent, nothing_runs, .. } => {
            let wait = if silent.is_some() { CUT_OFF } else { NEVER_HEARD };
            let has_stopped = *nothing_runs || silent.is_none_or(|silent| silent >= wait);
            (*lost >= wait && has_stopped).then_some(Why::Down)
        }
        Situation { drained: true, .. } => Some(Why::Drained),
        // What runs once would begin anew elsewhere.
        Situation { once: false, missed_in_a_row, rested, .. }
            if *missed_in_a_row >= MISSES_TO_MOVE && *rested >= REST =>
        {
            Some(Why::Missed(*missed_in_a_row))
        }
        // Any other service is started again by swarm, and these perhaps.
        Situation { stopped, shaken, once, limited, .. } => {
            ((*stopped || *shaken) && (*once || *limited)).then_some(Why::Stopped)
        }
    }
}

/// Whether a service that is to move for a reason may, after what has become of it where it is.
fn may_begin_anew(situation: &Situation, why: Why, fate: Fate) -> bool {
    match fate {
        // Swarm may start it again by itself, and then it would run twice.
        Fate::Lives => why != Why::Stopped,
        Fate::Stopped => true,
        // What its node stopped has not failed by itself, though swarm takes it for that.
        Fate::Failed => situation.stopped || (!situation.once && why != Why::Stopped),
        Fate::Done => false,
    }
}

/// The engine as it was seen: its nodes, and the services that masters placed.
pub(crate) type Seen = (View, Vec<PlacedService>);

/// Moves what must move, one after the other, apart from whoever looks at the engine; nothing is moved where nothing was seen.
pub(crate) async fn keep(master: Arc<Master>, swarm: Swarm, mut seen: watch::Receiver<Option<Seen>>) {
    let mut mover = None;
    while seen.changed().await.is_ok() {
        let now = seen.borrow_and_update().clone();
        match now {
            None => mover = None,
            Some((view, services)) => {
                mover.get_or_insert_with(Mover::new).look(&master, &swarm, &view, &services).await;
            }
        }
    }
}

/// Moves what must move, and remembers what could not.
struct Mover {
    /// Since when this master has been the active one: before that it may have missed what agents said.
    since: Instant,
    /// Services that nobody takes, told of once.
    stuck: HashSet<String>,
    /// Which version of which service was moved: what was seen a moment before that is old news.
    moved: HashMap<String, i32>,
    /// When a node was last seen lost or drained, by what the engine calls it.
    shaken: HashMap<String, Instant>,
}

impl Mover {
    fn new() -> Self {
        Self { since: clock::now(), stuck: HashSet::new(), moved: HashMap::new(), shaken: HashMap::new() }
    }

    /// Looks at every service that may move, of those that are placed.
    async fn look(&mut self, master: &Arc<Master>, swarm: &Swarm, view: &View, services: &[PlacedService]) {
        let is_there = |name: &String| services.iter().any(|service| service.name == *name);
        self.stuck.retain(is_there);
        self.moved.retain(|name, _| is_there(name));
        self.note_shaken(master, view, services);
        for service in services.iter().filter(|service| service.may_move) {
            if self.moved.get(&service.name) == Some(&service.version) {
                continue;
            }
            // While others are moved the leader may be another.
            if !master.active.load(Ordering::Relaxed) {
                return;
            }
            let (node, situation) = self.situation(master, view, service);
            let Some(why) = decide(&situation) else {
                self.stuck.remove(&service.name);
                continue;
            };
            let Ok(fate) = soon(swarm.fate(service)).await else { continue };
            if !may_begin_anew(&situation, why, fate) {
                self.stuck.remove(&service.name);
                continue;
            }
            // Swarm stops what a drained node runs, and does not wait for that when the service changes meanwhile.
            if why == Why::Drained && soon(swarm.still_runs(service)).await.unwrap_or(true) {
                continue;
            }
            self.move_one(master, swarm, service, node.as_deref(), why).await;
        }
    }

    fn note_shaken(&mut self, master: &Master, view: &View, services: &[PlacedService]) {
        let (now, book) = (clock::now(), master.book());
        self.shaken.retain(|_, at| now.since(*at) < SHAKEN);
        let places = services.iter().map(|service| &service.engine_id);
        let shaken = places.filter(|id| book.has_lost(id) || view.drained.contains(*id));
        self.shaken.extend(shaken.map(|id| (id.clone(), now)));
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
        let silent = member.map(|member| now.since(member.heard.max(self.since)));
        // What is known of an earlier stay on the node is no reason to leave it now.
        let known = member.and_then(|member| member.containers.get(&service.name));
        let known = known.filter(|known| service.placement().is_none_or(|now| known.placement == now));
        let stopped = member.map(|member| &member.stopped);
        let placement = service.placement();
        let situation = Situation {
            missed_in_a_row: known.map_or(0, |known| known.missed_in_a_row),
            rested: Span::from_micros(clock::wall_now_us() - service.moved_us),
            lost: book.lost_for(now, &service.engine_id),
            drained: view.drained.contains(&service.engine_id),
            silent,
            nothing_runs: stopped.is_some_and(|stopped| stopped.nothing_runs),
            stopped: stopped.zip(placement).is_some_and(|(stopped, now)| stopped.placements.contains(&now)),
            shaken: self.shaken.contains_key(&service.engine_id)
                || self.stuck.contains(&service.name)
                || now.since(self.since) < SHAKEN,
            once: service.runs_once(),
            limited: service.is_limited(),
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
        // Where it was stopped it may run again: the node is there.
        let mut avoid: Vec<String> = if why == Why::Stopped { vec![] } else { vec![here.to_owned()] };
        avoid.extend(service.left.iter().filter(|_| missed).cloned());
        let moved = match placing::place(master, &wanted(service), &avoid).await {
            Err(nowhere) => Err(nowhere.to_string()),
            Ok(found) => {
                let left = missed.then_some(here);
                let moved = soon(swarm.move_to(service, &found.placed, clock::wall_now_us(), left)).await;
                match moved {
                    Ok(()) => Ok(found.placed),
                    Err(error) => {
                        placing::give_up(master, &found);
                        Err(error)
                    }
                }
            }
        };
        match moved {
            Ok(placed) => {
                self.stuck.remove(&service.name);
                self.moved.insert(service.name.clone(), service.version);
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
        Why::Stopped => "which was cut off, and stopped it".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CALM: Situation = Situation {
        missed_in_a_row: 0,
        rested: REST,
        lost: None,
        drained: false,
        silent: Some(Span::ZERO),
        nothing_runs: false,
        stopped: false,
        shaken: false,
        once: false,
        limited: false,
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
        let almost = Span::from_secs(29);
        let lost = Situation { lost: Some(CUT_OFF), silent: Some(CUT_OFF), ..CALM };
        assert_eq!(decide(&lost), Some(Why::Down));
        assert_eq!(decide(&Situation { silent: Some(almost), ..lost }), None);
        assert_eq!(
            decide(&Situation { lost: Some(almost), ..lost }),
            None,
            "other masters may have heard it"
        );
        assert_eq!(decide(&Situation { once: true, ..lost }), Some(Why::Down));
        assert_eq!(decide(&Situation { silent: None, ..lost }), None, "all masters may have been away");
        assert_eq!(decide(&Situation { silent: None, lost: Some(NEVER_HEARD), ..lost }), Some(Why::Down));
        let lost_and_drained = Situation { drained: true, silent: Some(almost), ..lost };
        assert_eq!(decide(&lost_and_drained), None, "nobody has seen its containers stop");
    }

    #[test]
    fn a_lost_node_whose_agent_lives_is_emptied_when_the_agent_has_stopped_everything() {
        let lost = Situation { lost: Some(CUT_OFF), ..CALM };
        assert_eq!(decide(&lost), None);
        assert_eq!(decide(&Situation { nothing_runs: true, ..lost }), Some(Why::Down));
        assert_eq!(decide(&Situation { nothing_runs: true, ..CALM }), None, "swarm has it");
    }

    #[test]
    fn a_drained_node_is_emptied_of_what_swarm_has_stopped() {
        assert_eq!(decide(&Situation { drained: true, ..CALM }), Some(Why::Drained));
        assert_eq!(decide(&Situation { drained: true, once: true, ..CALM }), Some(Why::Drained));
    }

    #[test]
    fn what_runs_once_and_was_stopped_in_a_short_cut_is_placed_again() {
        let stopped = Situation { once: true, stopped: true, ..CALM };
        assert_eq!(decide(&stopped), Some(Why::Stopped));
        let service = Situation { once: false, ..stopped };
        assert_eq!(decide(&service), None, "swarm starts it again");
        let limited = Situation { limited: true, ..service };
        assert_eq!(decide(&limited), Some(Why::Stopped), "that may have been one attempt too many");
        assert_eq!(decide(&Situation { stopped: false, ..limited }), None);
        assert_eq!(decide(&Situation { drained: true, ..limited }), Some(Why::Drained));
        assert_eq!(decide(&Situation { missed_in_a_row: 3, ..limited }), Some(Why::Missed(3)));
        assert_eq!(decide(&Situation { lost: Some(Span::ZERO), ..stopped }), None, "the node is not back");
        let shaken = Situation { once: true, shaken: true, ..CALM };
        assert_eq!(decide(&shaken), Some(Why::Stopped), "swarm may have stopped it");
        assert_eq!(
            decide(&Situation { once: false, limited: true, ..shaken }),
            Some(Why::Stopped),
            "likewise"
        );
        assert_eq!(decide(&Situation { once: false, ..shaken }), None, "swarm starts it again");
        assert_eq!(
            decide(&Situation { once: true, missed_in_a_row: 3, ..CALM }),
            None,
            "it would begin anew"
        );
    }

    #[test]
    fn what_runs_once_begins_anew_only_if_it_was_stopped() {
        let once = Situation { once: true, ..CALM };
        let told = Situation { stopped: true, ..once };
        assert!(!may_begin_anew(&told, Why::Stopped, Fate::Lives), "it would run twice");
        assert!(may_begin_anew(&told, Why::Stopped, Fate::Failed));
        assert!(!may_begin_anew(&once, Why::Stopped, Fate::Failed), "by itself");
        assert!(may_begin_anew(&once, Why::Stopped, Fate::Stopped), "by swarm");
        assert!(!may_begin_anew(&told, Why::Down, Fate::Done));
        assert!(may_begin_anew(&once, Why::Down, Fate::Lives), "swarm has not heard of its end");
        let limited = Situation { limited: true, ..CALM };
        assert!(may_begin_anew(&limited, Why::Down, Fate::Failed), "a cut may have used up its attempts");
        assert!(!may_begin_anew(&limited, Why::Stopped, Fate::Failed), "by itself");
        assert!(!may_begin_anew(&limited, Why::Drained, Fate::Done), "it has ended well");
    }
}
