//! The master's clock: `sched` takes time as an argument, and this is where it comes from.

use sched::Instant;
use std::sync::OnceLock;
use std::time;

/// Now, from the first time that somebody asked.
pub(crate) fn now() -> Instant {
    static START: OnceLock<time::Instant> = OnceLock::new();
    let start = START.get_or_init(time::Instant::now);
    Instant::from_micros(start.elapsed().as_micros() as u64)
}

/// The wall clock, in microseconds since 1970.
pub fn wall_now_us() -> i64 {
    jiff::Timestamp::now().as_microsecond()
}

/// A moment of the wall clock, as RFC 3339.
pub(crate) fn rfc3339(wall_us: i64) -> String {
    jiff::Timestamp::from_microsecond(wall_us).map(|at| at.to_string()).unwrap_or_default()
}
