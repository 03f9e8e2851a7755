//! Every promise in PROMISES.md names its proof, and the proof is in the tree.
//!
//! A table of promises has a column `proof`. Its cells hold, in backticks, one or more of:
//! a test (`sim::seeds::a_story`: the last part is the function, the others its folder, file or module),
//! a benchmark (`placement` or `placement/200`), a script (`scripts/test`) or a command (`leeway sim …`). Of `leeway bench` the
//! measurement is named, too, and of a script that has parts, the part.
//! A promise that is not kept yet says *pending* there.

use crate::files::{Complaint, File};
use crate::tokens::Source;

const PAGE: &str = "PROMISES.md";
const HELP: &str = "name a test, benchmark, script or `leeway` command in the tree, or say *pending*";

pub(crate) fn check(files: &[File]) -> Vec<Complaint> {
    // Until the page is written there is nothing to keep.
    let Some(page) = files.iter().find(|file| file.path == PAGE) else { return Vec::new() };
    let cells = proof_cells(page);
    if cells.is_empty() {
        return vec![page.complaint(1, "no promises: write a table with a column `proof`")];
    }
    let tests = tests(files);
    let mut complaints = Vec::new();
    for (line, cell) in cells.iter().filter(|(_, cell)| !cell.to_lowercase().contains("pending")) {
        let proofs: Vec<&str> = cell.split('`').skip(1).step_by(2).collect();
        if proofs.is_empty() {
            complaints.push(page.complaint(*line, format!("a promise without proof: {HELP}")));
        }
        for proof in proofs.iter().filter(|proof| !exists(proof, files, &tests)) {
            complaints.push(page.complaint(*line, format!("there is no `{proof}`: {HELP}")));
        }
    }
    complaints
}

/// The `proof` cell of every row of every table that has such a column, with its line.
fn proof_cells(page: &File) -> Vec<(usize, &str)> {
    let mut column = None;
    let mut cells = Vec::new();
    for (number, line) in page.lines() {
        let Some(row) = line.trim().strip_prefix('|') else {
            column = None;
            continue;
        };
        let row: Vec<&str> = row.split('|').map(str::trim).collect();
        match column {
            None => column = Some(row.iter().position(|title| title.eq_ignore_ascii_case("proof"))),
            // The line under the titles.
            Some(_) if row[0].starts_with(['-', ':']) => {}
            Some(Some(index)) => cells.push((number, row.get(index).copied().unwrap_or_default())),
            Some(None) => {}
        }
    }
    cells
}

/// Every function that is a test, with the file it stands in.
fn tests(files: &[File]) -> Vec<(&File, String)> {
    let mut tests = Vec::new();
    for file in files.iter().filter(|file| file.is_rust()) {
        let functions = Source::read(&file.text).map(|source| source.functions()).unwrap_or_default();
        tests.extend(functions.into_iter().filter(|f| f.is_test).map(|f| (file, f.name)));
    }
    tests
}

fn exists(proof: &str, files: &[File], tests: &[(&File, String)]) -> bool {
    if let Some(arguments) = proof.strip_prefix("leeway ") {
        let mut words = arguments.split_whitespace();
        let module = match (words.next().unwrap_or_default(), words.next()) {
            ("bench", Some(measurement)) => format!("bench/{measurement}"),
            (command, _) => command.to_owned(),
        };
        let module = format!("cli/src/commands/{module}");
        return files
            .iter()
            .any(|file| file.path == format!("{module}.rs") || file.path == format!("{module}/mod.rs"));
    }
    if proof.starts_with("scripts/") {
        let mut words = proof.split_whitespace();
        let (script, part) = (words.next().unwrap_or_default(), words.next());
        let knows = |file: &File| part.is_none_or(|part| part.starts_with('-') || has_part(part, file));
        return files.iter().any(|file| file.path == script && knows(file));
    }
    let mut parts: Vec<&str> = proof.split("::").collect();
    let name = parts.pop().unwrap_or_default();
    let stands_in = |file: &File| parts.iter().all(|part| is_part_of(part, file));
    let is_test = tests.iter().any(|(file, test)| test == name && stands_in(file));
    is_test || files.iter().any(|file| stands_in(file) && is_benchmark(name, file))
}

