//! Who stands although nobody ordered it, and how it goes on: too much is in flight, or urgent work came of which nobody has heard.

use super::{BOUND_MAX_NS, EARLY_NS, Gates, Stand, Tracked, UNTOLD_NS, Work, ns_now};
use crate::facts::launches::layout::{BOUNDED, SHUT_LAUNCHES, YIELDS};
use sched::Process;
use std::io;

impl Gates {
    /// When the bound next lets somebody go.
    pub(in crate::facts::launches) fn next_ns(&self) -> Option<u64> {
        self.tracked.values().filter_map(|known| known.stands?.ends_ns()).min()
    }

    /// Lets those go whose work in flight is nearly done.
    pub(in crate::facts::launches) fn let_the_bounded_go(&mut self, now_ns: u64) {
        let ends = |known: &Tracked| known.stands.and_then(Stand::ends_ns);
        let due = |known: &&Tracked| ends(known).is_some_and(|until| until <= now_ns);
        let due: Vec<Process> = self.tracked.values().filter(due).map(|known| known.process).collect();
        for process in due {
            let urgent = self.urgent_on(process);
            let heard = urgent.is_none_or(|since| self.has_told_of(process, since));
            let Some(known) = self.known(process) else { continue };
            let shut = known.orders.flags & SHUT_LAUNCHES != 0;
            let yields = known.orders.flags & YIELDS != 0;
            let makes_way = yields && urgent.is_some_and(|since| since != known.orders.beside);
            if makes_way && !shut && !heard {
                // Told now, it would seem to stand for nobody, and the next in turn would be let go: the word of the urgent launch is in the ring.
                known.stands = known.stands.map(|stand| stand.until(now_ns + UNTOLD_NS));
            } else if shut || makes_way {
                known.stands = Some(Stand::Launch);
                self.outbox.push((now_ns, process, Work::AtLaunch));
            } else if let Some(Stand::Unheard(_)) = known.stands {
                let _ = self.go_on(process);
            } else {
                let held = matches!(known.stands, Some(Stand::Bound(_, true)));
                let _ = self.resume(process.pid);
                self.outbox.extend(held.then_some((now_ns, process, Work::Submitted)));
            }
        }
    }

    /// Lets a process on that stands at its launch: now, or when the work in flight is nearly done.
    pub(super) fn go_on(&mut self, process: Process) -> io::Result<()> {
        let now = ns_now();
        let bounded = self.known(process).filter(|known| known.orders.flags & BOUNDED != 0);
        let gpu = bounded.map(|known| known.orders.gpu);
        let bound =
            gpu.and_then(|gpu| self.tables.gpu_orders.get(&gpu, 0).ok()).map_or(0, |orders| orders.bound);
        // Whoever has died took along what it had in flight.
        let state = gpu.and_then(|gpu| self.tables.gpu_states.get(&gpu, 0).ok());
        let due = state.filter(|state| self.tracked.contains_key(&state.latest)).map_or(0, |state| state.due);
        if bound > 0 && due > now + EARLY_NS {
            self.put(process.pid, Stand::Bound((due - EARLY_NS).min(now + BOUND_MAX_NS), true));
            return Ok(());
        }
        self.resume(process.pid)?;
        self.outbox.push((now, process, Work::Submitted));
        Ok(())
    }

    /// Nobody stands any longer for what a process had in flight that is gone.
    pub(super) fn forget_what_is_in_flight(&mut self, gone: u32, gpu: u32) {
        let now = ns_now();
        if self.tables.gpu_states.get(&gpu, 0).is_ok_and(|state| state.latest == gone) {
            for known in self.tracked.values_mut().filter(|known| known.orders.gpu == gpu) {
                known.stands = known.stands.map(|stand| stand.until(now));
            }
        }
    }
}
