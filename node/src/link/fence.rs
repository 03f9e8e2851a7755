//! A node that no master can reach stops what another node may be running by now.
//!
//! Only containers that may move (`leeway.migrate=true`) and that a master placed. A master that was killed is no reason: its
//! machine still answers that nobody listens, and so this node is not cut off.

use super::client::KEEP_ALIVE;
use crate::run::Connect;
use bollard::query_parameters::{KillContainerOptions, ListContainersOptions};
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use wire::cluster::PLACEMENT;
use wire::labels::MIGRATE;

/// How long after the last sign of life. With the 8 s that a cut takes to be seen, a master that waits 30 s is sure.
const CUT_OFF_AFTER: Duration = Duration::from_secs(10);
/// The same where a master answers that swarm has no leader, which it knows within 7 s: swarm may be electing one.
const LEADERLESS_AFTER: Duration = Duration::from_secs(18);
/// How often to look.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// When any master's machine was last known to be there.
pub(super) struct Contact(Mutex<Seen>);

struct Seen {
    at: Instant,
    /// How many streams are open to masters that see a leader.
    led: usize,
    /// How many to others.
    leaderless: usize,
}

impl Contact {
    pub(super) fn new() -> Self {
        Self(Mutex::new(Seen { at: Instant::now(), led: 0, leaderless: 0 }))
    }

    /// A master's machine answered.
    pub(super) fn seen(&self) {
        self.lock().at = Instant::now();
    }

    /// A stream's master sees a leader (true), or sees none (false), or the stream is not open (none): from, to.
    pub(super) fn change(&self, from: Option<bool>, to: Option<bool>) {
        let mut seen = self.lock();
        // Until now somebody saw a leader, or does from now on.
        if from == Some(true) || to == Some(true) {
            seen.at = Instant::now();
        }
        match from {
            Some(true) => seen.led -= 1,
            Some(false) => seen.leaderless -= 1,
            None => {}
        }
        match to {
            Some(true) => seen.led += 1,
            Some(false) => seen.leaderless += 1,
            None => {}
        }
    }

    fn is_cut_off(&self, now: Instant) -> bool {
        let seen = self.lock();
        let after = if seen.leaderless > 0 { LEADERLESS_AFTER } else { CUT_OFF_AFTER };
        seen.led == 0 && now.duration_since(seen.at) >= after
    }

    fn lock(&self) -> MutexGuard<'_, Seen> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Stops what this node lost the right to run, for as long as it is cut off.
pub(super) async fn keep(contact: std::sync::Arc<Contact>, connect: Connect) {
    let mut said = false;
    loop {
        tokio::time::sleep(LOOK_EVERY).await;
        if !contact.is_cut_off(Instant::now()) {
            said = false;
            continue;
        }
        if !said {
            let seconds = (CUT_OFF_AFTER + 2 * KEEP_ALIVE).as_secs();
            eprintln!(
                "warning: no master was reached for up to {seconds} s: containers that may move are stopped here"
            );
            said = true;
        }
        if let Err(error) = stop(&connect).await {
            eprintln!("warning: containers that may move could not be stopped: {error}");
        }
    }
}

async fn stop(connect: &Connect) -> Result<(), String> {
    let docker = connect()?;
    let docker = docker.negotiate_version().await.map_err(|error| error.to_string())?;
    let labels = vec![format!("{MIGRATE}=true"), PLACEMENT.to_owned()];
    let options = ListContainersOptions {
        filters: Some(HashMap::from([("label".to_owned(), labels)])),
        ..ListContainersOptions::default()
    };
    let found = docker.list_containers(Some(options)).await.map_err(|error| error.to_string())?;
    // At once: one that takes long to die must not keep the others running.
    let ids: Vec<String> = found.into_iter().filter_map(|container| container.id).collect();
    let kill = |id| docker.kill_container(id, None::<KillContainerOptions>);
    let killed = futures_util::future::join_all(ids.iter().map(|id| kill(id))).await;
    for (id, killed) in ids.iter().zip(killed) {
        match killed {
            Ok(()) => {
                eprintln!(
                    "notice: container {id} is stopped: this node is cut off, and it may run elsewhere"
                );
            }
            Err(error) => eprintln!("warning: container {id} could not be stopped: {error}"),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_is_cut_off_when_nobody_was_there_for_a_while() {
        let contact = Contact::new();
        let now = Instant::now();
        assert!(!contact.is_cut_off(now));
        assert!(contact.is_cut_off(now + CUT_OFF_AFTER + LOOK_EVERY));
        contact.change(None, Some(true));
        assert!(!contact.is_cut_off(now + CUT_OFF_AFTER * 9), "a stream is open");
        contact.change(Some(true), Some(false));
        let now = Instant::now();
        assert!(!contact.is_cut_off(now + CUT_OFF_AFTER), "swarm may be electing a leader");
        assert!(contact.is_cut_off(now + LEADERLESS_AFTER));
        contact.change(Some(false), None);
        assert!(contact.is_cut_off(now + CUT_OFF_AFTER + LOOK_EVERY));
    }
}
