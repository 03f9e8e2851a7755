//! What is committed is finished: no missing bodies, no tests that never run, no unexplained `unsafe`.

use crate::files::{Complaint, File};
use crate::tokens::Source;
use proc_macro2::Delimiter;
use std::ops::Range;

/// How many lines of code may stand between an explanation and its `unsafe`; comments do not count.
const EXPLANATION_DISTANCE_MAX: usize = 3;

/// Missing bodies and ignored tests. (The other macro for a missing body is a forbidden word.)
pub(crate) fn check(files: &[File]) -> Vec<Complaint> {
    on_rust(files, |file, source| {
        let is_missing =
            |at: &usize| source.word(*at) == Some("unimplemented") && source.is_mark(at + 1, '!');
        let missing = (0..source.len()).filter(is_missing).map(|at| {
            file.complaint(source.line(at), "a body is missing: write it, or leave the function out")
        });
        let ignored = source.attributes().filter(|inside| ignores(source, inside.clone())).map(|inside| {
            file.complaint(
                source.line(inside.start),
                "a test that never runs proves nothing: run it, or delete it",
            )
        });
        missing.chain(ignored).collect()
    })
}

/// Whether the attribute switches a test off; also when it hides in `cfg_attr(…, ignore)`.
fn ignores(source: &Source, mut inside: Range<usize>) -> bool {
    match source.word(inside.start) {
        Some("ignore") => true,
        Some("cfg_attr") => inside.any(|at| source.word(at) == Some("ignore")),
        _ => false,
    }
}

/// Each block, function, impl and extern block that is `unsafe` has its `// SAFETY:` just above.
pub(crate) fn unsafe_code(files: &[File]) -> Vec<Complaint> {
    on_rust(files, |file, source| {
        let lines: Vec<&str> = file.text.lines().collect();
        let unexplained = (0..source.len()).filter(|at| {
            marks_for(source, *at).is_some_and(|marks| !is_explained(&lines[..source.line(*at) - 1], marks))
        });
        let help = "say above it, in `// SAFETY:`, each condition and why it holds";
        unexplained.map(|at| file.complaint(source.line(at), help)).collect()
    })
}

/// What explains the `unsafe` at a place; nothing where none stands, or where it only names a type or an attribute.
fn marks_for(source: &Source, at: usize) -> Option<&'static [&'static str]> {
    if source.word(at) != Some("unsafe") || source.closes(at + 1, Delimiter::Parenthesis).is_some() {
        return None;
    }
    let mut next = at + 1;
    if source.word(next) == Some("extern") {
        next += if source.is_literal(next + 1) { 2 } else { 1 };
    }
    let is_function = source.word(next) == Some("fn");
    if is_function && source.word(next + 1).is_none() {
        return None;
    }
    // A function may state its conditions to callers in the documentation, as rustdoc has it.
    Some(if is_function { &["// SAFETY:", "# Safety"] } else { &["// SAFETY:"] })
}

fn is_explained(above: &[&str], marks: &[&str]) -> bool {
    let mut code_left = EXPLANATION_DISTANCE_MAX;
    for line in above.iter().rev().map(|line| line.trim_start()) {
        if line.starts_with("//") {
            if marks.iter().any(|mark| line.contains(mark)) {
                return true;
            }
        } else if code_left == 0 {
            return false;
        } else {
            code_left -= 1;
        }
    }
    false
}

/// Applies a rule to each file of Rust; one that cannot be read is the length rule's to report.
fn on_rust(files: &[File], rule: impl Fn(&File, &Source) -> Vec<Complaint>) -> Vec<Complaint> {
    let readable = files.iter().filter(|file| file.is_rust());
    readable.filter_map(|file| Some(rule(file, &Source::read(&file.text).ok()?))).flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(rule: fn(&[File]) -> Vec<Complaint>, text: &str) -> Vec<String> {
        rule(&[File::new("a.rs", text)]).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_missing_body_is_found() {
        assert!(found(check, "fn f() {\n unimplemented!(\"later\") }")[0].starts_with("a.rs:2: a body"));
        assert!(
            found(check, "/// Says `unimplemented!()`.\nfn unimplemented() { \"#[ignore]\" }").is_empty()
        );
    }

    #[test]
    fn a_test_that_never_runs_is_found() {
        for text in [
            "#[test]\n#[ignore]\nfn f() {}",
            "#[test]\n#[ignore = \"slow\"]\nfn f() {}",
            "\n#[cfg_attr(unix, ignore)]\nfn f() {}",
        ] {
            assert!(found(check, text)[0].starts_with("a.rs:2: a test that never runs"), "{text}");
        }
    }

    #[test]
    fn unexplained_unsafe_is_found() {
        for text in [
            "fn f() { unsafe { g() } }",
            "unsafe fn f() {}",
            "unsafe impl Send for A {}",
            "unsafe extern \"C\" { fn f(); }",
            "unsafe extern \"C\" fn f() {}",
            "/// # Safety\n/// Says a block nothing.\nfn f() { unsafe { g() } }",
            "// SAFETY: too far away.\na;\nb;\nc;\nd;\nunsafe { g() }",
        ] {
            assert_eq!(found(unsafe_code, text).len(), 1, "{text}");
        }
    }

    #[test]
    fn explained_unsafe_is_fine() {
        for text in [
            "// SAFETY: the pointer is ours,\n// and nobody\n// else\n// has\n// it.\nlet a =\n    unsafe { g() };",
            "/// # Safety\n/// The caller owns it.\n#[inline]\npub unsafe fn f() {}",
            "#[unsafe(no_mangle)]\npub extern \"C\" fn f(call: unsafe extern \"C\" fn(u8)) {}",
            "#![deny(unsafe_code)] // unsafe {",
        ] {
            assert!(found(unsafe_code, text).is_empty(), "{text}");
        }
    }
}
