//! Nothing committed knows the machine it was written on, or where packages come from.
//!
//! The names below are written in two halves, so that this file may be read by its own rule.

use crate::files::{Complaint, File};

/// Folders of development machines.
const FOLDERS: &[&str] = &[concat!("/wo", "rk/"), concat!("/ro", "ot/"), concat!("/fa", "rm/")];

/// Hosts of package registries. Which of them is asked is the machine's business, not the repository's.
const HOSTS: &[&str] = &[
    concat!("crates", ".io"),
    concat!("pypi", ".org"),
    concat!("pythonhosted", ".org"),
    concat!("registry.np", "mjs"),
    concat!("deb.deb", "ian"),
    concat!("archive.ub", "untu"),
    concat!("proxy.gol", "ang"),
];

pub(crate) fn check(files: &[File]) -> Vec<Complaint> {
    let mut complaints = Vec::new();
    // Cargo writes the registry into its lock file, and checks it there.
    for file in files.iter().filter(|file| file.name() != "Cargo.lock") {
        for (number, line) in file.lines() {
            for folder in FOLDERS.iter().filter(|folder| is_path_in(line, folder)) {
                let what = format!(
                    "{folder} is a development machine's: take the path as an argument, or make it relative"
                );
                complaints.push(file.complaint(number, what));
            }
            for host in HOSTS.iter().filter(|host| line.contains(**host)) {
                let what = format!("{host} is a registry: leave the choice to the machine's own settings");
                complaints.push(file.complaint(number, what));
            }
        }
    }
    complaints
}

/// Whether a line has a path that starts with the folder; a folder of that name further down is fine.
fn is_path_in(line: &str, folder: &str) -> bool {
    let continues = |before: char| before.is_alphanumeric() || "_-.})".contains(before);
    line.match_indices(folder).any(|(at, _)| !line[..at].ends_with(continues))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn complaints(text: &str) -> usize {
        check(&[File::new("docs/guide.md", text)]).len()
    }

    #[test]
    fn a_machine_s_folder_is_found_at_the_start_of_a_path() {
        for folder in FOLDERS {
            for text in [
                format!("cd {folder}main"),
                format!("{folder}x"),
                format!("(\"{folder}x\")"),
                format!("file://{folder}"),
            ] {
                assert_eq!(complaints(&text), 1, "{text}");
            }
            assert_eq!(complaints(&format!("cli/src{folder}mod.rs, ..{folder}x, $dir{folder}")), 0);
        }
    }

    #[test]
    fn a_registry_is_found_everywhere_but_in_the_lock_file() {
        for host in HOSTS {
            assert_eq!(complaints(&format!("\nhttps://{host}/simple")), 1);
            assert!(check(&[File::new("fuzz/Cargo.lock", host)]).is_empty());
        }
    }
}
