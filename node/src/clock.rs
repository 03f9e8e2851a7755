//! What time it is: the kernel's monotonic clock for deciding, the wall clock for telling people.
//!
//! Moments count from boot, as the scheduler's do, on the clock that probes in the kernel use too. The wall clock may be set
//! at any time, so a moment is turned into a wall-clock time only when it is told.

use rustix::time::{ClockId, Timespec, clock_gettime};
use sched::{Instant, Span};

/// How far apart two looks at clocks may be to count as one moment.
const ONE_MOMENT: Span = Span::from_micros(20);
/// How often to look again before what there is must do.
const LOOKS_MAX: usize = 10;

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
    wall_us_by(at, wall_now_us, now)
}

/// Between two looks at clocks a thread can lose its processor: a start was told 14 ms too early on a busy machine. So the wall clock is read
/// between two looks at the other, until these are close.
fn wall_us_by(at: Instant, wall_now_us: impl Fn() -> i64, now: impl Fn() -> Instant) -> i64 {
    let look = || {
        let (before, wall_us, after) = (now(), wall_now_us(), now());
        (after.since(before), wall_us - before.since(at).as_micros())
    };
    let mut closest = look();
    for _ in 1..LOOKS_MAX {
        if closest.0 <= ONE_MOMENT {
            break;
        }
        closest = closest.min(look());
    }
    closest.1
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
    use std::cell::Cell;

    #[test]
    fn who_loses_its_processor_between_two_looks_at_clocks_looks_again() {
        let (passed_us, looks) = (Cell::new(1_000), Cell::new(0));
        let now = || Instant::from_micros(passed_us.get());
        let wall_now_us = || {
            looks.set(looks.get() + 1);
            passed_us.set(passed_us.get() + if looks.get() < 3 { 14_000 } else { 0 });
            5_000_000 + passed_us.get().cast_signed()
        };
        assert_eq!(wall_us_by(Instant::from_micros(500), wall_now_us, now), 5_000_500);
        assert_eq!(looks.get(), 3);
    }

    #[test]
    fn a_moment_keeps_its_wall_clock_time() {
        let apart = wall_us(now()) - wall_now_us();
        assert!(apart.abs() < 100_000, "{apart}");
        assert_eq!(rfc3339(1_500_000), "1970-01-01T00:00:01.5Z");
    }
}
