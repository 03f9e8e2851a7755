//! Who reports, what they said last, and what they are asked: the master's soft state, rebuilt from the agents.

mod kinds;

use crate::clock;
use crate::engine::View;
use kinds::Kinds;
use sched::node::{Float, Report, State};
use sched::placement::{Key, NodeList, Reason, Settings, Standing, Strategy};
use sched::time::{Instant, Span};
use std::collections::{BTreeMap, HashMap};
use tokio::sync::{mpsc, oneshot};
use wire::cluster::NodeRank;
use wire::link::{Answer, Farewell, FromMaster, Hello, KnownContainer, Stopped, Told, Welcome, Withdrawn};
use wire::report::{NoReport, Record};

/// Why nothing is placed on a node that joined the cluster before it joined the swarm, or left the swarm since.
const UNKNOWN: &str = "swarm does not know it: it must be in the swarm, and then join the cluster anew";

/// How many messages may wait for an agent that does not read: it is asked one thing at a time.
pub(crate) const TOLD_QUEUED_MAX: usize = 64;
/// A node that was silent for this long is forgotten. Until then `place` can say why it is not chosen.
const FORGOTTEN_AFTER: Span = Span::from_secs(600);
/// How many containers of one node are remembered; beyond that, those that the engine does not run there are forgotten.
const CONTAINERS_MAX: usize = 10_000;

/// Everything agents told.
pub(crate) struct Book {
    pub(crate) list: NodeList,
    members: BTreeMap<u32, Member>,
    by_name: HashMap<String, u32>,
    /// How long a task takes, by what runs.
    kinds: Kinds,
    /// Who was asked, and who waits for the answer.
    offers: HashMap<u64, (u32, oneshot::Sender<Answer>)>,
    numbered: u64,
    /// The number of the next node that nobody knew: none is given twice, so that what comes late from one is never another's.
    next: u32,
    /// The services that the engine runs on its nodes, by what it calls those.
    placed: HashMap<String, Vec<String>>,
    /// The engine's view of its nodes.
    view: View,
    /// Since when it has lost which, by what it calls them.
    lost: HashMap<String, Instant>,
    /// This master stops, and has said farewell.
    closing: bool,
}

/// One node.
pub(crate) struct Member {
    pub(crate) name: String,
    pub(crate) engine_id: String,
    gpus: BTreeMap<u8, Seen>,
    link: Option<Link>,
    /// When it last said anything.
    pub(crate) heard: Instant,
    /// What is known of its containers, by service.
    pub(crate) containers: HashMap<String, KnownContainer>,
    /// What it stopped while it was cut off.
    pub(crate) stopped: Stopped,
}

/// One GPU of it.
#[derive(Clone, Copy)]
struct Seen {
    report: Report,
    /// The number as the node counts, of which only the lowest bits travel.
    sequence: Option<u16>,
    memory_total: u64,
}

/// The stream to it.
struct Link {
    session: u64,
    sender: mpsc::Sender<FromMaster>,
    /// What it was told last of masters and of itself.
    welcome: Option<Welcome>,
}

/// A stream that was opened: who it belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Session {
    pub(crate) node: u32,
    session: u64,
}

impl Book {
    pub(crate) fn new() -> Self {
        Self {
            list: NodeList::new(Settings::default()),
            members: BTreeMap::new(),
            by_name: HashMap::new(),
            kinds: Kinds::default(),
            offers: HashMap::new(),
            numbered: 0,
            next: 0,
            placed: HashMap::new(),
            view: View::default(),
            lost: HashMap::new(),
            closing: false,
        }
    }

    /// An agent has come. One that comes twice has lost its first stream, which ends with its sender here.
    pub(crate) fn attach(
        &mut self,
        engine_id: &str,
        hello: &Hello,
        sender: mpsc::Sender<FromMaster>,
    ) -> Session {
        self.numbered += 1;
        let session = self.numbered;
        let node = *self.by_name.entry(hello.name.clone()).or_insert(self.next);
        self.next = self.next.max(node + 1);
        let member = self.members.entry(node).or_insert_with(|| Member {
            name: hello.name.clone(),
            engine_id: String::new(),
            gpus: BTreeMap::new(),
            link: None,
            heard: clock::now(),
            containers: HashMap::new(),
            stopped: Stopped::default(),
        });
        engine_id.clone_into(&mut member.engine_id);
        member.heard = clock::now();
        member.link = Some(Link { session, sender, welcome: None });
        // What its containers are is told anew.
        member.containers.clear();
        member.stopped = Stopped::default();
        let gone: Vec<u8> = member.gpus.keys().copied().collect();
        for gpu in gone {
            if hello.gpus.iter().any(|told| told.gpu == u32::from(gpu)) {
                self.list.rejoin(Key { node, gpu });
            } else {
                self.list.remove(Key { node, gpu });
                member.gpus.remove(&gpu);
            }
        }
        for gpu in &hello.gpus {
            let Ok(number) = u8::try_from(gpu.gpu) else { continue };
            let seen = member.gpus.entry(number).or_insert(NOTHING_SEEN);
            seen.memory_total = gpu.memory_total;
            // It counts from the beginning.
            seen.sequence = None;
        }
        // It was on its way when the others were told.
        if self.closing {
            self.farewell();
        }
        Session { node, session }
    }

