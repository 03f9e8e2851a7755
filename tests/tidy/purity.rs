//! The scheduler is pure: no dependencies, no `std`, no `Result`, so that the simulator runs the same code.

use crate::files::{Complaint, File};
use crate::manifests::entries;
use crate::tokens::Source;

const MANIFEST: &str = "sched/Cargo.toml";
const SOURCES: &str = "sched/src/";
const ROOT: &str = "sched/src/lib.rs";

pub(crate) fn check(files: &[File]) -> Vec<Complaint> {
    let mut complaints = Vec::new();
    let tests = test_only_files(files);
    for file in files {
        let is_test = tests
            .iter()
            .any(|path| file.path == format!("{path}.rs") || file.path.starts_with(&format!("{path}/")));
        if file.path == MANIFEST {
            complaints.extend(dependencies(file));
        } else if file.path.starts_with(SOURCES) && file.is_rust() && !is_test {
            complaints.extend(impurities(file));
        }
        if file.path == ROOT && !file.lines().any(|(_, line)| line == "#![no_std]") {
            complaints.push(file.complaint(1, "the scheduler is pure: write `#![no_std]` below the purpose"));
        }
    }
    complaints
}

fn dependencies(manifest: &File) -> Vec<Complaint> {
    let entries = entries(manifest);
    // A dependency of tests stays in tests; any other is in the scheduler.
    let harmful = entries.iter().filter(|entry| {
        entry.section.contains("dependencies") && !entry.section.contains("dev-dependencies")
    });
    let help = "the scheduler is pure: do without the dependency, or do this work in another crate";
    harmful.map(|entry| manifest.complaint(entry.line, help)).collect()
}

fn impurities(file: &File) -> Vec<Complaint> {
    let Ok(source) = Source::read(&file.text) else { return Vec::new() };
    let tests = source.test_only();
    let mut complaints = Vec::new();
    for at in (0..source.len()).filter(|at| !tests.iter().any(|range| range.contains(at))) {
        let help = match source.word(at) {
            Some("std") if source.is_mark(at + 1, ':') => {
                "the scheduler is pure: use `core` or `alloc`, not `std`"
            }
            Some("Result") if source.is_mark(at + 1, '<') => {
                "nothing fails in the scheduler: check at the door, and take a type that carries the proof"
            }
            _ => continue,
        };
        complaints.push(file.complaint(source.line(at), help));
    }
    complaints
}

/// The paths, without `.rs`, of modules that their parent declares under `#[cfg(test)]`.
fn test_only_files(files: &[File]) -> Vec<String> {
    let mut paths = Vec::new();
    for file in files.iter().filter(|file| file.path.starts_with(SOURCES) && file.is_rust()) {
        let Ok(source) = Source::read(&file.text) else { continue };
        let folder = match file.stem() {
            "lib" | "mod" => file.folder().to_owned(),
            stem => format!("{}{stem}/", file.folder()),
        };
        let declared = |at: usize| {
            let name = source.word(at + 1)?;
            (source.word(at) == Some("mod") && source.is_mark(at + 2, ';')).then(|| format!("{folder}{name}"))
        };
        paths.extend(source.test_only().into_iter().flatten().filter_map(declared));
    }
    paths
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str, text: &str) -> Vec<String> {
        check(&[File::new(path, text)]).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_dependency_makes_it_impure_unless_only_tests_have_it() {
        for section in [
            "[dependencies]",
            "[build-dependencies]",
            "[target.'cfg(unix)'.dependencies]",
            "[dependencies.libm]",
        ] {
            let complaints = found(MANIFEST, &format!("{section}\nlibm = \"1\"\n"));
            assert!(complaints[0].starts_with("sched/Cargo.toml:2:"), "{section}");
        }
        assert!(
            found(MANIFEST, "[dependencies]\n# none\n[dev-dependencies]\nexpect-test = \"1\"\n").is_empty()
        );
    }

    #[test]
    fn std_and_result_make_it_impure() {
        assert!(
            found("sched/src/a.rs", "\nuse std::time::Instant;")[0]
                .starts_with("sched/src/a.rs:2: the scheduler")
        );
        assert!(found("sched/src/a.rs", "fn f() -> Result<u8, ()> { Ok(1) }")[0].contains("nothing fails"));
        assert!(found("sched/src/a.rs", "fn f() -> fmt::Result { } // std::time, Result<u8>").is_empty());
        assert!(found(ROOT, "//! Pure.\n")[0].contains("no_std"));
    }

    #[test]
    fn tests_may_use_what_they_like() {
        assert!(
            found("sched/src/a.rs", "#[cfg(test)] mod tests { use std::vec; fn f() -> Result<(), ()> {} }")
                .is_empty()
        );
        let parent = File::new("sched/src/policy/mod.rs", "#[cfg(test)]\nmod stories;\nmod fifo;");
        let story = File::new("sched/src/policy/stories.rs", "use std::vec;");
        let fifo = File::new("sched/src/policy/fifo.rs", "use std::vec;");
        let complaints = check(&[parent, story, fifo]);
        assert_eq!(complaints.len(), 1);
        assert!(complaints[0].to_string().starts_with("sched/src/policy/fifo.rs:1:"));
    }
}