/// Whether a script has a case for this word, as in `large) # the largest`. One without any takes what it is given.
fn has_part(part: &str, script: &File) -> bool {
    let has = |start: &str| script.lines().any(|(_, line)| line.trim_start().starts_with(start));
    !has("case ") || has(&format!("{part})"))
}

/// Whether a part of a test's path is a folder, the file, or a module within it.
fn is_part_of(part: &str, file: &File) -> bool {
    let in_path = file.folder().split('/').chain([file.stem()]).any(|name| name == part);
    in_path || file.text.contains(&format!("mod {part} {{"))
}

/// A benchmark is its own name in quotes, in a file under `benches/`; what follows a slash is made at run time.
fn is_benchmark(name: &str, file: &File) -> bool {
    let group = name.split('/').next().unwrap_or_default();
    let is_bench = file.is_rust() && file.path.contains("/benches/");
    is_bench
        && (file.stem() == group
            || file.text.contains(&format!("\"{group}\""))
            || file.text.contains(&format!("\"{name}\"")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn complaints_about(proof: &str) -> Vec<String> {
        let page =
            format!("# Promises\n\n| promise | number | proof |\n|---|---|---|\n| fast | 2 µs | {proof} |\n");
        let files = [
            File::new(PAGE, &page),
            File::new("sim/tests/seeds.rs", "mod stories {\n#[test]\nfn a_story() {}\n}\nfn no_test() {}"),
            File::new("sched/benches/placement.rs", "c.benchmark_group(\"nodes\");"),
            File::new("cli/src/commands/sim.rs", ""),
            File::new("cli/src/commands/bench.rs", ""),
            File::new("cli/src/commands/bench/hold.rs", ""),
            File::new("cli/src/commands/bench/contention/mod.rs", ""),
            File::new("scripts/test", ""),
            File::new("scripts/measure", "case $part in\nlarge) # the largest\n\tlarge\n\t;;\nesac"),
        ];
        check(&files).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_proof_in_the_tree_is_found() {
        for proof in [
            "`a_story`",
            "`sim::seeds::a_story`",
            "`sim::stories::a_story` and `nodes`",
            "`placement`",
            "`sched::placement::nodes/200`",
            "`leeway sim --preset paper`",
            "`leeway bench hold --rounds 3`",
            "`leeway bench contention`",
            "`scripts/test`",
            "`scripts/test anything`",
            "`scripts/measure large`",
            "`scripts/measure --all`",
            "*pending*",
            "`later`, Pending",
        ] {
            assert!(complaints_about(proof).is_empty(), "{proof}");
        }
    }

    #[test]
    fn a_proof_that_is_not_in_the_tree_is_found() {
        for proof in [
            "`a_tale`",
            "`wire::a_story`",
            "`no_test`",
            "`a_story`, `a_tale`",
            "`leeway dance`",
            "`leeway bench dance`",
            "`scripts/dance`",
            "`scripts/measure dance`",
            "`edges/200`",
        ] {
            let complaints = complaints_about(proof);
            assert!(
                complaints.len() == 1 && complaints[0].starts_with("PROMISES.md:5: there is no `"),
                "{proof}"
            );
        }
        assert!(complaints_about("trust us")[0].contains("a promise without proof"));
    }

    #[test]
    fn a_page_without_promises_is_found_and_no_page_is_fine() {
        assert_eq!(check(&[File::new(PAGE, "# Promises\n\n| promise |\n|---|\n| fast |\n")]).len(), 1);
        assert!(check(&[]).is_empty());
    }
}
