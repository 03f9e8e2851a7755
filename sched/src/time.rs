//! Moments and lengths of time, in whole microseconds.
//!
//! There is no clock here: whoever calls says what time it is. A moment counts from an epoch that
//! the caller chose (the agent: boot; the simulator: zero), and only differences mean anything.

use core::fmt;
use core::ops::{Add, AddAssign, Neg, Sub, SubAssign};

/// A moment, in microseconds since the caller's epoch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instant(u64);

impl Instant {
    /// The caller's epoch.
    pub const ZERO: Instant = Instant(0);

    /// The moment that many microseconds after the epoch.
    pub const fn from_micros(micros: u64) -> Instant {
        Instant(micros)
    }

    /// Microseconds since the epoch.
    pub const fn as_micros(self) -> u64 {
        self.0
    }

    /// How long ago `earlier` was; negative if it is still to come.
    pub const fn since(self, earlier: Instant) -> Span {
        Span(self.0.cast_signed() - earlier.0.cast_signed())
    }
}

impl Add<Span> for Instant {
    type Output = Instant;

    /// A moment before the epoch does not exist: the epoch is as early as it gets.
    fn add(self, span: Span) -> Instant {
        Instant(self.0.saturating_add_signed(span.0))
    }
}

impl Sub<Span> for Instant {
    type Output = Instant;

    fn sub(self, span: Span) -> Instant {
        self + -span
    }
}

/// A length of time, in microseconds. Float is one, and float goes below zero, so this is signed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Span(i64);

impl Span {
    /// No time at all.
    pub const ZERO: Span = Span(0);
    /// Longer than anything that happens here.
    pub const MAX: Span = Span(i64::MAX);

    /// That many microseconds.
    pub const fn from_micros(micros: i64) -> Span {
        Span(micros)
    }

    /// That many milliseconds.
    pub const fn from_millis(millis: i64) -> Span {
        Span(millis * 1_000)
    }

    /// That many seconds.
    pub const fn from_secs(secs: i64) -> Span {
        Span(secs * 1_000_000)
    }

    /// Its length in microseconds.
    pub const fn as_micros(self) -> i64 {
        self.0
    }

    /// This span, or zero if it is negative.
    #[must_use]
    pub const fn or_zero(self) -> Span {
        if self.0 < 0 { Span::ZERO } else { self }
    }

    /// This span times `parts` over `whole`, without overflow on the way.
    #[must_use]
    pub const fn scaled(self, parts: i64, whole: i64) -> Span {
        Span((self.0 as i128 * parts as i128 / whole as i128) as i64)
    }
}

impl Add for Span {
    type Output = Span;

    fn add(self, other: Span) -> Span {
        Span(self.0.saturating_add(other.0))
    }
}

impl AddAssign for Span {
    fn add_assign(&mut self, other: Span) {
        *self = *self + other;
    }
}

impl Sub for Span {
    type Output = Span;

    fn sub(self, other: Span) -> Span {
        Span(self.0.saturating_sub(other.0))
    }
}

impl SubAssign for Span {
    fn sub_assign(&mut self, other: Span) {
        *self = *self - other;
    }
}

impl Neg for Span {
    type Output = Span;

    fn neg(self) -> Span {
        Span(self.0.saturating_neg())
    }
}

impl core::iter::Sum for Span {
    fn sum<I: Iterator<Item = Span>>(spans: I) -> Span {
        spans.fold(Span::ZERO, Add::add)
    }
}

impl fmt::Display for Span {
    /// The two largest units that say something: `1m30s`, `2s`, `2.5s`, `250ms`, `1.25ms`, `40us`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let micros = self.0.unsigned_abs();
        if self.0 < 0 {
            f.write_str("-")?;
        }
        let (hours, minutes) = (micros / 3_600_000_000, micros / 60_000_000 % 60);
        match micros {
            3_600_000_000.. if minutes == 0 => write!(f, "{hours}h"),
            3_600_000_000.. => write!(f, "{hours}h{minutes}m"),
            60_000_000.. if (micros / 1_000_000).is_multiple_of(60) => write!(f, "{minutes}m"),
            60_000_000.. => write!(f, "{minutes}m{}s", micros / 1_000_000 % 60),
            1_000_000.. => fraction(f, micros / 1_000, "s"),
            1_000.. => fraction(f, micros, "ms"),
            0 => write!(f, "0s"),
            _ => write!(f, "{micros}us"),
        }
    }
}

/// Writes thousandths without trailing zeros: 2500 → `2.5`, 2000 → `2`.
fn fraction(f: &mut fmt::Formatter<'_>, thousandths: u64, unit: &str) -> fmt::Result {
    let (whole, rest) = (thousandths / 1_000, thousandths % 1_000);
    match rest {
        0 => write!(f, "{whole}{unit}"),
        _ if rest % 100 == 0 => write!(f, "{whole}.{}{unit}", rest / 100),
        _ if rest % 10 == 0 => write!(f, "{whole}.{:02}{unit}", rest / 10),
        _ => write!(f, "{whole}.{rest:03}{unit}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn a_span_prints_its_two_largest_units() {
        let shown = |micros| Span::from_micros(micros).to_string();
        assert_eq!(shown(0), "0s");
        assert_eq!(shown(40), "40us");
        assert_eq!(shown(1_250), "1.25ms");
        assert_eq!(shown(250_000), "250ms");
        assert_eq!(shown(2_000_000), "2s");
        assert_eq!(shown(-2_500_000), "-2.5s");
        assert_eq!(shown(90_000_000), "1m30s");
        assert_eq!(shown(3_600_000_000), "1h");
        assert_eq!(shown(5_400_000_000), "1h30m");
    }

    #[test]
    fn float_may_be_negative_but_no_moment_comes_before_the_epoch() {
        let (early, late) = (Instant::from_micros(5), Instant::from_micros(9));
        assert_eq!(early.since(late), Span::from_micros(-4));
        assert_eq!(early - Span::from_micros(20), Instant::ZERO);
    }
}
