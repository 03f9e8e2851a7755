//! Which of Docker's options take a value, learnt from the Docker that is installed.
//!
//! Problem: to find the image in `docker run --foo bar baz` one must know whether `--foo` takes a value, and every
//! Docker has other options. Approach: no list of ours. `docker run --help` names the value of each option that takes
//! one; an option that the help hides is given to Docker alone, with nothing after it, and Docker either misses its
//! value or goes on to miss the image. Neither touches a daemon.

use super::exec;
use super::words::Name;
use crate::failure::Failure;
use std::collections::HashMap;

/// What one command of the installed Docker takes. It is asked at the first option, and not before.
pub struct Options {
    command: &'static str,
    listed: Option<Listed>,
}

/// What Docker's help lists: whether each option, by its name, takes a value.
#[derive(Debug, Default, PartialEq)]
struct Listed {
    long: HashMap<String, bool>,
    short: HashMap<char, bool>,
}

impl Options {
    /// The options of `docker run` or `docker create`.
    pub fn of(command: &'static str) -> Self {
        Self { command, listed: None }
    }

    /// Whether an option takes a value; one that Docker does not know takes none.
    pub fn takes_value(&mut self, name: Name<'_>) -> Result<bool, Failure> {
        if self.listed.is_none() {
            let help = exec::ask(&[self.command, "--help"])?;
            self.listed = Some(Listed::parse(&String::from_utf8_lossy(&help.stdout)));
        }
        let listed = self.listed.as_ref().and_then(|listed| match name {
            Name::Long(name) => listed.long.get(name),
            Name::Short(letter) => listed.short.get(&letter),
        });
        listed.map_or_else(|| self.misses_value(name), |takes_value| Ok(*takes_value))
    }

    /// Gives Docker the option alone, and sees whether it misses a value.
    fn misses_value(&self, name: Name<'_>) -> Result<bool, Failure> {
        let option = match name {
            Name::Long(name) => format!("--{name}"),
            Name::Short(letter) => format!("-{letter}"),
        };
        let answer = exec::ask(&[self.command, &option])?;
        Ok(String::from_utf8_lossy(&answer.stderr).contains("flag needs an argument"))
    }
}

impl Listed {
    fn parse(help: &str) -> Self {
        let mut listed = Self::default();
        for line in help.lines() {
            let Some((short, name, takes_value)) = option_of(line) else { continue };
            listed.long.insert(name.to_owned(), takes_value);
            listed.short.extend(short.map(|letter| (letter, takes_value)));
        }
        listed
    }
}

/// Reads `  -e, --env list   Set environment variables`: the short and the long name, and whether a value has a name.
///
/// Options are indented by two or by six; descriptions that were wrapped are indented further.
fn option_of(line: &str) -> Option<(Option<char>, &str, bool)> {
    let (short, rest) = if let Some(rest) = line.strip_prefix("      --") {
        (None, rest)
    } else {
        let (short, rest) = line.strip_prefix("  -")?.split_once(", --")?;
        (Some(short.chars().next()?), rest)
    };
    // Name and value stand left of the description, which at least two spaces keep apart.
    let left = rest.split("  ").next()?;
    let (name, value) = left.split_once(' ').unwrap_or((left, ""));
    // `--name string[="default"]` takes its value after an `=` only.
    let name = name.split('[').next()?;
    Some((short, name, !value.is_empty() && !value.contains("[=")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_option_takes_a_value_if_the_help_names_one() {
        let help = "Usage:  docker run [OPTIONS] IMAGE\n\nOptions:\n  \
                    -d, --detach                 Run in background\n  \
                    -e, --env list               Set variables, as with\n                               \
                    --not-an-option of another program\n      \
                    --health-start-period duration   Start period\n      \
                    --rm                         Remove\n      \
                    --progress string[=\"auto\"]   How to report\n";
        let listed = Listed::parse(help);
        let long: [(&str, bool); 5] = [
            ("detach", false),
            ("env", true),
            ("health-start-period", true),
            ("rm", false),
            ("progress", false),
        ];
        let expected = Listed {
            long: long.into_iter().map(|(name, takes_value)| (name.to_owned(), takes_value)).collect(),
            short: HashMap::from([('d', false), ('e', true)]),
        };
        assert_eq!(listed, expected);
    }
}
