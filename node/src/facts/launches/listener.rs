//! The thread that hears from the kernel, and renews the lease of its gates.

use super::gates::LEASE_NS;
use super::layout::{Event, kind};
use super::words::{Word, in_order};
use super::{Seen, Shared, ns_now};
use crate::facts::exits::Exits;
use crate::facts::{News, Teller, Told, process};
use aya::maps::{MapData, RingBuf};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use sched::Instant;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// How often the lease is renewed and the kernel's list of those it stopped is looked through.
const TICK_NS: u64 = 100_000_000;
/// Events are read as long as they are no younger than what was done here is by that much: several processors write them, and not quite in order.
const LATER_NS: u64 = 1_000_000;
/// How many processes are remembered that started and were not seen to do more.
const STARTS_MAX: usize = 4096;

/// The thread that hears from the kernel.
pub(super) struct Listener {
    pub(super) shared: Arc<Shared>,
    pub(super) teller: Teller,
    pub(super) exits: Exits,
}

impl Listener {
    pub(super) fn run(self, mut ring: RingBuf<MapData>) {
        // Without this, a sleep of a millisecond takes 50 microseconds more.
        let _ = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1));
        let mut tick = ns_now();
        loop {
            let asked = self.shared.asked.swap(false, Ordering::Acquire);
            let now = ns_now();
            if now >= tick {
                tick = now + TICK_NS;
                self.tick(now);
            }
            let done = self.shared.gates().act(now);
            // After that, so that the word of all that was acted upon is in the ring.
            let (mut heard, until) = (Vec::new(), ns_now() + LATER_NS);
            while let Some(bytes) = ring.next() {
                heard.extend(Event::read(&bytes));
                // Programs may say more than we can read: the rest is for the next time, when everything else has had its turn.
                if heard.last().is_some_and(|event: &Event| event.at > until) {
                    break;
                }
            }
            let quiet = heard.is_empty();
            let mut renewed = now;
            for word in in_order(heard, done) {
                if !self.tell(&word) {
                    return;
                }
                // There may be much to tell, and the lease is short.
                let now = ns_now();
                if now >= renewed + TICK_NS {
                    renewed = now;
                    self.renew(now);
                }
            }
            if asked {
                self.teller.tell_at(instant(now), Told::Probes(Seen::Heard));
            }
            // What was heard may let somebody go on.
            if quiet {
                let next = self.shared.gates().next_ns();
                self.sleep(&ring, next.map_or(tick, |next| next.min(tick)));
            }
        }
    }

    /// Passes a word on. False once nobody listens.
    fn tell(&self, word: &Word) -> bool {
        match *word {
            Word::Heard(ref event) => self.take(event),
            Word::Done(at, process, work) => {
                self.teller.tell_at(instant(at), Told::Probes(Seen::Work(process, work)))
            }
        }
    }

    /// Passes an event on. False once nobody listens.
    fn take(&self, event: &Event) -> bool {
        let at = instant(event.at);
        match event.kind {
            kind::INIT => self.meet(at, event.pid),
            kind::CONTEXT => {
                self.shared.gates().has_context(event.pid);
                // A process whose start was not seen has launched, for all we know.
                let first = self
                    .shared
                    .starts()
                    .get_mut(&event.pid)
                    .is_some_and(|known| !std::mem::replace(known, true));
                match self.exits.known(event.pid).filter(|_| first) {
                    Some(process) => self.teller.tell_at(at, Told::Probes(Seen::Context(process))),
                    None => true,
                }
            }
            _ => {
                // Telling may wait for the owner, who may wait for the gates.
                let taken = self.shared.gates().take(event);
                taken.is_none_or(|(process, work)| {
                    self.teller.tell_at(at, Told::Probes(Seen::Work(process, work)))
                })
            }
        }
    }

    /// The first call of a process into the driver.
    fn meet(&self, at: Instant, pid: u32) -> bool {
        let Some((process, home)) = process::look(pid) else { return true };
        // A program may ask for the driver again and again; only its first call is its start.
        if self.exits.known(pid) == Some(process) && self.shared.starts().contains_key(&pid) {
            return true;
        }
        if self.exits.known(pid) != Some(process) && !self.exits.watch(process) {
            return true;
        }
        {
            let mut starts = self.shared.starts();
            if starts.len() >= STARTS_MAX {
                starts.clear();
            }
            starts.insert(pid, false);
        }
        self.teller.tell_at(at, Told::Probes(Seen::Init(process, home)))
    }

    pub(super) fn tick(&self, now: u64) {
        let mut gates = self.shared.gates();
        // Behind the lock, or what was ordered for good would be overtaken.
        let beat = self.shared.beat_ns.load(Ordering::Relaxed);
        let alive = now.saturating_sub(beat) < LEASE_NS;
        gates.renew(beat + LEASE_NS);
        gates.sweep(!alive);
        gates.make_up_for_dropped(now);
        if gates.is_empty() {
            self.shared.beat_ns.store(now, Ordering::Relaxed);
        } else {
            // An owner with much to do answers later; one that hangs never does.
            let _ = self.teller.0.try_send(News { at: instant(now), told: Told::Probes(Seen::Beat) });
        }
    }

    /// Renews the lease between two words. Telling them waits for the owner as well, so this may: one that hangs never answers.
    fn renew(&self, now: u64) {
        let mut gates = self.shared.gates();
        gates.renew(self.shared.beat_ns.load(Ordering::Relaxed) + LEASE_NS);
        drop(gates);
        self.teller.tell_at(instant(now), Told::Probes(Seen::Beat));
    }

    fn sleep(&self, ring: &RingBuf<MapData>, until_ns: u64) {
        let left = until_ns.saturating_sub(ns_now());
        let timeout =
            Timespec { tv_sec: (left / 1_000_000_000) as i64, tv_nsec: (left % 1_000_000_000) as i64 };
        let ring = ring.as_fd();
        let mut ready = [
            PollFd::new(&ring, PollFlags::IN),
            PollFd::from_borrowed_fd(self.shared.wake.as_fd(), PollFlags::IN),
        ];
        let _ = poll(&mut ready, Some(&timeout));
        let mut count = [0; 8];
        let _ = rustix::io::read(&self.shared.wake, &mut count);
    }
}

/// A moment of the kernel's.
fn instant(ns: u64) -> Instant {
    Instant::from_micros(ns / 1000)
}
