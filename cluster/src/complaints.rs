//! What strangers do wrong, told once: a log that anybody can fill is no log.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How long the same complaint about the same address is not repeated.
const QUIET_FOR: Duration = Duration::from_mins(10);
/// How many complaints are remembered; beyond that, new ones are counted only.
const REMEMBERED_MAX: usize = 1000;

/// Complaints that were made.
#[derive(Default)]
pub(crate) struct Complaints(Mutex<Made>);

#[derive(Default)]
struct Made {
    latest: HashMap<(IpAddr, String), Instant>,
    count: u64,
}

impl Complaints {
    /// Tells of a wrong, unless it was told of a short while ago.
    pub(crate) fn tell(&self, address: IpAddr, wrong: &str) {
        if self.is_new(Instant::now(), address, wrong) {
            eprintln!("warning: refused {address}: {wrong}");
        }
    }

    /// How many wrongs there were, told or not.
    pub(crate) fn count(&self) -> u64 {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).count
    }

    fn is_new(&self, now: Instant, address: IpAddr, wrong: &str) -> bool {
        let mut made = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        made.count += 1;
        made.latest.retain(|_, at| now.duration_since(*at) < QUIET_FOR);
        let key = (address, wrong.to_owned());
        if made.latest.len() >= REMEMBERED_MAX || made.latest.contains_key(&key) {
            return false;
        }
        made.latest.insert(key, now);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_is_told_once_and_again_when_it_is_old() {
        let complaints = Complaints::default();
        let (now, home) = (Instant::now(), IpAddr::from([127, 0, 0, 1]));
        assert!(complaints.is_new(now, home, "no certificate"));
        assert!(!complaints.is_new(now, home, "no certificate"));
        assert!(complaints.is_new(now, home, "another"));
        assert!(complaints.is_new(now, IpAddr::from([127, 0, 0, 2]), "no certificate"));
        assert!(complaints.is_new(now + QUIET_FOR, home, "no certificate"));
        assert_eq!(complaints.count(), 5);
    }
}
