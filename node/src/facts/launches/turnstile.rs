//! Contexts are made two at a time.
//!
//! Problem: the driver makes contexts one after another, but works on all that were asked for in turn, so that of ten that are asked for
//! together none is ready before the last: after 1.4 s, where one alone takes 0.15. Nobody can launch until then, and the GPU stands idle.
//!
//! Approach: a process that may share its GPU (which one it will use is not known yet, so all count as one) is stopped as it asks for its
//! first context, and let on when fewer than two others are at it, whoever is due first. The last is ready hardly later, and the first a second
//! sooner. Whoever takes too long is not waited for.
//!
//! Of those that start together, whoever is due first need not be the first to come: without more, it would be let on 0.3 s later, behind the two
//! that were. So while one is at it, the second place is kept for a while for those who have begun and are due before all that stand here.

use std::collections::{BTreeSet, HashMap};

/// How many contexts are made at once. With one, the driver idles between them; with four, the first waits for the fourth.
const AT_ONCE: usize = 2;
/// How long others wait for one.
const ENTERS_NS_MAX: u64 = 2_000_000_000;
/// How long the second place is kept for one that has begun. From its first call of the driver to its context it takes 0.1 to 0.2 s.
const EXPECTED_NS_MAX: u64 = 300_000_000;

/// Who makes a context, who waits to, and who will.
#[derive(Default)]
pub(super) struct Turnstile {
    entering: Vec<(u32, u64)>,
    /// By the moment each is due, in microseconds.
    waiting: BTreeSet<(u64, u32)>,
    /// The moment each is due, and until when a place is kept for it.
    expected: HashMap<u32, (u64, u64)>,
}

impl Turnstile {
    /// A process has begun, and will come.
    pub(super) fn expect(&mut self, pid: u32, due_us: u64, now_ns: u64) {
        self.expected.insert(pid, (due_us, now_ns + EXPECTED_NS_MAX));
    }

    /// A process stands before its first context.
    pub(super) fn comes(&mut self, pid: u32, due_us: u64) {
        self.expected.remove(&pid);
        self.waiting.insert((due_us, pid));
    }

    /// It has one, or never will.
    pub(super) fn is_through(&mut self, pid: u32) {
        self.expected.remove(&pid);
        self.entering.retain(|(entering, _)| *entering != pid);
        self.waiting.retain(|(_, waiting)| *waiting != pid);
    }

    /// Whose turn it is.
    pub(super) fn next(&mut self, now_ns: u64) -> Option<u32> {
        self.entering.retain(|(_, since)| now_ns < since + ENTERS_NS_MAX);
        if self.entering.len() >= AT_ONCE {
            return None;
        }
        let (due_us, pid) = *self.waiting.first()?;
        let mut expected = self.expected.values();
        if !self.entering.is_empty() && expected.any(|(due, until)| *due < due_us && now_ns < *until) {
            return None;
        }
        self.waiting.pop_first();
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

    #[test]
    fn the_second_place_is_kept_for_who_is_due_sooner_and_has_begun() {
        let mut turnstile = Turnstile::default();
        (1..=4).for_each(|pid| turnstile.expect(pid, u64::from(pid), 0));
        turnstile.comes(3, 3);
        turnstile.comes(4, 4);
        assert_eq!(let_on(&mut turnstile, 1), [3], "somebody is at it at all times");
        turnstile.comes(2, 2);
        assert_eq!(let_on(&mut turnstile, 2), [] as [u32; 0], "1 is due sooner");
        turnstile.comes(1, 1);
        assert_eq!(let_on(&mut turnstile, 3), [1]);
        turnstile.is_through(1);
        assert_eq!(let_on(&mut turnstile, 4), [2], "nobody else is expected");
    }

    #[test]
    fn no_place_is_kept_for_long_or_for_who_went_away() {
        let mut turnstile = Turnstile::default();
        turnstile.expect(1, 1, 0);
        (2..=5).for_each(|pid| turnstile.comes(pid, u64::from(pid)));
        assert_eq!(let_on(&mut turnstile, EXPECTED_NS_MAX - 1), [2]);
        assert_eq!(let_on(&mut turnstile, EXPECTED_NS_MAX), [3]);
        turnstile.is_through(3);
        turnstile.expect(6, 0, EXPECTED_NS_MAX);
        turnstile.is_through(6);
        assert_eq!(let_on(&mut turnstile, EXPECTED_NS_MAX + 1), [4]);
    }
}
