//! Ages and texts in the words Docker uses for them.

/// How much of a mount's name is shown.
pub(super) const MOUNT_CHARS_MAX: usize = 15;

const MINUTE: i64 = 60;
const HOUR: i64 = 60 * MINUTE;
const DAY: i64 = 24 * HOUR;
const WEEK: i64 = 7 * DAY;
const MONTH: i64 = 30 * DAY;
const YEAR: i64 = 365 * DAY;

/// `5 minutes ago`: Docker changes to a longer unit only once there are two of it, but for minutes and hours.
pub(super) fn ago(seconds: i64) -> String {
    // Docker rounds hours, and longer units are whole numbers of rounded hours.
    let hours = (seconds + HOUR / 2) / HOUR;
    let rounded = hours * HOUR;
    let span = match () {
        () if seconds < 1 => "Less than a second".to_owned(),
        () if seconds == 1 => "1 second".to_owned(),
        () if seconds < MINUTE => format!("{seconds} seconds"),
        () if seconds < 2 * MINUTE => "About a minute".to_owned(),
        () if seconds < HOUR => format!("{} minutes", seconds / MINUTE),
        () if hours == 1 => "About an hour".to_owned(),
        () if rounded < 2 * DAY => format!("{hours} hours"),
        () if rounded < 2 * WEEK => format!("{} days", rounded / DAY),
        () if rounded < 2 * MONTH => format!("{} weeks", rounded / WEEK),
        () if rounded < 2 * YEAR => format!("{} months", rounded / MONTH),
        () => format!("{} years", rounded / YEAR),
    };
    span + " ago"
}

/// The start of a text, with an ellipsis where some is missing.
pub(super) fn shortened(text: &str, chars_max: usize) -> String {
    if text.chars().count() <= chars_max {
        return text.to_owned();
    }
    text.chars().take(chars_max - 1).chain(['…']).collect()
}

/// A text in quotes, with what would end them, or the line, escaped.
pub(super) fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for c in text.chars() {
        match c {
            '"' => quoted += "\\\"",
            '\\' => quoted += "\\\\",
            '\n' => quoted += "\\n",
            '\t' => quoted += "\\t",
            '\r' => quoted += "\\r",
            c if c.is_control() => quoted.extend(['\\', 'x', hexadecimal(c, 4), hexadecimal(c, 0)]),
            c => quoted.push(c),
        }
    }
    quoted + "\""
}

/// One hexadecimal digit of a character's number: the four bits from `shift` on.
fn hexadecimal(c: char, shift: u32) -> char {
    char::from_digit(u32::from(c) >> shift & 0xf, 16).unwrap_or('?')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_are_told_as_docker_tells_them() {
        for (seconds, words) in [
            (-3, "Less than a second ago"),
            (1, "1 second ago"),
            (59, "59 seconds ago"),
            (119, "About a minute ago"),
            (59 * MINUTE, "59 minutes ago"),
            (89 * MINUTE, "About an hour ago"),
            (90 * MINUTE, "2 hours ago"),
            (47 * HOUR, "47 hours ago"),
            (2 * DAY, "2 days ago"),
            (13 * DAY, "13 days ago"),
            (14 * DAY, "2 weeks ago"),
            (60 * DAY, "2 months ago"),
            (730 * DAY, "2 years ago"),
        ] {
            assert_eq!(ago(seconds), words);
        }
    }

    #[test]
    fn a_long_command_ends_in_an_ellipsis() {
        assert_eq!(shortened("sh -c 'a long story about nothing'", 20), "sh -c 'a long story…");
        assert_eq!(shortened("exactly twenty chars", 20), "exactly twenty chars");
        assert_eq!(quoted("echo \"a\nb\" \u{1}"), r#""echo \"a\nb\" \x01""#);
    }
}
