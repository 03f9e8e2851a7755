//! Whether this node may go on running what a master could place elsewhere: it lasts as long as masters say so.
//!
//! A master places what this node ran on another once swarm has lost the node and the node's agent is silent. So what counts here
//! is the word of a master, over TLS with certificates on both sides, that sees a swarm leader and hears from it that this node is
//! there. That a machine answers says nothing: a firewall does, and so does a machine whose master was stopped.
//!
//! Masters that are stopped on purpose say farewell. When all of them have, this node has minutes instead of seconds: one that starts
//! anew and has never heard of this node waits longer still.

use super::farewells::Gone;
use std::collections::HashSet;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How long after the last such word. With the 8 s that a cut takes to be seen, a master that waits 30 s is sure.
pub(super) const CUT_OFF_AFTER: Duration = Duration::from_secs(10);
/// The same where a master answers that swarm has no leader, which it knows within 9 s: swarm may be electing one.
const LEADERLESS_AFTER: Duration = Duration::from_secs(18);
/// The same where all masters have said farewell. A master waits 300 s for nodes that it never heard of.
const FAREWELL_AFTER: Duration = Duration::from_mins(4);

/// What a master says of this node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Word {
    /// There is a leader, and swarm has this node.
    Stay,
    /// It sees no leader.
    Leaderless,
    /// Swarm has lost this node.
    Lost,
}

/// What masters said last.
pub(super) struct Contact(Mutex<Heard>);

struct Heard {
    /// When the agent started: it has a while to ask, whatever was said to the one before it.
    started: Instant,
    /// When one of them last let us stay.
    at: Instant,
    /// Since then, when the first came back after all had said farewell: it may not let us stay yet, and has a while to do so.
    back: Option<Instant>,
    /// How many streams are open to masters that do now.
    staying: usize,
    /// How many to masters that see no leader.
    leaderless: usize,
    /// Everybody who could place elsewhere what runs here.
    masters: Vec<String>,
    /// Those who have said farewell, and were not back since.
    farewells: HashSet<String>,
}

impl Contact {
    /// `gone` is what the agent before this one knew, if all masters had said farewell to it. Of masters that were gone for longer
    /// than it would have waited, it says nothing.
    pub(super) fn new(masters: Vec<String>, gone: Option<Gone>) -> Self {
        let (started, farewells) = (Instant::now(), HashSet::new());
        let mut heard =
            Heard { started, at: started, back: None, staying: 0, leaderless: 0, masters, farewells };
        let gone = gone.filter(|(at, farewells)| {
            heard.masters.iter().all(|master| farewells.contains(master)) && *at + FAREWELL_AFTER > started
        });
        if let Some(gone) = gone {
            (heard.at, heard.farewells) = gone;
        }
        Self(Mutex::new(heard))
    }

    /// When a master last let us stay, if all of them have said farewell since.
    pub(super) fn all_gone(&self) -> Option<Gone> {
        let heard = self.lock();
        (heard.all_are_gone() && heard.staying == 0).then(|| (heard.at, heard.farewells.clone()))
    }

    /// These are the masters now.
    pub(super) fn set_masters(&self, masters: Vec<String>) {
        self.lock().masters = masters;
    }

    /// A master let us stay, though no stream is open: this node is no member any more, and runs on as any other of the swarm's.
    pub(super) fn renew(&self) {
        self.lock().stay();
    }

    /// What is said over one stream was one thing and is another now; nothing while it is not open.
    pub(super) fn change(&self, from: Option<Word>, to: Option<Word>) {
        let mut heard = self.lock();
        // Until now somebody let us stay, or does from now on.
        if from == Some(Word::Stay) || to == Some(Word::Stay) {
            heard.stay();
        }
        match from {
            Some(Word::Stay) => heard.staying -= 1,
            Some(Word::Leaderless) => heard.leaderless -= 1,
            Some(Word::Lost) | None => {}
        }
        match to {
            Some(Word::Stay) => heard.staying += 1,
            Some(Word::Leaderless) => heard.leaderless += 1,
            Some(Word::Lost) | None => {}
        }
    }

    /// A master has come, or goes in good order (true).
    pub(super) fn farewell(&self, master: &str, goes: bool) {
        let mut heard = self.lock();
        if goes {
            heard.farewells.insert(master.to_owned());
            return;
        }
        if heard.all_are_gone() {
            heard.back = Some(Instant::now());
        }
        heard.farewells.remove(master);
    }

    pub(super) fn is_cut_off(&self, now: Instant) -> bool {
        let heard = self.lock();
        heard.staying == 0 && now >= heard.end()
    }

    fn lock(&self) -> MutexGuard<'_, Heard> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Heard {
    fn stay(&mut self) {
        (self.at, self.back) = (Instant::now(), None);
    }

    fn all_are_gone(&self) -> bool {
        self.masters.iter().all(|master| self.farewells.contains(master))
    }

