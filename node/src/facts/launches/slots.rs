//! Slots of the kernel's tables: each process that is probed has one, named in its probes.

use super::layout::SLOTS;
use std::collections::VecDeque;

/// The slots that are nobody's.
pub(super) struct Slots(VecDeque<u32>);

impl Slots {
    /// All but the first, which stands for none.
    pub(super) fn new() -> Self {
        Self((1..SLOTS).collect())
    }

    /// The one that has been nobody's for longest: its last owner's probes are out, most likely, and need not be told apart.
    pub(super) fn take(&mut self) -> Option<u32> {
        self.0.pop_front()
    }

    pub(super) fn give_back(&mut self, slot: u32) {
        self.0.push_back(slot);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_slot_is_given_once_and_the_longest_free_one_first() {
        let mut slots = Slots::new();
        let taken: Vec<u32> = std::iter::from_fn(|| slots.take()).collect();
        assert_eq!(taken, (1..SLOTS).collect::<Vec<_>>());
        slots.give_back(7);
        slots.give_back(3);
        assert_eq!([slots.take(), slots.take(), slots.take()], [Some(7), Some(3), None]);
    }
}
