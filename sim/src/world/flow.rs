//! How work flows between two events: at constant rates, so that the next event can be computed.

use super::World;
use super::process::{Proc, Step, WORK_PER_US};
use crate::outcome::{Stretch, StretchKind};
use sched::{Instant, Span};

impl World<'_> {
    /// When the first stretch of work now flowing comes to its end.
    pub(super) fn next_completion(&self) -> Option<Instant> {
        let ends = self.live.iter().filter_map(|index| {
            let proc = self.procs[*index].as_ref()?;
            let own = self.own_rate(proc).map(|rate| proc.left.div_ceil(rate));
            let kernels = (proc.in_flight > 0).then(|| proc.in_flight.div_ceil(self.kernel_rate(proc.gpu)));
            own.into_iter().chain(kernels).min()
        });
        ends.min().map(|micros| self.now + Span::from_micros(micros as i64))
    }

    /// Lets everything flow until then.
    pub(super) fn flow_until(&mut self, next: Instant) {
        let span = next.since(self.now);
        if span > Span::ZERO {
            let micros = span.as_micros() as u64;
            let kernel_rates: Vec<u64> = (0..self.devices.len()).map(|gpu| self.kernel_rate(gpu)).collect();
            let busy: Vec<bool> = (0..self.devices.len()).map(|gpu| self.sharers(gpu) > 0).collect();
            for index in 0..self.live.len() {
                let index = self.live[index];
                let Some(proc) = self.procs[index].as_ref() else { continue };
                let own = self.own_rate(proc).unwrap_or(0);
                self.note_stretch(index, next);
                let Some(proc) = self.procs[index].as_mut() else { continue };
                proc.left = proc.left.saturating_sub(own * micros);
                proc.in_flight = proc.in_flight.saturating_sub(kernel_rates[proc.gpu] * micros);
            }
            for (device, busy) in self.devices.iter_mut().zip(busy) {
                device.busy += if busy { span } else { Span::ZERO };
            }
        }
        self.now = next;
    }

    /// How many processes have kernels on a GPU.
    fn sharers(&self, gpu: usize) -> u64 {
        let procs = self.live.iter().filter_map(|index| self.procs[*index].as_ref());
        procs.filter(|proc| proc.gpu == gpu && proc.in_flight > 0).count() as u64
    }

    /// Work per microsecond that each of them gets.
    fn kernel_rate(&self, gpu: usize) -> u64 {
        match self.sharers(gpu) {
            0 | 1 => WORK_PER_US,
            sharers => WORK_PER_US * 1000 / (sharers * (1000 + self.setup.costs.slicing_permille)),
        }
        .max(1)
    }

    /// Work per microsecond of the step a process is in, if that step flows.
    fn own_rate(&self, proc: &Proc) -> Option<u64> {
        if proc.computes_on_host() {
            return Some(WORK_PER_US);
        }
        proc.copies().then(|| {
            let procs = self.live.iter().filter_map(|index| self.procs[*index].as_ref());
            let copies = procs.filter(|other| other.gpu == proc.gpu && other.copies()).count() as u64;
            WORK_PER_US * copies.min(self.setup.costs.copies_at_once) / copies
        })
    }

    /// For the picture: what this process does until `next`.
    fn note_stretch(&mut self, index: usize, next: Instant) {
        if !self.setup.log {
            return;
        }
        let Some(proc) = self.procs[index].as_ref() else { return };
        let kind = if proc.in_flight > 0 {
            if self.sharers(proc.gpu) > 1 { StretchKind::Shares } else { StretchKind::Runs }
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
                Step::Synchronise => proc.in_flight == 0 && !proc.frozen,
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