    /// A stream ended. Its node stays in the list until it has been silent for too long: it may come back at once.
    pub(crate) fn detach(&mut self, session: Session) {
        let member = self.members.get_mut(&session.node);
        let link = member.map(|member| &mut member.link);
        if let Some(link) = link
            && link.as_ref().is_some_and(|link| link.session == session.session)
        {
            *link = None;
        }
    }

    /// Whether the stream is still its node's. What comes over another one is old news: the node was removed, or its agent came
    /// anew and counts from the beginning.
    pub(crate) fn holds(&self, session: Session) -> bool {
        let link = self.members.get(&session.node).and_then(|member| member.link.as_ref());
        link.is_some_and(|link| link.session == session.session)
    }

    /// Takes in a report; an empty one says that nothing has changed.
    pub(crate) fn report(&mut self, session: Session, bytes: &[u8]) -> Result<(), NoReport> {
        let records = wire::report::read(bytes)?;
        let now = clock::now();
        if !self.holds(session) {
            return Ok(());
        }
        let Some(member) = self.members.get_mut(&session.node) else { return Ok(()) };
        member.heard = now;
        for record in &records {
            if let Some(seen) = member.gpus.get_mut(&record.gpu) {
                seen.take(record);
            }
        }
        for (gpu, seen) in &mut member.gpus {
            seen.report.sequence += 1;
            self.list.report(now, Key { node: session.node, gpu: *gpu }, now, seen.report);
        }
        Ok(())
    }

    /// Takes in what is known of containers.
    pub(crate) fn learn(&mut self, session: Session, containers: Vec<KnownContainer>) {
        if !self.holds(session) {
            return;
        }
        let Some(member) = self.members.get_mut(&session.node) else { return };
        let known = &mut member.containers;
        for container in containers {
            if container.run_us > 0 && !container.kind.is_empty() {
                self.kinds.note(&container.kind, container.run_us);
            }
            if known.len() >= CONTAINERS_MAX && !known.contains_key(&container.service) {
                let here = self.placed.get(&member.engine_id);
                known.retain(|service, _| here.is_some_and(|here| here.contains(service)));
            }
            if known.len() < CONTAINERS_MAX || known.contains_key(&container.service) {
                known.insert(container.service.clone(), container);
            }
        }
    }

    /// Takes in what a node stopped while it was cut off.
    pub(crate) fn learn_stopped(&mut self, session: Session, stopped: Stopped) {
        if self.holds(session)
            && let Some(member) = self.members.get_mut(&session.node)
        {
            member.stopped = stopped;
        }
    }

    /// How long a task takes of what runs under this name, as measured anywhere.
    pub(crate) fn measured(&self, kind: &str) -> Option<Span> {
        self.kinds.get(kind).map(Span::from_micros)
    }

    /// Sends an offer; where the answer comes. None if nobody is there to ask.
    pub(crate) fn offer(
        &mut self,
        node: u32,
        offer: wire::link::Offer,
    ) -> Option<(u64, oneshot::Receiver<Answer>)> {
        let link = self.members.get(&node)?.link.as_ref()?;
        self.numbered += 1;
        let number = self.numbered;
        let offer = wire::link::Offer { offer: number, ..offer };
        link.sender.try_send(Told::Offer(offer).into()).ok()?;
        let (to, answer) = oneshot::channel();
        self.offers.insert(number, (node, to));
        Some((number, answer))
    }

    /// An answer came, or nobody waits for it any more. Only who was asked may answer.
    pub(crate) fn answered(&mut self, node: u32, number: u64, answer: Option<Answer>) {
        if self.offers.get(&number).is_none_or(|(asked, _)| *asked != node) {
            return;
        }
        if let (Some((_, to)), Some(answer)) = (self.offers.remove(&number), answer) {
            let _ = to.send(answer);
        }
    }

