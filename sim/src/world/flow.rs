//! How work flows between two events: at constant rates, so that the next event can be computed.

use super::World;
use super::process::{Proc, Step, WORK_PER_US};
use crate::outcome::{Stretch, StretchKind};
use sched::{Instant, Span};

/// How fast things flow on one GPU, as work per microsecond.
struct Rates {
    /// Each process with kernels on it.
    kernels: u64,
    /// Each copy.
    copies: u64,
    /// How many processes have kernels on it.
    sharers: u64,
}

impl World<'_> {
    /// When the first stretch of work now flowing comes to its end.
    pub(super) fn next_completion(&self) -> Option<Instant> {
        let rates = self.rates();
        let ends = self.live_procs().filter_map(|proc| {
            let rates = &rates[proc.gpu];
            let own = own_rate(proc, rates).map(|rate| proc.left.div_ceil(rate));
            let kernels = (proc.in_flight > 0).then(|| proc.in_flight.div_ceil(rates.kernels));
            own.into_iter().chain(kernels).min()
        });
        ends.min().map(|micros| self.now + Span::from_micros(micros as i64))
    }

    /// Lets everything flow until then.
    pub(super) fn flow_until(&mut self, next: Instant) {
        let span = next.since(self.now);
        if span > Span::ZERO {
            let micros = span.as_micros() as u64;
            let rates = self.rates();
            for index in self.live.clone() {
                self.note_stretch(index, next, &rates);
                let Some(proc) = self.procs[index].as_mut() else { continue };
                let own = own_rate(proc, &rates[proc.gpu]).unwrap_or(0);
                proc.left = proc.left.saturating_sub(own * micros);
                proc.in_flight = proc.in_flight.saturating_sub(rates[proc.gpu].kernels * micros);
            }
            for (device, rates) in self.devices.iter_mut().zip(&rates) {
                device.busy += if rates.sharers > 0 { span } else { Span::ZERO };
            }
        }
        self.now = next;
    }

    fn live_procs(&self) -> impl Iterator<Item = &Proc> {
        self.live.iter().filter_map(|index| self.procs[*index].as_ref())
    }

    /// Kernels of several processes are time-sliced, at its cost; copies share the link.
    fn rates(&self) -> Vec<Rates> {
        let mut counts = vec![(0_u64, 0_u64); self.devices.len()];
        for proc in self.live_procs() {
            counts[proc.gpu].0 += u64::from(proc.in_flight > 0);
            counts[proc.gpu].1 += u64::from(proc.copies());
        }
        let costs = &self.setup.costs;
        let rates = counts.into_iter().map(|(sharers, copies)| Rates {
            kernels: match sharers {
                0 | 1 => WORK_PER_US,
                _ => (WORK_PER_US * 1000 / (sharers * (1000 + costs.slicing_permille))).max(1),
            },
            copies: (WORK_PER_US * copies.min(costs.copies_at_once) / copies.max(1)).max(1),
            sharers,
        });
        rates.collect()
    }

    /// For the picture: what this process does until `next`.
    fn note_stretch(&mut self, index: usize, next: Instant, rates: &[Rates]) {
        if !self.setup.log {
            return;
        }
        let Some(proc) = self.procs[index].as_ref() else { return };
        let kind = if proc.in_flight > 0 {
            if rates[proc.gpu].sharers > 1 { StretchKind::Shares } else { StretchKind::Runs }
        } else if proc.is_still() {
            StretchKind::Waits
        } else if proc.copies() {
            StretchKind::Copies
        } else {
            StretchKind::Prepares
        };
        let now = self.now;
        let last = self.spans.iter_mut().rev().find(|stretch| stretch.task == index);
        match last {
            Some(last) if last.kind == kind && last.until == now => last.until = next,
            _ => self.spans.push(Stretch { task: index, kind, from: now, until: next }),
        }
    }

    /// Brings every stretch that came to its end to the next step. Whether there was one.
    pub(super) fn complete(&mut self) -> bool {
        let ended = self.live.iter().copied().filter(|index| {
            self.procs[*index].as_ref().is_some_and(|proc| match proc.step {
                Step::Synchronise => proc.in_flight == 0 && !proc.is_still(),
                _ => (proc.computes_on_host() || proc.copies()) && proc.left == 0,
            })
        });
        let ended: Vec<usize> = ended.collect();
        for index in &ended {
            self.go_on(*index);
        }
        !ended.is_empty()
    }
}

/// Work per microsecond of the step a process is in, if that step flows.
fn own_rate(proc: &Proc, rates: &Rates) -> Option<u64> {
    if proc.computes_on_host() { Some(WORK_PER_US) } else { proc.copies().then_some(rates.copies) }
}
