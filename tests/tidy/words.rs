//! One noun per idea, the same in code, flags, messages and pages; and names that say something.
//!
//! An identifier is read as its words: `SpareSlots` and `spare_slots` are both "spare slots". This file
//! must name what it forbids, so it is the one file the rule does not read.

use crate::files::{Complaint, File};
use std::ops::Range;

const THIS_FILE: &str = "tests/tidy/words.rs";

/// Words we do not use, each with what to do instead.
const FORBIDDEN: &[(&[&str], &str)] = &[
    // One noun per idea: the words of the design.
    (&["job", "jobs"], "say task"),
    (&["laxity"], "say slack, or float if no forecast is in it"),
    (&["suspend", "suspends", "suspended"], "say hold for a task, freeze for a container"),
    (&["unfreeze", "unfreezes", "unfrozen"], "say thaw"),
    (&["kill switch", "killswitch"], "say release: `leeway release` lets everything go"),
    (&["slave", "slaves"], "say worker, or node"),
    (&["blacklist", "blacklisted", "black list"], "say denied list"),
    (&["whitelist", "whitelisted", "white list"], "say allowed list"),
    // Words that excuse.
    (&["sanity check", "sanity checks"], "say check, and what it checks"),
    (&["hack", "hacks", "hacky"], "mend the mechanism, or say why it must be so"),
    (&["todo", "fixme", "xxx"], "finish it, or file an issue"),
];

/// Where a forbidden word is right after all. An exception that nothing needs any more is a complaint.
const EXCEPTIONS: &[Exception] = &[
    Exception { path: "Cargo.toml", word: "todo", why: "the name of the clippy lint that forbids the macro" },
    Exception {
        path: "tests/seeing/metrics.rs",
        word: "job",
        why: "the name of Prometheus' setting for what it reads together",
    },
    Exception {
        path: "docs/seeing.md",
        word: "job",
        why: "the name of Prometheus' setting for what it reads together",
    },
    Exception {
        path: "cli/src/commands/demo/narrator.rs",
        word: "suspend",
        why: "the name of indicatif's function for printing while bars are drawn",
    },
    Exception { path: "cli/src/docker/service.rs", word: "job", why: SWARMS },
    Exception { path: "docs/cluster.md", word: "job", why: SWARMS },
];

/// Swarm's name for a service that runs once.
const SWARMS: &str = "what swarm calls a service that runs once and is not started again";

struct Exception {
    path: &'static str,
    word: &'static str,
    why: &'static str,
}

/// Names of modules that could hold anything, and so end up holding everything.
const SHAPELESS: &[&str] = &["common", "helper", "helpers", "misc", "util", "utils"];

pub(crate) fn check(files: &[File]) -> Vec<Complaint> {
    check_but_for(EXCEPTIONS, files)
}

pub(crate) fn module_names(files: &[File]) -> Vec<Complaint> {
    let is_shapeless = |file: &&File| {
        let mut names = file.folder().split('/').chain([file.stem()]);
        file.is_code() && names.any(|name| SHAPELESS.contains(&name))
    };
    let help = "a name for anything will hold everything: name the file or folder after its one idea";
    files.iter().filter(is_shapeless).map(|file| file.complaint(1, help)).collect()
}

fn check_but_for(exceptions: &[Exception], files: &[File]) -> Vec<Complaint> {
    let mut complaints = Vec::new();
    let mut needed = vec![false; exceptions.len()];
    for file in files.iter().filter(|file| is_ours_to_word(file)) {
        for (number, line) in file.lines() {
            for (word, help) in forbidden_in(line) {
                let excepted = |exception: &Exception| exception.path == file.path && exception.word == word;
                if let Some(index) = exceptions.iter().position(excepted) {
                    needed[index] = true;
                } else {
                    complaints.push(file.complaint(number, format!("\"{word}\" is not our word: {help}")));
                }
            }
        }
    }
    for (exception, _) in exceptions.iter().zip(needed).filter(|(_, needed)| !needed) {
        let Exception { path, word, why } = exception;
        let what =
            format!("no line needs the exception \"{word}\" ({why}) any more: remove it from {THIS_FILE}");
        complaints.push(File::new(path, "").complaint(1, what));
    }
    complaints
}

/// Code, pages and settings; not this list, and not what a tool writes.
fn is_ours_to_word(file: &File) -> bool {
    let worded = ["css", "html", "md", "toml", "yaml", "yml"];
    file.path != THIS_FILE && (file.is_code() || worded.contains(&file.extension()))
}

