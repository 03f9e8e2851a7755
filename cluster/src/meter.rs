//! How long things take, in buckets that double: enough for percentiles, and no more than a few words each.

use std::sync::atomic::{AtomicU64, Ordering};

/// Four buckets between two powers of two, up to about an hour in microseconds.
const STEPS: usize = 4;
const BUCKETS: usize = 32 * STEPS;

/// Durations in microseconds.
pub(crate) struct Meter {
    buckets: [AtomicU64; BUCKETS],
    sum_us: AtomicU64,
}

impl Default for Meter {
    fn default() -> Self {
        Self { buckets: [const { AtomicU64::new(0) }; BUCKETS], sum_us: AtomicU64::new(0) }
    }
}

impl Meter {
    /// Takes in one.
    pub(crate) fn note(&self, us: u64) {
        self.buckets[bucket(us)].fetch_add(1, Ordering::Relaxed);
        self.sum_us.fetch_add(us, Ordering::Relaxed);
    }

    /// How many there were.
    pub(crate) fn count(&self) -> u64 {
        self.buckets.iter().map(|bucket| bucket.load(Ordering::Relaxed)).sum()
    }

    /// All of them together.
    pub(crate) fn sum_us(&self) -> u64 {
        self.sum_us.load(Ordering::Relaxed)
    }

    /// No more than this share of them were longer, as an upper bound; none if there were none.
    pub(crate) fn quantile(&self, share: f64) -> Option<u64> {
        let wanted = (self.count() as f64 * share).ceil() as u64;
        let mut seen = 0;
        let found = self.buckets.iter().position(|bucket| {
            seen += bucket.load(Ordering::Relaxed);
            seen >= wanted && seen > 0
        });
        found.map(upper)
    }
}

/// Below the first power of two with steps each value has its own bucket.
fn bucket(us: u64) -> usize {
    let us = us.max(1);
    let power = us.ilog2() as usize;
    let step = if power >= 2 { ((us >> (power - 2)) & 3) as usize } else { 0 };
    (power * STEPS + step).min(BUCKETS - 1)
}

/// The greatest value that falls into a bucket.
fn upper(bucket: usize) -> u64 {
    let (power, step) = (bucket / STEPS, (bucket % STEPS) as u64);
    if power < 2 {
        return (2_u64 << power) - 1;
    }
    (1_u64 << power) + (step + 1) * (1_u64 << (power - 2)) - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentile_is_never_too_low_and_at_most_a_quarter_too_high() {
        let meter = Meter::default();
        (1..=1000).for_each(|us| meter.note(us * 10));
        let (median, last) = (meter.quantile(0.5).unwrap(), meter.quantile(0.99).unwrap());
        assert!((5000..=6250).contains(&median), "{median}");
        assert!((9900..=12_400).contains(&last), "{last}");
        assert_eq!((meter.count(), meter.sum_us()), (1000, 5_005_000));
        assert_eq!(Meter::default().quantile(0.5), None);
    }

    #[test]
    fn every_value_is_in_a_bucket_that_reaches_it() {
        for us in (0..5000).chain([u64::from(u32::MAX)]) {
            assert!(upper(bucket(us)) >= us.min(upper(BUCKETS - 1)), "{us}");
        }
    }
}
