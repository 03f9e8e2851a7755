//! Files and functions short enough to be read.

use crate::files::{Complaint, File};
use crate::tokens::Source;

/// Past this a file is two files.
const FILE_LINES_MAX: usize = 500;
/// What we aim for.
const FILE_LINES_GOAL: usize = 100;
/// What fits a screen.
const FUNCTION_LINES_MAX: usize = 70;

pub(crate) fn files(files: &[File]) -> Vec<Complaint> {
    let mut complaints = Vec::new();
    for file in files.iter().filter(|file| file.is_code()) {
        let lines = file.lines().count();
        if lines > FILE_LINES_MAX {
            let what = format!(
                "{lines} lines, at most {FILE_LINES_MAX}: split it by idea; about {FILE_LINES_GOAL} is the goal"
            );
            complaints.push(file.complaint(FILE_LINES_MAX + 1, what));
        }
    }
    complaints
}

/// A closure or an inner function counts in the function around it: that is what the reader scrolls through.
pub(crate) fn functions(files: &[File]) -> Vec<Complaint> {
    let mut complaints = Vec::new();
    for file in files.iter().filter(|file| file.is_rust()) {
        match Source::read(&file.text) {
            Ok(source) => complaints.extend(long_functions(file, &source)),
            Err(error) => complaints.push(file.complaint(error.span().start().line, "not Rust: mend it")),
        }
    }
    complaints
}

fn long_functions(file: &File, source: &Source) -> Vec<Complaint> {
    let long = source.functions().into_iter().filter(|function| function.lines > FUNCTION_LINES_MAX);
    let complaint = |function: crate::tokens::Function| {
        let (name, lines) = (function.name, function.lines);
        let what = format!(
            "function {name} has {lines} lines, at most {FUNCTION_LINES_MAX}: branch above, compute in functions below"
        );
        file.complaint(function.line, what)
    };
    long.map(complaint).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_501st_line_is_one_too_many() {
        let with_lines = |path: &str, lines: usize| File::new(path, &"x\n".repeat(lines));
        for path in ["sched/src/a.rs", "bpf/a.bpf.c", "web/page.js", "scripts/test", ".ci/run"] {
            assert!(files(&[with_lines(path, 500)]).is_empty());
            let complaints = files(&[with_lines(path, 501)]);
            assert!(
                complaints[0].to_string().starts_with(&format!("{path}:501: 501 lines")),
                "{complaints:?}"
            );
        }
        assert!(files(&[with_lines("docs/guide.md", 501)]).is_empty());
    }

    #[test]
    fn the_71st_line_of_a_function_is_one_too_many() {
        let with_lines =
            |lines: usize| File::new("a.rs", &format!("\nfn f() {{{}}}", "\n".repeat(lines - 1)));
        assert!(functions(&[with_lines(70)]).is_empty());
        let complaints = functions(&[with_lines(71)]);
        assert!(complaints[0].to_string().starts_with("a.rs:2: function f has 71 lines"), "{complaints:?}");
    }

    #[test]
    fn what_is_no_rust_is_said_so() {
        let complaints = functions(&[File::new("a.rs", "fn f() {}\nfn g( {}")]);
        assert!(complaints[0].to_string().ends_with("not Rust: mend it"), "{complaints:?}");
    }
}
