//! The repository as the rules see it: every file that is, or is about to be, committed.

use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A text file, by its path from the repository's root.
pub(crate) struct File {
    pub(crate) path: String,
    pub(crate) text: String,
}

impl File {
    pub(crate) fn new(path: &str, text: &str) -> Self {
        Self { path: path.to_owned(), text: text.to_owned() }
    }

    /// What follows the last dot of the name; empty for `scripts/test`.
    pub(crate) fn extension(&self) -> &str {
        self.name().rsplit_once('.').map_or("", |(_, extension)| extension)
    }

    pub(crate) fn name(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or_default()
    }

    /// The name without its extension.
    pub(crate) fn stem(&self) -> &str {
        self.name().rsplit_once('.').map_or(self.name(), |(stem, _)| stem)
    }

    /// The folder with its closing slash; empty at the root.
    pub(crate) fn folder(&self) -> &str {
        &self.path[..self.path.len() - self.name().len()]
    }

    pub(crate) fn is_rust(&self) -> bool {
        self.extension() == "rs"
    }

    /// A `.sh` anywhere; in the folders of scripts, what has no extension or says who runs it.
    pub(crate) fn is_script(&self) -> bool {
        let in_a_folder_of_scripts = ["scripts/", ".ci/"].iter().any(|folder| self.path.starts_with(folder));
        let is_program = self.extension().is_empty() || self.text.starts_with("#!");
        self.extension() == "sh" || (in_a_folder_of_scripts && is_program)
    }

    pub(crate) fn is_code(&self) -> bool {
        self.is_script() || ["rs", "c", "h", "js"].contains(&self.extension())
    }

    /// Lines numbered from 1, as editors and compilers number them.
    pub(crate) fn lines(&self) -> impl Iterator<Item = (usize, &str)> {
        (1..).zip(self.text.lines())
    }

    pub(crate) fn complaint(&self, line: usize, what: impl Into<String>) -> Complaint {
        Complaint { path: self.path.clone(), line, what: what.into() }
    }
}

/// One line that breaks a rule, and what to do instead.
#[derive(Debug)]
pub(crate) struct Complaint {
    path: String,
    line: usize,
    what: String,
}

impl fmt::Display for Complaint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.path, self.line, self.what)
    }
}

/// Every text file of the repository, in the order of their paths.
pub(crate) fn repository() -> Vec<File> {
    let root = root();
    let mut paths = listed_by_git(&root).unwrap_or_else(|| found_in(&root, ""));
    paths.sort();
    // In the middle of a merge, git lists a path once for each side.
    paths.dedup();
    // A file that git knows but that was just deleted, and one that is no text, are not for us.
    let read = |path: String| Some(File { text: std::fs::read_to_string(root.join(&path)).ok()?, path });
    let files: Vec<File> = paths.into_iter().filter_map(read).collect();
    // An empty list would please every rule.
    assert!(files.iter().any(|file| file.path == "Cargo.toml"), "no repository at {}", root.display());
    files
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("cli/ is a folder of the repository").to_owned()
}

/// Tracked files, and new ones that are not ignored; nothing where git or its data is absent.
fn listed_by_git(root: &Path) -> Option<Vec<String>> {
    let arguments = ["ls-files", "-z", "--cached", "--others", "--exclude-standard"];
    let output = Command::new("git").args(arguments).current_dir(root).output().ok()?;
    let listing = output.status.success().then(|| String::from_utf8(output.stdout).ok())??;
    let paths: Vec<String> = listing.split_terminator('\0').map(str::to_owned).collect();
    (!paths.is_empty()).then_some(paths)
}

/// Every file below a folder (its path from the root ends in a slash), but not what is built or git's own.
fn found_in(root: &Path, folder: &str) -> Vec<String> {
    let entries = std::fs::read_dir(root.join(folder)).into_iter().flatten().flatten();
    let mut paths = Vec::new();
    for entry in entries {
        let name = entry.file_name().to_string_lossy().into_owned();
        let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
        match name.as_str() {
            "target" | ".git" => {}
            _ if is_folder => paths.extend(found_in(root, &format!("{folder}{name}/"))),
            _ => paths.push(format!("{folder}{name}")),
        }
    }
    paths
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_git_a_walk_finds_the_same_files() {
        let root = root();
        let walked = found_in(&root, "");
        assert!(!walked.iter().any(|path| path.starts_with("target/") || path.starts_with(".git/")));
        let here = ["Cargo.toml", "sched/src/lib.rs", "tests/tidy/files.rs"];
        assert!(here.iter().all(|path| walked.iter().any(|walked| walked == path)), "{walked:?}");
        for path in listed_by_git(&root).unwrap_or_default() {
            assert!(walked.contains(&path) || !root.join(&path).exists(), "{path}");
        }
    }

    #[test]
    fn a_complaint_names_file_and_line() {
        let complaint = File::new("sched/src/lib.rs", "").complaint(7, "say task");
        assert_eq!(complaint.to_string(), "sched/src/lib.rs:7: say task");
    }
}
