//! What the kernel says of those it watches, and what that means by now.

use super::{BOUND_MAX_NS, Gates, Has, Stand, Work};
use crate::facts::launches::layout::{Event, kind};
use rustix::process::{Signal, pidfd_send_signal};
use sched::Process;

impl Gates {
    /// What an event means, if it is of a process that is probed.
    pub(in crate::facts::launches) fn take(&mut self, event: &Event) -> Option<(Process, Work)> {
        let Some(process) = self.tracked.get(&event.pid).map(|known| known.process) else {
            // The kernel was about to stop it as it was struck off.
            if kind::STANDS.contains(&event.kind) {
                let _ = self.resume(event.pid);
            }
            return None;
        };
        if kind::STANDS.contains(&event.kind) && !self.is_news(event) {
            return None;
        }
        if !matches!(event.kind, kind::MEMORY | kind::STAND_ALLOCATION) {
            self.has_gone(event.pid, event.at);
        }
        let known = self.tracked.get_mut(&event.pid)?;
        if known.must_not_stand(event.kind) {
            let launches = event.kind == kind::STAND;
            if launches {
                known.is_told_of(event.at, Has::Launches);
            }
            let _ = self.resume(event.pid);
            // It launches, if only once its memory is back.
            return launches.then_some((process, Work::Submitted));
        }
        let work = match event.kind {
            kind::COPY => {
                known.is_told_of(event.at, Has::Copies);
                Work::Copies
            }
            kind::LAUNCH => {
                known.is_told_of(event.at, Has::Launches);
                Work::Submitted
            }
            kind::DRAIN => {
                let gpu = known.orders.gpu;
                known.is_told_of(event.at, Has::Nothing);
                self.stand_no_longer_than_needed(gpu);
                Work::Drained
            }
            kind::STAND => {
                known.stands = Some(Stand::Launch);
                Work::AtLaunch
            }
            kind::STAND_ALLOCATION => {
                known.stands = Some(Stand::Allocation);
                Work::AtAllocation(event.value)
            }
            kind::STAND_CONTEXT => {
                self.comes_to_its_context(event.pid);
                return None;
            }
            kind::STAND_BOUND => {
                let (gpu, until_ns) = (known.orders.gpu, event.value.min(event.at + BOUND_MAX_NS));
                known.stands = Some(Stand::Bound { until_ns, held: false });
                // What it stands for may have been done as it was stopped.
                self.stand_no_longer_than_needed(gpu);
                return None;
            }
            kind::LEAK => known.leak(known.stopped_ns, event.value as u32)?,
            kind::MEMORY => Work::Memory(event.value),
            _ => return None,
        };
        Some((process, work))
    }

    /// Whether a stop is in the kernel's list, and was not found there before its event was read. One that is not in the list is over: its process was
    /// let go, by us or by the guard, while we hung. If that was before the kernel had sent the signal, it stands all the same, and is let go now;
    /// and so is one that was stopped anew just before that, for its signal may be undone. A newer stop has an event of its own.
    fn is_news(&mut self, event: &Event) -> bool {
        if let Ok(standing) = self.tables.standing.get(&event.pid, 0) {
            let known = self.tracked.get_mut(&event.pid).filter(|_| standing.since == event.at);
            return known.is_some_and(|known| std::mem::replace(&mut known.stopped_ns, event.at) != event.at);
        }
        if let Some(known) = self.tracked.get(&event.pid) {
            let _ = pidfd_send_signal(&known.pidfd, Signal::CONT);
        }
        if let Ok(newer) = self.tables.standing.get(&event.pid, 0) {
            let _ = self.resume(event.pid);
            if let Some(known) = self.tracked.get_mut(&event.pid).filter(|_| newer.why == kind::STAND) {
                known.is_told_of(newer.since, Has::Launches);
                self.outbox.push((newer.since, known.process, Work::Submitted));
            }
        }
        false
    }
}