    /// A container that a node let in does not come.
    pub(crate) fn withdraw(&self, node: u32, placement: &str) {
        if let Some(link) = self.members.get(&node).and_then(|member| member.link.as_ref()) {
            // One that does not read forgets it by itself, in half a minute.
            let _ =
                link.sender.try_send(Told::Withdrawn(Withdrawn { placement: placement.to_owned() }).into());
        }
    }

    /// The engine's word on which nodes there are, and of what use they are.
    pub(crate) fn set_view(&mut self, now: Instant, view: View) {
        let members = self.members.values().map(|member| &member.engine_id);
        let named = members.chain(self.placed.keys()).chain(&view.down);
        let lost = named.filter(|id| view.has_lost(id));
        self.lost = lost.map(|id| (id.clone(), self.lost.get(id).copied().unwrap_or(now))).collect();
        self.view = view;
    }

    /// Whether the engine has lost a node, a member's or another.
    pub(crate) fn has_lost(&self, engine_id: &str) -> bool {
        self.view.has_lost(engine_id)
    }

    /// For how long the engine has called a node lost, as seen from here.
    pub(crate) fn lost_for(&self, now: Instant, engine_id: &str) -> Option<Span> {
        self.lost.get(engine_id).map(|since| now.since(*since))
    }

    /// The engine's word on which services are where, by what it calls nodes.
    pub(crate) fn set_placed(&mut self, placed: HashMap<String, Vec<String>>) {
        self.placed = placed;
    }

    /// Why the engine would not run anything there.
    pub(crate) fn barred(&self, key: Key) -> Option<&str> {
        self.why_barred(self.members.get(&key.node)?)
    }

    fn why_barred(&self, member: &Member) -> Option<&str> {
        let View { known, unusable, .. } = &self.view;
        let is_known = known.as_ref().is_none_or(|known| known.contains(&member.engine_id));
        if is_known { unusable.get(&member.engine_id).map(String::as_str) } else { Some(UNKNOWN) }
    }

    /// All GPUs where the engine would not run anything.
    pub(crate) fn barred_keys(&self) -> Vec<Key> {
        if self.view.unusable.is_empty() && self.view.known.is_none() {
            return Vec::new();
        }
        let barred = self.members.iter().filter(|(_, member)| self.why_barred(member).is_some());
        barred
            .flat_map(|(node, member)| member.gpus.keys().map(|gpu| Key { node: *node, gpu: *gpu }))
            .collect()
    }

    /// Tells an agent who has come which masters there are, and how its own node stands.
    pub(crate) fn welcome(&mut self, session: Session, welcome: &Welcome) {
        if let Some(member) = self.members.get_mut(&session.node) {
            member.tell(welcome, self.lost.contains_key(&member.engine_id));
        }
    }

    /// Tells every agent for whom that has changed.
    pub(crate) fn welcome_all(&mut self, welcome: &Welcome) {
        for member in self.members.values_mut() {
            member.tell(welcome, self.lost.contains_key(&member.engine_id));
        }
    }

    /// Tells every agent that this master stops on purpose, and ends their streams. Who comes later hears nothing else.
    pub(crate) fn farewell(&mut self) {
        self.closing = true;
        for link in self.members.values_mut().filter_map(|member| member.link.take()) {
            let _ = link.sender.try_send(Told::Farewell(Farewell {}).into());
        }
    }

    /// Ends the streams of those who may no longer report, and forgets them.
    pub(crate) fn keep_only(&mut self, may_report: impl Fn(&str) -> bool) {
        let gone: Vec<u32> = self
            .members
            .iter()
            .filter(|(_, member)| !may_report(&member.name))
            .map(|(node, _)| *node)
            .collect();
        gone.into_iter().for_each(|node| self.forget(node));
    }

    /// Catches up with time: what was silent for long is forgotten, and what nobody waits for any more.
    pub(crate) fn advance(&mut self) {
        let now = clock::now();
        self.offers.retain(|_, (_, to)| !to.is_closed());
        self.list.advance(now);
        let is_gone = |member: &Member| member.link.is_none() && now.since(member.heard) > FORGOTTEN_AFTER;
        let gone: Vec<u32> =
            self.members.iter().filter(|(_, member)| is_gone(member)).map(|(node, _)| *node).collect();
        gone.into_iter().for_each(|node| self.forget(node));
    }

    fn forget(&mut self, node: u32) {
        if let Some(member) = self.members.remove(&node) {
            self.by_name.remove(&member.name);
            for gpu in member.gpus.keys() {
                self.list.remove(Key { node, gpu: *gpu });
            }
        }
    }

    pub(crate) fn member(&self, node: u32) -> Option<&Member> {
        self.members.get(&node)
    }

