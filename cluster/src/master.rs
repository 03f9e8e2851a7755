//! What all parts of a master share.

use crate::book::Book;
use crate::certificates::{Authority, Identity};
use crate::clock;
use crate::complaints::Complaints;
use crate::engine::Engine;
use crate::meter::Meter;
use crate::store::Store;
use sched::placement::Strategy;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use web::Feed;
use wire::agent::EventLine;
use wire::cluster::MasterLine;
use wire::kept::Kept;
use wire::link::Welcome;

/// A master.
pub(crate) struct Master {
    book: Mutex<Book>,
    kept: Mutex<Arc<Kept>>,
    pub(crate) authority: Authority,
    pub(crate) store: Store,
    pub(crate) engine: Engine,
    pub(crate) complaints: Complaints,
    pub(crate) feed: Feed,
    /// Where agents reach us.
    pub(crate) address: String,
    /// The strategy where nobody says otherwise.
    pub(crate) strategy: Strategy,
    /// Whether we place: the engine's leader is on our machine.
    pub(crate) active: AtomicBool,
    /// Where the engine's leader is.
    leader: Mutex<String>,
    pub(crate) counts: Counts,
}

/// What `/metrics` and `/v1/master` tell.
#[derive(Default)]
pub(crate) struct Counts {
    pub(crate) reports: AtomicU64,
    pub(crate) report_bytes: AtomicU64,
    /// How old reports were when they came, where their senders say so.
    pub(crate) lag: Meter,
    /// Finding a place, with the worker's word.
    pub(crate) placing: Meter,
    /// The engine's part.
    pub(crate) creating: Meter,
    pub(crate) refusals: AtomicU64,
    pub(crate) moves: AtomicU64,
}

impl Master {
    pub(crate) fn new(
        kept: Kept,
        authority: Authority,
        store: Store,
        engine: Engine,
        address: String,
        strategy: Strategy,
    ) -> Self {
        Self {
            book: Mutex::new(Book::new()),
            kept: Mutex::new(Arc::new(kept)),
            authority,
            store,
            // Without an engine there is nobody else who could place.
            active: AtomicBool::new(matches!(engine, Engine::None)),
            engine,
            leader: Mutex::default(),
            complaints: Complaints::default(),
            feed: Feed::default(),
            address,
            strategy,
            counts: Counts::default(),
        }
    }

    /// The master as it says it is.
    pub(crate) fn line(&self) -> MasterLine {
        let counts = &self.counts;
        MasterLine {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            address: self.address.clone(),
            active: self.active.load(Ordering::Relaxed),
            engine: match self.engine {
                Engine::None => "none".to_owned(),
                Engine::Swarm(_) => "swarm".to_owned(),
            },
            leader: self.leader(),
            agents: self.book().connected(),
            reports: counts.reports.load(Ordering::Relaxed),
            report_bytes: counts.report_bytes.load(Ordering::Relaxed),
            report_lag_p99_us: counts.lag.quantile(0.99),
            placements: counts.placing.count(),
            placement_p50_us: counts.placing.quantile(0.5),
            placement_p99_us: counts.placing.quantile(0.99),
        }
    }

    /// Tells what happened to a service, on which node, and why.
    pub(crate) fn tell(&self, event: &str, service: &str, node: &str, reason: String) {
        let at_us = clock::wall_now_us();
        eprintln!("notice: {event} {service} on {node}: {reason}");
        let line = EventLine {
            time: clock::rfc3339(at_us),
            event: event.to_owned(),
            container: None,
            name: Some(service.to_owned()),
            node: node.to_owned(),
            reason,
            pid: None,
            gpu: None,
        };
        self.feed.tell(at_us, line);
    }

    /// What agents told. Never held across a wait.
    pub(crate) fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Where the engine's leader is; empty if there is none.
    pub(crate) fn leader(&self) -> String {
        self.leader.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The engine's leader is there now.
    pub(crate) fn set_leader(&self, leader: String) {
        *self.leader.lock().unwrap_or_else(PoisonError::into_inner) = leader;
    }

    /// Whether the engine has a leader, as far as is seen from here. Who sees none knows nothing for certain.
    pub(crate) fn is_led(&self) -> bool {
        matches!(self.engine, Engine::None) || !self.leader().is_empty()
    }

    /// The cluster's record, as last read.
    pub(crate) fn kept(&self) -> Arc<Kept> {
        Arc::clone(&self.kept.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The record was read anew: who was taken out, or came back with another key, is gone.
    pub(crate) fn set_kept(&self, kept: Kept) {
        let before =
            std::mem::replace(&mut *self.kept.lock().unwrap_or_else(PoisonError::into_inner), Arc::new(kept));
        let kept = self.kept();
        self.book().keep_only(|name| {
            kept.nodes.contains_key(name) && before.nodes.get(name) == kept.nodes.get(name)
        });
    }

    /// Whether a certificate is that of a node that may report; what the engine calls it.
    pub(crate) fn may_report(&self, identity: &Identity) -> Option<String> {
        let kept = self.kept();
        let node = kept.nodes.get(&identity.name)?;
        (node.key == identity.key).then(|| node.engine_id.clone())
    }

    pub(crate) fn masters(&self) -> Vec<String> {
        let mut masters: Vec<String> = self.kept().masters.values().cloned().collect();
        if !masters.contains(&self.address) {
            masters.push(self.address.clone());
        }
        masters
    }

    /// What every agent is told; how its own node stands is for the book to add.
    pub(crate) fn welcome(&self) -> Welcome {
        Welcome { masters: self.masters(), led: self.is_led(), lost: false }
    }
}
