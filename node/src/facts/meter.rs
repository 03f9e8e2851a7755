//! How much GPU memory a process has allocated, from NVML's figure, which includes its context.
//!
//! Problem: a context takes hundreds of MiB before the program allocates anything, and NVML tells the two apart for nobody.
//! Approach: what is seen first, and for the short while in which a context grows, is the context; what comes on top is
//! allocated. A process that was there before we looked is taken to have a context like the last one seen on that GPU.

use sched::{Instant, Span};

/// How long a context grows: measured, it takes one or two polls.
const CONTEXT_GROWS: Span = Span::from_millis(20);

/// The memory of one process on one GPU.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Meter {
    context: u64,
    /// Until when what is seen counts as context; none before the first figure above zero.
    settles: Option<Instant>,
    told: u64,
}

impl Meter {
    /// A process that was there before we looked: its context is taken to be like another's.
    pub(super) fn late(context: u64) -> Self {
        Self { context, settles: Some(Instant::ZERO), told: 0 }
    }

    /// The context's size, once it is known.
    pub(super) fn context(&self, now: Instant) -> Option<u64> {
        self.settles.filter(|settles| *settles < now).map(|_| self.context)
    }

    /// Takes NVML's figure; what is allocated, if that changed.
    pub(super) fn read(&mut self, now: Instant, figure: u64) -> Option<u64> {
        if self.settles.is_none() && figure > 0 {
            self.settles = Some(now + CONTEXT_GROWS);
        }
        if self.settles.is_some_and(|settles| now < settles) {
            self.context = self.context.max(figure);
        }
        // Less than the context: it was guessed too large, or the context was destroyed.
        let allocated = figure.saturating_sub(self.context);
        (std::mem::replace(&mut self.told, allocated) != allocated).then_some(allocated)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: i64) -> Instant {
        Instant::from_micros(1_000_000) + Span::from_millis(millis)
    }

    #[test]
    fn a_context_is_no_allocation() {
        let mut meter = Meter::default();
        assert_eq!(meter.read(at(0), 0), None);
        assert_eq!(meter.read(at(5), 300), None);
        assert_eq!(meter.read(at(10), 500), None);
        assert_eq!(meter.context(at(10)), None);
        assert_eq!(meter.read(at(100), 500), None);
        assert_eq!(meter.context(at(100)), Some(500));
        assert_eq!(meter.read(at(105), 2_500), Some(2_000));
        assert_eq!(meter.read(at(110), 2_500), None);
        assert_eq!(meter.read(at(115), 500), Some(0));
        assert_eq!(meter.read(at(120), 0), None);
    }

    #[test]
    fn a_process_that_was_there_has_a_context_like_another() {
        let mut meter = Meter::late(500);
        assert_eq!(meter.read(at(0), 2_500), Some(2_000));
        assert_eq!(Meter::late(500).read(at(0), 400), None);
    }
}
