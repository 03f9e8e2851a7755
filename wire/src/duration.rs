//! Durations as people write them: `2`, `2s`, `250ms`, `1m30s`.
//!
//! ASCII integers with units in descending order, no spaces, no decimals. A bare number is seconds,
//! the unit of the first paper's `-dl 2`.

use std::time::Duration;

/// The longest duration accepted: a GPU task that takes more than a day wants no deadline.
pub const DURATION_MAX: Duration = Duration::from_hours(24);

/// What is accepted, in the words every message uses.
pub const ACCEPTED: &str = "2 or 2s, 250ms, 1m30s; more than 0, at most 24h";

/// Why a text is no duration. It names the value and what is accepted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("'{value}' is not a duration: accepted are {ACCEPTED}")]
pub struct NotADuration {
    /// The text as it was given.
    pub value: String,
}

/// Units from long to short, with their length in milliseconds.
const UNITS: [(&str, u64); 4] = [("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1)];

/// Reads a duration: more than zero, at most [`DURATION_MAX`].
pub fn parse(text: &str) -> Result<Duration, NotADuration> {
    let refused = || NotADuration { value: text.to_owned() };
    let millis = match text.parse::<u64>() {
        // `parse` takes a leading `+`, which no one means.
        Ok(seconds) if !text.starts_with('+') => seconds.checked_mul(1_000),
        _ => sum_of_parts(text),
    };
    let duration = Duration::from_millis(millis.ok_or_else(refused)?);
    if duration.is_zero() || duration > DURATION_MAX { Err(refused()) } else { Ok(duration) }
}

/// What a label stores: the text as it was given, with the unit of a bare number spelled out.
pub fn normalised(text: &str) -> Result<String, NotADuration> {
    parse(text)?;
    let bare = text.bytes().all(|byte| byte.is_ascii_digit());
    Ok(if bare { format!("{text}s") } else { text.to_owned() })
}

/// Adds up `1m30s`; nothing if a part has no unit, a unit repeats, or the order is wrong.
fn sum_of_parts(text: &str) -> Option<u64> {
    let mut units = UNITS.iter();
    let mut rest = text;
    let mut total: u64 = 0;
    while !rest.is_empty() {
        let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let (number, after) = rest.split_at(digits);
        let letters = after.len() - after.trim_start_matches(|c: char| c.is_ascii_lowercase()).len();
        let (unit, after) = after.split_at(letters);
        let (_, millis) = units.find(|(name, _)| *name == unit)?;
        total = total.checked_add(number.parse::<u64>().ok()?.checked_mul(*millis)?)?;
        rest = after;
    }
    (!text.is_empty()).then_some(total)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_forms_people_write_are_read() {
        let millis = |text| parse(text).map(|d| d.as_millis());
        assert_eq!(millis("2"), Ok(2_000));
        assert_eq!(millis("2s"), Ok(2_000));
        assert_eq!(millis("250ms"), Ok(250));
        assert_eq!(millis("1m30s"), Ok(90_000));
        assert_eq!(millis("1h1m1s1ms"), Ok(3_661_001));
        assert_eq!(millis("24h"), Ok(86_400_000));
        assert_eq!(millis("86400"), Ok(86_400_000));
    }

    #[test]
    fn anything_else_is_refused_by_name() {
        #[rustfmt::skip]
        let refused = [
            "",
            "0",
            "0s",
            "0h0m",
            "-1",
            "+1",
            "abc",
            "1e99",
            "25h",
            "86401",
            "1.5s",
            " 2s",
            "2s ",
            "2 s",
            "s",
            "1m30",
            "30s1m",
            "1s1s",
            "2S",
            "2d",
            "٢s",
            "99999999999999999999",
            "99999999999999999999h",
            "1m-3s",
        ];
        for text in refused {
            let error = parse(text).expect_err(text).to_string();
            assert!(error.contains(&format!("'{text}'")) && error.contains("24h"), "{error}");
        }
    }

    #[test]
    fn a_label_keeps_what_was_given() {
        assert_eq!(normalised("2").unwrap(), "2s");
        assert_eq!(normalised("90s").unwrap(), "90s");
        assert_eq!(normalised("1m30s").unwrap(), "1m30s");
    }

    proptest! {
        #[test]
        fn no_text_panics_and_what_is_accepted_is_in_range(text in "\\PC{0,12}|[0-9hms]{0,12}") {
            if let Ok(duration) = parse(&text) {
                prop_assert!(!duration.is_zero() && duration <= DURATION_MAX);
                prop_assert_eq!(parse(&normalised(&text).unwrap()).unwrap(), duration);
            }
        }
    }
}
