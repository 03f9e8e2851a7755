//! What time it is: the kernel's monotonic clock for deciding, the wall clock for telling people.
//!
//! Moments count from boot, as the scheduler's do, on the clock that probes in the kernel use too. The wall clock may be set
//! at any time, so a moment is turned into a wall-clock time only when it is told.

use rustix::time::{ClockId, Timespec, clock_gettime};
use sched::{Instant, Span};

/// Now, since boot.
pub fn now() -> Instant {
    Instant::from_micros(micros(clock_gettime(ClockId::Monotonic)).cast_unsigned())
}

/// Now, in microseconds since 1970.
pub fn wall_now_us() -> i64 {
    micros(clock_gettime(ClockId::Realtime))
}

/// A moment in microseconds since 1970.
pub fn wall_us(at: Instant) -> i64 {
    wall_now_us() - now().since(at).as_micros()
}

/// Microseconds since 1970 as RFC 3339, in UTC.
pub fn rfc3339(wall_us: i64) -> String {
    jiff::Timestamp::from_microsecond(wall_us).unwrap_or_default().to_string()
}

/// How long until a moment; nothing if it has passed.
pub fn until(moment: Instant) -> std::time::Duration {
    let left: Span = moment.since(now()).or_zero();
    std::time::Duration::from_micros(left.as_micros().cast_unsigned())
}

fn micros(time: Timespec) -> i64 {
    time.tv_sec * 1_000_000 + time.tv_nsec / 1_000
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_keeps_its_wall_clock_time() {
        let apart = wall_us(now()) - wall_now_us();
        assert!(apart.abs() < 100_000, "{apart}");
        assert_eq!(rfc3339(1_500_000), "1970-01-01T00:00:01.5Z");
    }
}
