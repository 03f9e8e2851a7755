//! House rules as a test: what STYLE.md asks for, and a program can see.
//!
//! Each rule is a function from the repository's files to complaints, in a module of its own beside
//! small bad examples that prove it can fail. A complaint names the line and what to do instead.

mod files;
mod tokens;

mod finished;
mod headers;
mod length;
mod manifests;
mod places;
mod promises;
mod purity;
mod words;

use files::{Complaint, File};

#[test]
fn a_file_is_short_enough_to_read_in_one_sitting() {
    nobody_complains(length::files);
}

#[test]
fn a_function_fits_a_screen() {
    nobody_complains(length::functions);
}

#[test]
fn a_file_opens_with_its_purpose() {
    nobody_complains(headers::check);
}

#[test]
fn one_idea_has_one_word() {
    nobody_complains(words::check);
}

#[test]
fn a_module_is_named_after_its_idea() {
    nobody_complains(words::module_names);
}

#[test]
fn what_is_committed_is_finished_and_every_test_runs() {
    nobody_complains(finished::check);
}

#[test]
fn unsafe_code_says_why_it_is_sound() {
    nobody_complains(finished::unsafe_code);
}

#[test]
fn nothing_knows_the_machine_it_was_written_on() {
    nobody_complains(places::check);
}

#[test]
fn the_scheduler_is_pure() {
    nobody_complains(purity::check);
}

#[test]
fn a_dependency_earns_its_line() {
    nobody_complains(manifests::dependencies);
}

#[test]
fn every_manifest_says_licence_and_rust_version() {
    nobody_complains(manifests::packages);
}

#[test]
fn every_promise_has_a_proof() {
    nobody_complains(promises::check);
}

/// Applies a rule to the repository, and fails with every complaint at once.
#[track_caller]
fn nobody_complains(rule: fn(&[File]) -> Vec<Complaint>) {
    let complaints: Vec<String> = rule(&files::repository()).iter().map(ToString::to_string).collect();
    assert!(
        complaints.is_empty(),
        "{} against the house rules:\n{}",
        complaints.len(),
        complaints.join("\n")
    );
}
