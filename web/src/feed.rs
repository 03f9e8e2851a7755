//! The news as it is told: the latest kept, and everyone who follows told at once.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::broadcast;
use wire::agent::EventLine;

/// How much news is kept for those who ask what happened before they came.
const EVENTS_KEPT_MAX: usize = 10_000;
/// How far a follower may fall behind before it is told that it missed something.
const EVENTS_BEHIND_MAX: usize = 1024;

/// An event, and when it happened in microseconds since 1970.
pub type Dated = (i64, Arc<EventLine>);

/// The news.
pub struct Feed {
    kept: Mutex<VecDeque<Dated>>,
    followers: broadcast::Sender<Dated>,
}

impl Default for Feed {
    fn default() -> Self {
        Self { kept: Mutex::default(), followers: broadcast::channel(EVENTS_BEHIND_MAX).0 }
    }
}

impl Feed {
    /// Tells everyone who follows, and keeps it for those who come later.
    pub fn tell(&self, wall_us: i64, event: EventLine) {
        let dated = (wall_us, Arc::new(event));
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() == EVENTS_KEPT_MAX {
            kept.pop_front();
        }
        kept.push_back(dated.clone());
        // Nobody following is no failure. Sent under the lock, so that `follow` misses nothing and repeats nothing.
        let _ = self.followers.send(dated);
    }

    /// What happened since a moment, and what will.
    pub fn follow(&self, since_us: i64) -> (Vec<Dated>, broadcast::Receiver<Dated>) {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let past = kept.iter().filter(|(at, _)| *at >= since_us).cloned().collect();
        (past, self.followers.subscribe())
    }
}
