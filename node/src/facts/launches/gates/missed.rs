//! What the kernel could not tell, because the ring was full: who stands, who has work on the GPU, and who has none any more.

use super::{FORGOTTEN_NS, Gates, Has, Stand, Tracked, Work, ns_now};
use crate::facts::launches::layout::{Span, Standing, TELL_COPIES};
use crate::facts::process::is_asleep;

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
                continue;
            }
            let process = known.process;
            let missed = if now > standing.began + FORGOTTEN_NS && is_asleep(process) {
                let span = self.tables.spans.get(&known.slot, 0);
                known.goes_on_by_itself(&standing, span.is_ok_and(Span::is_busy), now)
            } else {
                known.may_be_forgotten(&standing, now).into_iter().collect()
            };
            self.outbox.extend(missed.into_iter().map(|work| (now, process, work)));
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
        for known in self.tracked.values_mut() {
            let Ok(span) = self.tables.spans.get(&known.slot, 0) else { continue };
            // One that is known to stand at an allocation would seem to go on; once it does, it is told what it has then.
            let memory = (known.stands != Some(Stand::Allocation)).then_some(Work::Memory(span.memory));
            let missed = known.missed(&span, now_ns).into_iter().chain(memory);
            self.outbox.extend(missed.map(|work| (now_ns, known.process, work)));
        }
    }
}

impl Tracked {
    /// It was stopped, and is asleep in a call of its own: somebody else let it go. If each of its threads launches once, none of them comes again, and the
    /// kernel's program notices nothing.
    fn goes_on_by_itself(&mut self, standing: &Standing, busy: bool, now_ns: u64) -> Vec<Work> {
        let leak = self.leak(standing.since, standing.why);
        // What it launched then may have been done long ago.
        let over = leak.filter(|work| *work == Work::Leaked && !busy).map(|_| Work::Drained);
        if over.is_some() {
            self.is_told_of(now_ns, Has::Nothing);
        }
        leak.into_iter().chain(over).collect()
    }

    /// For what it should stand, whoever decides knows; but its stop may have been old news, if another of its threads had done something since.
    fn may_be_forgotten(&mut self, standing: &Standing, now_ns: u64) -> Option<Work> {
        let told = [self.reminded_ns, self.leaked_ns].contains(&standing.since);
        if told || now_ns <= standing.since + FORGOTTEN_NS {
            return None;
        }
        let work = self.reminder(standing.value)?;
        self.reminded_ns = standing.since;
        Some(work)
    }

    /// What was not told of its work. Of who stands it is told where it stands, and of one whose allocations alone are seen nothing.
    fn missed(&mut self, span: &Span, now_ns: u64) -> Vec<Work> {
        if !self.covered || self.stands.is_some() {
            return Vec::new();
        }
        let (has, told) = (self.has(span), self.told.1);
        self.is_told_of(now_ns, has);
        let begun = match has {
            Has::Nothing => None,
            Has::Copies => Some(Work::Copies),
            Has::Launches => Some(Work::Submitted),
        };
        // What was told is over, and something else has begun since.
        let over = (has < told).then_some(Work::Drained);
        over.into_iter().chain(begun.filter(|_| has != told)).collect()
    }

    /// What it has on the GPU that anybody should know of: copies alone only where its requests are tasks.
    fn has(&self, span: &Span) -> Has {
        match (span.is_in_the_way(), span.is_busy()) {
            (true, _) => Has::Launches,
            (false, true) if self.orders.flags & TELL_COPIES != 0 => Has::Copies,
            _ => Has::Nothing,
        }
    }
}
