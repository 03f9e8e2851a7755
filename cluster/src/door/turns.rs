//! How many of something one address may have at a time.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

type Counts = Mutex<HashMap<IpAddr, usize>>;

/// Who has how many.
pub(super) struct Turns {
    each_max: usize,
    counts: Arc<Counts>,
}

/// One of them, for as long as this lives.
pub(super) struct Turn {
    address: IpAddr,
    counts: Arc<Counts>,
}

impl Turns {
    pub(super) fn new(each_max: usize) -> Self {
        Self { each_max, counts: Arc::default() }
    }

    /// One for that address, unless it has too many. Whoever is on this very machine may have any number: all agents of a measurement
    /// are.
    pub(super) fn take(&self, address: IpAddr) -> Option<Turn> {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        let count = counts.entry(address).or_default();
        if *count >= self.each_max && !address.is_loopback() {
            return None;
        }
        *count += 1;
        Some(Turn { address, counts: Arc::clone(&self.counts) })
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = counts.get_mut(&self.address) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&self.address);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_that_takes_many_turns_keeps_no_other_from_its_own() {
        let turns = Turns::new(2);
        let (greedy, other) = (IpAddr::from([10, 0, 0, 1]), IpAddr::from([10, 0, 0, 2]));
        let taken = [turns.take(greedy), turns.take(greedy)];
        assert!(turns.take(greedy).is_none());
        assert!(turns.take(other).is_some());
        drop(taken);
        assert!(turns.take(greedy).is_some());
        assert!(turns.counts.lock().unwrap().is_empty(), "nobody who has none is remembered");
        let home = IpAddr::from([127, 0, 0, 1]);
        assert!([turns.take(home), turns.take(home), turns.take(home)].iter().all(Option::is_some));
    }
}
