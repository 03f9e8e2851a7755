//! How Docker's command line is read: which words are options, and where they end.
//!
//! Docker's rules are those of its flag library: options come first, `--` or the first word that is no
//! option ends them, a long option's value follows it or an `=`, short ones may be run together (`-itd`), and
//! the last of those may have its value attached (`-eFOO=1`), after an `=`, or in the next word. Whether an option
//! takes a value is for the caller to know.

use std::ffi::{OsStr, OsString};

/// The name of an option, without its dashes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Name<'a> {
    /// `--name`
    Long(&'a str),
    /// `-n`
    Short(char),
}

/// Whether a word is an option. A lone `-` and an empty word are not, and `--` ends the options.
pub fn is_option(word: &OsStr) -> bool {
    word.as_encoded_bytes().starts_with(b"-") && word != "-" && word != "--"
}

/// How many words an option takes up: one, or two when the next word is its value.
pub fn words_taken<E>(
    option: &OsStr,
    mut takes_value: impl FnMut(Name<'_>) -> Result<bool, E>,
) -> Result<usize, E> {
    // A name is ASCII; a value need not even be Unicode, so it is never looked at.
    let text = option.to_string_lossy();
    if let Some(long) = text.strip_prefix("--") {
        let next_is_value = !long.contains('=') && takes_value(Name::Long(long))?;
        return Ok(if next_is_value { 2 } else { 1 });
    }
    let mut letters = text.chars().skip(1).peekable();
    while let Some(letter) = letters.next() {
        if letters.peek() == Some(&'=') {
            break;
        }
        if takes_value(Name::Short(letter))? {
            return Ok(if letters.peek().is_none() { 2 } else { 1 });
        }
    }
    Ok(1)
}

/// Where the options end: the index of the first word that is none.
pub fn options_end<E>(
    words: &[OsString],
    mut takes_value: impl FnMut(Name<'_>) -> Result<bool, E>,
) -> Result<usize, E> {
    let mut at = 0;
    while let Some(word) = words.get(at).filter(|word| is_option(word)) {
        at += words_taken(word, &mut takes_value)?;
    }
    Ok(at.min(words.len()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::convert::Infallible;

    /// Where the options end in a Docker of which `-e`, `-l`, `--env`, `--name` take a value.
    fn end(words: &[OsString]) -> usize {
        let takes_value =
            |name: Name<'_>| matches!(name, Name::Short('e' | 'l') | Name::Long("env" | "name"));
        let Ok(end) = options_end(words, |name| Ok::<bool, Infallible>(takes_value(name)));
        end
    }

    #[test]
    fn the_image_is_the_first_word_that_is_no_option() {
        for line in [
            "IMAGE",
            "-itd IMAGE",
            "-ite A=1 IMAGE",
            "-iteA=1 IMAGE",
            "-eA=1 -e=A=1 IMAGE",
            "-e --name IMAGE",
            "-e -- IMAGE",
            "-it=true IMAGE",
            "--name x IMAGE",
            "--name=x --rm IMAGE",
            "--name --env IMAGE --name",
            "--unheard-of=x IMAGE sh -c --",
        ] {
            let words: Vec<OsString> = line.split(' ').map(OsString::from).collect();
            assert_eq!(words[end(&words)], "IMAGE", "{line}");
        }
    }

    #[test]
    fn options_end_at_two_dashes_and_at_a_lone_one() {
        for line in ["-it -- IMAGE", "-it - IMAGE", "-it  IMAGE"] {
            let words: Vec<OsString> = line.split(' ').map(OsString::from).collect();
            assert_eq!(end(&words), 1, "{line}");
        }
    }

    #[test]
    fn an_option_whose_value_is_missing_is_the_last_word() {
        assert_eq!(end(&["--name".into()]), 1);
    }
}