    /// When this node is cut off, if nobody lets it stay until then.
    fn end(&self) -> Instant {
        let at_last = (self.at + FAREWELL_AFTER).max(self.started + CUT_OFF_AFTER);
        if self.all_are_gone() {
            return at_last;
        }
        let patience = if self.leaderless > 0 { LEADERLESS_AFTER } else { CUT_OFF_AFTER };
        at_last.min(self.back.unwrap_or(self.at) + patience)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A_MOMENT: Duration = Duration::from_secs(1);

    fn contact() -> Contact {
        Contact::new(vec!["a".to_owned(), "b".to_owned()], None)
    }

    #[test]
    fn a_node_is_cut_off_when_no_master_said_anything_for_a_while() {
        let (contact, now) = (contact(), Instant::now());
        assert!(!contact.is_cut_off(now));
        assert!(contact.is_cut_off(now + CUT_OFF_AFTER + A_MOMENT));
        contact.change(None, Some(Word::Stay));
        assert!(!contact.is_cut_off(now + CUT_OFF_AFTER * 9), "a stream is open");
        contact.change(Some(Word::Stay), Some(Word::Leaderless));
        let now = Instant::now();
        assert!(!contact.is_cut_off(now + CUT_OFF_AFTER), "swarm may be electing a leader");
        assert!(contact.is_cut_off(now + LEADERLESS_AFTER));
        contact.change(Some(Word::Leaderless), None);
        assert!(contact.is_cut_off(now + CUT_OFF_AFTER + A_MOMENT));
    }

    #[test]
    fn a_node_that_swarm_has_lost_is_cut_off_though_its_agent_is_heard() {
        let contact = contact();
        contact.change(None, Some(Word::Stay));
        contact.change(None, Some(Word::Lost));
        assert!(!contact.is_cut_off(Instant::now() + CUT_OFF_AFTER * 9), "another master sees it");
        contact.change(Some(Word::Stay), Some(Word::Lost));
        assert!(contact.is_cut_off(Instant::now() + CUT_OFF_AFTER));
    }

    #[test]
    fn masters_that_are_all_stopped_on_purpose_stop_nothing_for_minutes() {
        let contact = contact();
        let soon = || Instant::now() + CUT_OFF_AFTER + A_MOMENT;
        contact.farewell("a", true);
        assert!(contact.is_cut_off(soon()), "who knows what became of the other");
        contact.farewell("b", true);
        assert!(!contact.is_cut_off(soon()));
        assert!(contact.is_cut_off(Instant::now() + FAREWELL_AFTER));
        contact.lock().at -= CUT_OFF_AFTER;
        contact.farewell("a", false);
        assert!(!contact.is_cut_off(Instant::now()), "it is back, and has a while to find a leader");
        assert!(contact.is_cut_off(soon()));
        contact.set_masters(vec!["b".to_owned()]);
        assert!(!contact.is_cut_off(soon()), "it is no master any more");
        contact.set_masters(vec!["a".to_owned(), "b".to_owned()]);
        contact.farewell("a", true);
        contact.lock().at -= FAREWELL_AFTER;
        contact.lock().started -= FAREWELL_AFTER;
        contact.farewell("a", false);
        assert!(contact.is_cut_off(Instant::now()), "to and fro does not last for ever");
    }

    #[test]
    fn an_agent_that_starts_anew_has_what_is_left_of_the_farewell_and_time_to_ask() {
        let masters = || vec!["a".to_owned(), "b".to_owned()];
        let started = |ago: Duration, said: &[&str]| {
            let said = said.iter().map(|master| (*master).to_owned()).collect();
            Contact::new(masters(), Some((Instant::now().checked_sub(ago).unwrap(), said)))
        };
        let (now, all) = (Instant::now(), ["a", "b"]);
        let minute = Duration::from_mins(1);
        assert!(!started(minute, &all).is_cut_off(now + 2 * minute));
        assert!(started(minute, &all).is_cut_off(now + 3 * minute + A_MOMENT));
        assert!(started(minute, &["a"]).is_cut_off(now + minute), "there is another master by now");
        for long_ago in [FAREWELL_AFTER.saturating_sub(A_MOMENT), FAREWELL_AFTER + minute] {
            let contact = started(long_ago, &all);
            assert!(!contact.is_cut_off(now + CUT_OFF_AFTER / 2), "masters may be back");
            assert!(contact.is_cut_off(now + CUT_OFF_AFTER + A_MOMENT));
        }
    }

    #[test]
    fn a_node_that_was_removed_runs_on_while_it_is_told_so() {
        let contact = contact();
        contact.lock().at -= CUT_OFF_AFTER;
        assert!(contact.is_cut_off(Instant::now()));
        contact.renew();
        assert!(!contact.is_cut_off(Instant::now()));
    }
}
