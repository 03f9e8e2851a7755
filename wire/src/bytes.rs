//! Amounts of memory as people write them: `24GiB`, `512MiB`, `24g`, or bytes.
//!
//! An ASCII integer and a unit. Docker's `k`, `m`, `g`, `t` are powers of 1024, and so are they here; `GB`
//! is refused, because half of the world means 10⁹ by it.

/// The largest amount accepted: a thousand times what one GPU has today.
pub const BYTES_MAX: u64 = 1 << 50;

/// What is accepted, in the words every message uses.
pub const ACCEPTED: &str = "24GiB or 24g, 512MiB or 512m, KiB, TiB, or bytes; more than 0, at most 1024TiB";

/// Why a text is no amount of memory. It names the value and what is accepted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("'{value}' is not an amount of memory: accepted are {ACCEPTED}")]
pub struct NotBytes {
    /// The text as it was given.
    pub value: String,
}

/// Each unit: its name, Docker's letter for it, and its length in bits of the number of bytes.
const UNITS: [(&str, &str, u32); 5] =
    [("B", "b", 0), ("KiB", "k", 10), ("MiB", "m", 20), ("GiB", "g", 30), ("TiB", "t", 40)];

/// Reads an amount: more than zero, at most [`BYTES_MAX`].
pub fn parse(text: &str) -> Result<u64, NotBytes> {
    read(text).map(|(number, _, shift)| number << shift).ok_or_else(|| NotBytes { value: text.to_owned() })
}

/// What a label stores: the number as it was given, with the unit spelled out.
pub fn normalised(text: &str) -> Result<String, NotBytes> {
    let (number, unit, _) = read(text).ok_or_else(|| NotBytes { value: text.to_owned() })?;
    Ok(format!("{number}{unit}"))
}

/// The number, its unit and the unit's shift; nothing if the text is no amount, or out of range.
fn read(text: &str) -> Option<(u64, &'static str, u32)> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let number: u64 = number.parse().ok()?;
    let unit = if unit.is_empty() { "B" } else { unit };
    let (unit, _, shift) = UNITS.into_iter().find(|(name, letter, _)| *name == unit || *letter == unit)?;
    (number > 0 && number <= BYTES_MAX >> shift).then_some((number, unit, shift))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_forms_people_write_are_read_and_spelled_out() {
        for (text, bytes, label) in [
            ("24GiB", 24 << 30, "24GiB"),
            ("24g", 24 << 30, "24GiB"),
            ("512m", 512 << 20, "512MiB"),
            ("1024", 1024, "1024B"),
            ("1024TiB", 1 << 50, "1024TiB"),
        ] {
            assert_eq!(parse(text), Ok(bytes));
            assert_eq!(normalised(text).as_deref(), Ok(label));
        }
    }

    #[test]
    fn anything_else_is_refused_by_name() {
        for text in
            ["", "0", "0GiB", "-1", "+1", "GiB", "1.5g", "24GB", "24 GiB", "1025TiB", "99999999999999999999"]
        {
            let error = parse(text).expect_err(text).to_string();
            assert!(error.contains(&format!("'{text}'")) && error.contains("24GiB"), "{error}");
        }
    }

    proptest! {
        #[test]
        fn no_text_panics_and_spelling_out_changes_nothing(text in "\\PC{0,12}|[0-9]{1,20}[KMGTi]{0,2}B?") {
            if let Ok(bytes) = parse(&text) {
                prop_assert!(bytes > 0 && bytes <= BYTES_MAX);
                prop_assert_eq!(parse(&normalised(&text).unwrap()), Ok(bytes));
            }
        }
    }
}
