//! What the kernel could not tell, because the ring was full: who stands, who has work on the GPU, and who has none any more.

use super::{FORGOTTEN_NS, Gates, Work, ns_now};
use crate::facts::launches::layout::Standing;

impl Gates {
    /// Looks through the kernel's own list of those it stopped, for whoever was not told of.
    pub(in crate::facts::launches) fn sweep(&mut self, let_all_go: bool) {
        let now = ns_now();
        let listed: Vec<(u32, Standing)> = self.tables.standing.iter().filter_map(Result::ok).collect();
        for (pid, standing) in listed {
            let Some(known) = self.tracked.get_mut(&pid).filter(|_| !let_all_go) else {
                // One that was stopped as its probes were taken out is nobody's to let go but ours.
                let _ = self.resume(pid);
                continue;
            };
            if known.stands.is_none() {
                let found = self.take(&standing.event(pid));
                self.outbox.extend(found.map(|(process, work)| (standing.since, process, work)));
            } else if let Some(work) =
                known.reminder(standing.value).filter(|_| now > standing.since + FORGOTTEN_NS)
                && std::mem::replace(&mut known.reminded_ns, standing.since) != standing.since
            {
                // For what it should stand, whoever decides knows; but its stop may have been old news, if another of its threads had done something
                // since.
                self.outbox.push((now, known.process, work));
            }
        }
    }

    /// How many events the kernel could not tell.
    pub(in crate::facts::launches) fn dropped(&self) -> u64 {
        self.tables.dropped.get(&0, 0).unwrap_or(0)
    }

    /// Tells what events that were dropped would have told: who has work on the GPU by now, and who has none any more. Who stands is found by
    /// `sweep`.
    pub(in crate::facts::launches) fn make_up_for_dropped(&mut self, now_ns: u64) {
        let dropped = self.dropped();
        if std::mem::replace(&mut self.made_up_for, dropped) == dropped {
            return;
        }
        for known in self.tracked.values_mut().filter(|known| known.covered && known.stands.is_none()) {
            let Ok(span) = self.tables.spans.get(&known.slot, 0) else { continue };
            let launched = span.is_in_the_way();
            if known.told.1 != launched {
                let work = if launched { Work::Submitted } else { Work::Drained };
                self.outbox.push((now_ns, known.process, work));
                known.is_told_of(now_ns, launched);
            }
            self.outbox.push((now_ns, known.process, Work::Memory(span.memory)));
        }
    }
}
