//! A file opens with its purpose: the newcomer's first question is answered in the first line.

use crate::files::{Complaint, File};

/// Fewer words than this repeat the file's name.
const PURPOSE_WORDS_MIN: usize = 3;

pub(crate) fn check(files: &[File]) -> Vec<Complaint> {
    files.iter().filter_map(opens_badly).collect()
}

fn opens_badly(file: &File) -> Option<Complaint> {
    let has_shebang = !file.is_rust() && file.text.starts_with("#!");
    let number = if has_shebang { 2 } else { 1 };
    let opening = file.text.lines().nth(number - 1).unwrap_or_default();
    let (ok, help) = match file.extension() {
        "rs" => (states_purpose(opening, "//!"), "open with `//!` and the file's purpose in a sentence"),
        "c" | "h" | "js" | "css" => {
            let ok = opening.starts_with("//") || opening.starts_with("/*");
            (ok, "open with a comment that says the file's purpose")
        }
        _ if file.is_script() => {
            let ok = has_shebang && states_purpose(opening, "#");
            (ok, "after the `#!` line, say the script's purpose in a `#` sentence")
        }
        _ => return None,
    };
    (!ok).then(|| file.complaint(number, help))
}

fn states_purpose(line: &str, comment: &str) -> bool {
    let words = line.strip_prefix(comment).map(|text| text.split_whitespace().count());
    words.is_some_and(|words| words >= PURPOSE_WORDS_MIN)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn opens_well(path: &str, text: &str) -> bool {
        check(&[File::new(path, text)]).is_empty()
    }

    #[test]
    fn a_purpose_is_a_comment_with_something_to_say() {
        for (path, good, bad) in [
            (
                "a.rs",
                "//! The due task runs.\n",
                ["", "#![no_std]\n//! The due task runs.\n", "// The due task runs.", "//! x\n"],
            ),
            ("a.c", "/* Who launches. */\n", ["", "#include <a.h>\n", "\n// Who launches.\n", "int x;"]),
            (
                "a.js",
                "#!/usr/bin/env node\n// Draws the page.\n",
                ["", "draw();", "#!/usr/bin/env node\ndraw();", "'x'"],
            ),
            ("a.css", "/* How it looks. */\n", ["", "body {}", "\n/* How it looks. */", "# How it looks"]),
            (
                "a.sh",
                "#!/bin/sh\n# Runs every test.\n",
                ["", "# Runs every test.\n", "#!/bin/sh\nset -e\n", "#!/bin/sh\n#\n"],
            ),
        ] {
            assert!(opens_well(path, good), "{path}: {good}");
            for text in bad {
                assert!(!opens_well(path, text), "{path}: {text}");
            }
        }
        assert!(!opens_well("scripts/test", "#!/bin/sh\nset -e\n") && !opens_well(".ci/run", "set -e\n"));
        assert!(opens_well("docs/guide.md", "anything"));
    }
}
