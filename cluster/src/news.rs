//! What the master did, as events: the latest kept, and everyone who follows told at once.

use crate::clock;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::broadcast;
use wire::agent::EventLine;

/// How much news is kept for those who ask what happened before they came.
const EVENTS_KEPT_MAX: usize = 10_000;
/// How far a follower may fall behind.
const EVENTS_BEHIND_MAX: usize = 1024;

/// An event, and when it happened in microseconds since 1970.
pub(crate) type Dated = (i64, Arc<EventLine>);

/// The news.
pub(crate) struct News {
    kept: Mutex<VecDeque<Dated>>,
    followers: broadcast::Sender<Dated>,
}

impl News {
    pub(crate) fn new() -> Self {
        Self { kept: Mutex::default(), followers: broadcast::channel(EVENTS_BEHIND_MAX).0 }
    }

    /// Tells what happened to a service, on which node, and why.
    pub(crate) fn tell(&self, event: &str, service: &str, node: &str, reason: String) {
        let at_us = clock::wall_now_us();
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
        eprintln!("notice: {event} {service} on {node}: {}", line.reason);
        let dated = (at_us, Arc::new(line));
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() == EVENTS_KEPT_MAX {
            kept.pop_front();
        }
        kept.push_back(dated.clone());
        // Sent under the lock, so that `follow` misses nothing and repeats nothing. Nobody following is no failure.
        let _ = self.followers.send(dated);
    }

    /// What happened since a moment, and what will.
    pub(crate) fn follow(&self, since_us: i64) -> (Vec<Dated>, broadcast::Receiver<Dated>) {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let past = kept.iter().filter(|(at, _)| *at >= since_us).cloned().collect();
        (past, self.followers.subscribe())
    }
}