/// Every forbidden word or phrase of a line, with its help.
fn forbidden_in(line: &str) -> Vec<(&'static str, &'static str)> {
    let words = split(line);
    let listed = FORBIDDEN.iter().flat_map(|(words, help)| words.iter().map(move |word| (*word, *help)));
    listed.filter(|(phrase, _)| contains(line, &words, phrase)).collect()
}

fn contains(line: &str, words: &[Range<usize>], phrase: &str) -> bool {
    let wanted: Vec<&str> = phrase.split(' ').collect();
    words.windows(wanted.len()).any(|found| {
        let same =
            found.iter().zip(&wanted).all(|(range, word)| line[range.clone()].eq_ignore_ascii_case(word));
        let together =
            found.windows(2).all(|pair| ["", " ", "_", "-"].contains(&&line[pair[0].end..pair[1].start]));
        same && together
    })
}

/// The words of a line, identifiers taken apart: `HTTPServer`, `http_server` and `http server` are two words each.
fn split(line: &str) -> Vec<Range<usize>> {
    let letters: Vec<(usize, char)> = line.char_indices().collect();
    let mut words: Vec<Range<usize>> = Vec::new();
    for (index, (at, letter)) in letters.iter().enumerate().filter(|(_, (_, letter))| letter.is_alphabetic())
    {
        let end = at + letter.len_utf8();
        let before = index.checked_sub(1).map(|before| letters[before].1);
        let next_is_small = letters.get(index + 1).is_some_and(|(_, next)| next.is_lowercase());
        let starts = match before {
            Some(before) if before.is_lowercase() => letter.is_uppercase(),
            Some(before) if before.is_uppercase() => letter.is_uppercase() && next_is_small,
            before => !before.is_some_and(char::is_alphabetic),
        };
        match words.last_mut() {
            Some(word) if !starts => word.end = end,
            _ => words.push(*at..end),
        }
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(line: &str) -> Vec<&'static str> {
        forbidden_in(line).into_iter().map(|(word, _)| word).collect()
    }

    #[test]
    fn a_forbidden_word_is_found_in_any_dress() {
        for line in [
            "a Job waits",
            "let job_count = 1;",
            "struct GPUJob;",
            "jobId",
            "// the job.",
            "\"job\"",
            "no-job",
        ] {
            assert_eq!(found(line), ["job"], "{line}");
        }
        for line in ["a sanity check", "fn sanity_check()", "SanityCheck", "sanityCheck", "sanity-check"] {
            assert_eq!(found(line), ["sanity check"], "{line}");
        }
        assert_eq!(found("todo!() // FIXME: XXX"), ["todo", "fixme", "xxx"]);
    }

    #[test]
    fn other_words_that_contain_it_are_fine() {
        for line in
            ["jobless hackathon", "mktemp leeway.XXXXXX", "his sanity; check it", "enslaved", "slack", "über"]
        {
            assert!(found(line).is_empty(), "{line}");
        }
    }

    #[test]
    fn a_complaint_says_what_to_say_instead() {
        let files =
            [File::new("docs/guide.md", "# Guide\nA job has a deadline.\n"), File::new("data.csv", "job\n")];
        let complaints: Vec<_> = check_but_for(&[], &files).iter().map(ToString::to_string).collect();
        assert_eq!(complaints, ["docs/guide.md:2: \"job\" is not our word: say task"]);
    }

    #[test]
    fn an_exception_holds_for_its_file_until_nothing_needs_it() {
        let exceptions = [Exception { path: "a.md", word: "job", why: "Kubernetes calls it so" }];
        let check = |text| check_but_for(&exceptions, &[File::new("a.md", text), File::new("b.md", "")]);
        assert!(check("kind: Job").is_empty());
        let stale = check("kind: Deployment");
        assert!(stale[0].to_string().contains("no line needs the exception \"job\""), "{stale:?}");
        assert_eq!(
            check_but_for(&exceptions, &[File::new("a.md", "Job"), File::new("b.md", "Job")]).len(),
            1
        );
    }

    #[test]
    fn a_shapeless_module_is_found_as_file_and_as_folder() {
        for path in ["sim/src/utils.rs", "tests/common/mod.rs", "web/helpers.js"] {
            assert_eq!(module_names(&[File::new(path, "")]).len(), 1, "{path}");
        }
        assert!(
            module_names(&[File::new("sim/src/luck.rs", ""), File::new("docs/common/a.md", "")]).is_empty()
        );
    }
}
