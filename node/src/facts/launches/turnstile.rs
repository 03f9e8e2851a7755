//! Contexts are made two at a time.
//!
//! Problem: the driver makes contexts one after another, but works on all that were asked for in turn, so that of ten that are asked for
//! together none is ready before the last: after 1.4 s, where one alone takes 0.15. Nobody can launch until then, and the GPU stands idle.
//!
//! Approach: a process that may share its GPU (which one it will use is not known yet, so all count as one) is stopped as it asks for its
//! first context, and let on when fewer than two others are at it, whoever is due first. The last is ready no later, and the first a second sooner. Whoever takes too long is not waited for.

use std::collections::BTreeSet;

/// How many contexts are made at once. With one, the driver idles between them; with four, the first waits for the fourth.
const AT_ONCE: usize = 2;
/// How long others wait for one.
const ENTERS_NS_MAX: u64 = 2_000_000_000;

/// Who makes a context, and who waits to.
#[derive(Default)]
pub(super) struct Turnstile {
    entering: Vec<(u32, u64)>,
    /// By the moment each is due, in microseconds.
    waiting: BTreeSet<(u64, u32)>,
}

impl Turnstile {
    /// A process stands before its first context.
    pub(super) fn comes(&mut self, pid: u32, due_us: u64) {
        self.waiting.insert((due_us, pid));
    }

    /// It has one, or never will.
    pub(super) fn is_through(&mut self, pid: u32) {
        self.entering.retain(|(entering, _)| *entering != pid);
        self.waiting.retain(|(_, waiting)| *waiting != pid);
    }

    /// Whose turn it is.
    pub(super) fn next(&mut self, now_ns: u64) -> Option<u32> {
        self.entering.retain(|(_, since)| now_ns < since + ENTERS_NS_MAX);
        if self.entering.len() >= AT_ONCE {
            return None;
        }
        let (_, pid) = self.waiting.pop_first()?;
        self.entering.push((pid, now_ns));
        Some(pid)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn let_on(turnstile: &mut Turnstile, now_ns: u64) -> Vec<u32> {
        std::iter::from_fn(|| turnstile.next(now_ns)).collect()
    }

    #[test]
    fn two_at_a_time_and_whoever_is_due_first() {
        let mut turnstile = Turnstile::default();
        (1..=5).for_each(|pid| turnstile.comes(pid, 100 - u64::from(pid)));
        turnstile.comes(3, 97);
        assert_eq!(let_on(&mut turnstile, 0), [5, 4]);
        turnstile.is_through(4);
        assert_eq!(let_on(&mut turnstile, 1), [3]);
        turnstile.is_through(2);
        turnstile.is_through(5);
        turnstile.is_through(3);
        assert_eq!(let_on(&mut turnstile, 2), [1], "2 went away");
        assert_eq!(let_on(&mut turnstile, 3), [] as [u32; 0]);
    }

    #[test]
    fn whoever_takes_too_long_is_not_waited_for() {
        let mut turnstile = Turnstile::default();
        (1..=3).for_each(|pid| turnstile.comes(pid, 0));
        assert_eq!(let_on(&mut turnstile, 0), [1, 2]);
        assert_eq!(let_on(&mut turnstile, ENTERS_NS_MAX - 1), [] as [u32; 0]);
        assert_eq!(let_on(&mut turnstile, ENTERS_NS_MAX), [3]);
    }
}