    pub(crate) fn members(&self) -> impl Iterator<Item = &Member> {
        self.members.values()
    }

    /// The GPUs of the node with this name.
    pub(crate) fn keys_of(&self, name: &str) -> Option<Vec<Key>> {
        let node = *self.by_name.get(name)?;
        let member = self.members.get(&node)?;
        Some(member.gpus.keys().map(|gpu| Key { node, gpu: *gpu }).collect())
    }

    pub(crate) fn name(&self, node: u32) -> String {
        self.members.get(&node).map(|member| member.name.clone()).unwrap_or_default()
    }

    /// How many agents are connected.
    pub(crate) fn connected(&self) -> usize {
        self.members.values().filter(|member| member.link.is_some()).count()
    }

    /// The node list in rank order, as it leaves the process.
    pub(crate) fn ranked(&mut self, now: Instant, strategy: Strategy) -> Vec<NodeRank> {
        let ranked = self.list.ranked(now, strategy);
        let mut lines: Vec<NodeRank> = ranked.into_iter().map(|standing| self.line(&standing)).collect();
        // Of those that the engine does not use, the list does not know.
        lines.sort_by_key(|line| !line.provisionable);
        lines
    }

    fn line(&self, standing: &Standing) -> NodeRank {
        let member = self.members.get(&standing.key.node);
        let seen = member.and_then(|member| member.gpus.get(&standing.key.gpu));
        let silent = standing.age >= Settings::default().silence_max;
        let (state, reason) = match (self.barred(standing.key), standing.state) {
            (Some(barred), _) => ("barred", Some(barred.to_owned())),
            _ if silent => ("silent", Some("its agent says nothing".to_owned())),
            _ if standing.provisionable => ("ready", None),
            (_, State { missed: true, .. }) => ("missed", Some(Reason::Missed.to_string())),
            (_, State { memory_full: true, .. }) => ("memory full", Some(Reason::MemoryFull.to_string())),
            _ => ("core full", Some(Reason::CoreFull.to_string())),
        };
        let placed = member.and_then(|member| self.placed.get(&member.engine_id));
        NodeRank {
            node: self.name(standing.key.node),
            gpu: standing.key.gpu,
            provisionable: reason.is_none(),
            state: state.to_owned(),
            reason,
            gpu_memory_free_bytes: standing.memory_free,
            gpu_memory_total_bytes: seen.map_or(0, |seen| seen.memory_total),
            float_us: match standing.float {
                Float::Limited(span) => Some(span.as_micros()),
                Float::Unlimited => None,
            },
            age_us: standing.age.as_micros(),
            services: placed.cloned().unwrap_or_default(),
        }
    }
}

impl Member {
    fn tell(&mut self, welcome: &Welcome, lost: bool) {
        let Some(link) = &mut self.link else { return };
        let is_news =
            |told: &Welcome| told.lost != lost || told.led != welcome.led || told.masters != welcome.masters;
        if link.welcome.as_ref().is_none_or(is_news) {
            let welcome = Welcome { lost, ..welcome.clone() };
            // One that does not read is told again.
            let told = link.sender.try_send(Told::Welcome(welcome.clone()).into());
            link.welcome = told.ok().map(|()| welcome);
        }
    }
}

/// A GPU that has not reported takes nobody.
const NOTHING_SEEN: Seen = Seen {
    report: Report {
        sequence: 0,
        state: State { missed: false, memory_full: true, core_full: false },
        memory_free: 0,
        float_sum: Float::Unlimited,
        float_least: Float::Unlimited,
    },
    sequence: None,
    memory_total: 0,
};

impl Seen {
    /// A record that says no more than its state leaves the figures as they were.
    fn take(&mut self, record: &Record) {
        let state =
            State { missed: record.missed, memory_full: record.memory_full, core_full: record.core_full };
        let Some(figures) = record.figures else {
            self.report.state = state;
            return;
        };
        // Of two numbers less than half the range apart, the greater is the newer.
        let is_old = |before: u16| figures.sequence.wrapping_sub(before) >= 1 << 15;
        if self.sequence.is_some_and(is_old) {
            return;
        }
        let float = |ms: Option<i32>| {
            ms.map_or(Float::Unlimited, |ms| Float::Limited(Span::from_millis(i64::from(ms))))
        };
        self.sequence = Some(figures.sequence);
        self.report.state = state;
        self.report.memory_free = u64::from(figures.memory_free_mib) << 20;
        self.report.float_sum = float(figures.float_sum_ms);
        self.report.float_least = float(figures.float_least_ms);
    }
}

#[cfg(test)]
mod stories;
