//! How much others have in flight: who stands because it is too much, and how it goes on.

use super::{BOUND_MAX_NS, EARLY_NS, FORGOTTEN_NS, Gates, Going, Stand, Tracked, Work, ns_now};
use crate::facts::launches::layout::{BOUNDED, GpuOrders, SHUT_LAUNCHES, YIELDS};
use sched::Process;
use std::io;

impl Tracked {
    /// Until when it stands for what others have in flight.
    fn bound_until_ns(&self) -> Option<u64> {
        match self.stands {
            Some(Stand::Bound { until_ns, .. }) => Some(until_ns),
            _ => None,
        }
    }

    /// It stands no longer than that for what others have in flight.
    pub(super) fn stand_until(&mut self, moment_ns: u64) {
        if let Some(Stand::Bound { until_ns, .. }) = &mut self.stands {
            *until_ns = moment_ns.min(*until_ns);
        }
    }
}

impl Gates {
    /// When the bound next lets somebody go.
    pub(in crate::facts::launches) fn next_ns(&self) -> Option<u64> {
        self.tracked.values().filter_map(Tracked::bound_until_ns).min()
    }

    /// Lets those go for whom little enough is in flight.
    pub(super) fn let_the_bounded_go(&mut self, now_ns: u64) {
        let due = |known: &&Tracked| known.bound_until_ns().is_some_and(|until| until <= now_ns);
        let mut due: Vec<(u64, Process)> =
            self.tracked.values().filter(due).map(|known| (known.stopped_ns, known.process)).collect();
        // Whoever has stood for longest goes first.
        due.sort_unstable_by_key(|(stopped_ns, process)| (*stopped_ns, process.pid));
        for (_, process) in due {
            let urgent = self.urgent_on(process);
            let Some(known) = self.known(process) else { continue };
            let shut = known.orders.flags & SHUT_LAUNCHES != 0;
            let yields = known.orders.flags & YIELDS != 0;
            let makes_way = yields && urgent.is_some_and(|since| since != known.orders.beside);
            // Not earlier, or it would be told before the urgent work it makes way for.
            let at = ns_now();
            let held = matches!(known.stands, Some(Stand::Bound { held: true, .. }));
            if shut || makes_way {
                known.stands = Some(Stand::Launch);
                self.outbox.push((at, process, Work::AtLaunch));
            } else if let Some(until_ns) = self.taken_until_ns(process).filter(|until| *until > at) {
                self.put(process.pid, Stand::Bound { until_ns, held });
            } else {
                if self.resume(process.pid).is_err() {
                    // It is tried again, and not at once.
                    self.put(process.pid, Stand::Bound { until_ns: at + FORGOTTEN_NS, held });
                    continue;
                }
                self.outbox.extend(held.then_some((at, process, Work::Submitted)));
            }
        }
    }

    /// Lets a process on that stands at its launch: now, or when the work in flight is nearly done.
    pub(super) fn go_on(&mut self, process: Process) -> io::Result<()> {
        let now = ns_now();
        let bounded = self.known(process).filter(|known| known.orders.flags & BOUNDED != 0);
        let gpu = bounded.map(|known| known.orders.gpu);
        let done_ns = gpu.map_or(0, |gpu| self.nearly_done_ns(gpu));
        let taken_ns = gpu.and_then(|_| self.taken_until_ns(process)).unwrap_or(0);
        let until_ns = done_ns.max(taken_ns).min(now + BOUND_MAX_NS);
        if until_ns > now {
            self.put(process.pid, Stand::Bound { until_ns, held: true });
            return Ok(());
        }
        self.resume(process.pid)?;
        self.outbox.push((now, process, Work::Submitted));
        Ok(())
    }

    /// Something of what is in flight was done earlier than forecast, or nobody is in a hurry any more.
    pub(super) fn stand_no_longer_than_needed(&mut self, gpu: u32) {
        if self.tracked.values().all(|known| known.bound_until_ns().is_none()) {
            return;
        }
        let until_ns = self.nearly_done_ns(gpu);
        let here = self.tracked.values_mut().filter(|known| known.orders.gpu == gpu);
        here.for_each(|known| known.stand_until(until_ns));
    }

    /// Somebody died, and what it had in flight with it. How much that was, nobody knows: what others have is forgotten, too.
    pub(super) fn clear(&mut self, gpu: u32) {
        if let Ok(orders) = self.tables.gpu_orders.get(&gpu, 0) {
            let _ = self.tables.gpu_orders.set(gpu, GpuOrders { cleared: ns_now(), ..orders }, 0);
        }
        self.going.remove(&gpu);
        self.stand_no_longer_than_needed(gpu);
    }

    /// A process was let go where it stood: of those whose time in flight is bounded, the others there go one after another.
    pub(super) fn takes_its_turn(&mut self, pid: u32, stood: Option<Stand>, since_ns: u64) {
        let launches = matches!(stood, Some(Stand::Launch | Stand::Bound { .. }));
        let bounded = |known: &&Tracked| launches && !known.moves && known.orders.flags & BOUNDED != 0;
        let Some(known) = self.tracked.get(&pid).filter(bounded) else { return };
        let estimate = self.tables.spans.get(&known.slot, 0).map_or(0, |span| span.estimate);
        let until_ns = since_ns + estimate.min(BOUND_MAX_NS).saturating_sub(EARLY_NS);
        self.going.insert(known.orders.gpu, Going { pid, since_ns, until_ns });
    }

    /// It has called the driver since it was let go, and the kernel knows of its launch.
    pub(super) fn has_gone(&mut self, pid: u32, at_ns: u64) {
        self.going.retain(|_, going| going.pid != pid || at_ns < going.since_ns);
    }

    /// Until when another of those whose time in flight is bounded has the GPU to itself, though the kernel does not know yet.
    fn taken_until_ns(&self, process: Process) -> Option<u64> {
        let known = self.tracked.get(&process.pid).filter(|known| known.orders.flags & BOUNDED != 0)?;
        let gpu = known.orders.gpu;
        let bound = self.tables.gpu_orders.get(&gpu, 0).unwrap_or_default().bound;
        let other = self.going.get(&gpu).filter(|going| going.pid != process.pid && bound > 0)?;
        // One after another, but nobody for longer than anybody stands.
        Some(other.until_ns.min(known.stopped_ns + BOUND_MAX_NS))
    }

    /// When what is in flight on a GPU is nearly done; long ago, if it is not bounded.
    fn nearly_done_ns(&self, gpu: u32) -> u64 {
        let orders = self.tables.gpu_orders.get(&gpu, 0).unwrap_or_default();
        let state = self.tables.gpu_states.get(&gpu, 0).unwrap_or_default();
        let counts = orders.bound > 0 && state.flown > orders.cleared;
        if counts { state.due.saturating_sub(EARLY_NS) } else { 0 }
    }
}
