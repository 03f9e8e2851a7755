//! Manifests: one licence, one version of Rust, and a reason for every dependency.

use crate::files::{Complaint, File};

const ROOT: &str = "Cargo.toml";
const LICENCE: &str = "\"Apache-2.0\"";
const RUST_VERSION: &str = "\"1.95\"";

/// One `key = value` of a manifest.
pub(crate) struct Entry<'a> {
    /// The section's name without its brackets.
    pub(crate) section: &'a str,
    pub(crate) line: usize,
    pub(crate) key: &'a str,
    /// The value, with the comment behind it.
    value: &'a str,
}

/// Every entry of a manifest. The lines of a long list are entries' continuations, and are left out.
pub(crate) fn entries(manifest: &File) -> Vec<Entry<'_>> {
    let mut section = "";
    let mut entries = Vec::new();
    for (number, line) in manifest.lines() {
        if let Some(name) = line.strip_prefix('[') {
            section = name.split(']').next().unwrap_or_default().trim_start_matches('[');
        } else if let Some((key, value)) = line.split_once(" = ")
            && line.starts_with(|first: char| first.is_alphanumeric() || first == '"')
        {
            entries.push(Entry { section, line: number, key, value });
        }
    }
    entries
}

/// A dependency is written once, in the workspace, with what it is for; crates refer to that line.
pub(crate) fn dependencies(files: &[File]) -> Vec<Complaint> {
    let mut complaints = Vec::new();
    for file in files.iter().filter(|file| file.name() == "Cargo.toml") {
        for entry in entries(file).iter().filter(|entry| entry.section.ends_with("dependencies")) {
            let is_ours = entry.value.contains("path = ");
            let refers = entry.key.ends_with(".workspace") || entry.value.contains("workspace = true");
            let is_explained =
                entry.value.split_once(" # ").is_some_and(|(_, reason)| !reason.trim().is_empty());
            if entry.section == "workspace.dependencies" && !is_ours && !is_explained {
                let help = "a dependency earns its line: end it with `# ` and what it is for";
                complaints.push(file.complaint(entry.line, help));
            } else if entry.section != "workspace.dependencies" && !is_ours && !refers {
                let help = "write the dependency in the workspace's Cargo.toml with what it is for, and `.workspace = true` here";
                complaints.push(file.complaint(entry.line, help));
            }
        }
    }
    complaints
}

/// The workspace says licence and Rust version, and every crate says the same.
pub(crate) fn packages(files: &[File]) -> Vec<Complaint> {
    let mut complaints = Vec::new();
    for file in files.iter().filter(|file| file.name() == "Cargo.toml") {
        let (section, wanted) = if file.path == ROOT {
            ("workspace.package", [("license", LICENCE), ("rust-version", RUST_VERSION)])
        } else {
            ("package", [("license.workspace", "true"), ("rust-version.workspace", "true")])
        };
        let entries = entries(file);
        for (key, value) in wanted {
            if !entries.iter().any(|entry| (entry.section, entry.key, entry.value) == (section, key, value)) {
                complaints.push(file.complaint(1, format!("write `{key} = {value}` under [{section}]")));
            }
        }
    }
    complaints
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(rule: fn(&[File]) -> Vec<Complaint>, path: &str, text: &str) -> Vec<String> {
        rule(&[File::new(path, text)]).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_dependency_without_a_reason_is_found() {
        let unexplained = "[workspace.dependencies]\nrand = \"0.10\"\nwire = { path = \"wire\" }\n";
        assert!(found(dependencies, ROOT, unexplained)[0].starts_with("Cargo.toml:2: a dependency earns"));
        let explained =
            "[workspace.dependencies]\nrand = \"0.10\" # luck\n[workspace.lints.rust]\na = \"deny\"\n";
        assert!(found(dependencies, ROOT, explained).is_empty());
    }

    #[test]
    fn a_dependency_that_bypasses_the_workspace_is_found() {
        for section in ["dependencies", "dev-dependencies", "target.'cfg(unix)'.dependencies"] {
            assert_eq!(
                found(dependencies, "sim/Cargo.toml", &format!("[{section}]\nrand = \"0.10\" # luck\n"))
                    .len(),
                1
            );
            let refers = format!(
                "[{section}]\nrand.workspace = true\nserde = {{ workspace = true, features = [] }}\n"
            );
            assert!(found(dependencies, "sim/Cargo.toml", &refers).is_empty());
        }
    }

    #[test]
    fn a_manifest_without_licence_or_rust_version_is_found() {
        let good = "[package]\nlicense.workspace = true\nrust-version.workspace = true\n";
        assert!(found(packages, "sim/Cargo.toml", good).is_empty());
        assert_eq!(found(packages, "sim/Cargo.toml", "[package]\nlicense = \"MIT\"\n").len(), 2);
        let workspace = "[workspace.package]\nrust-version = \"1.95\"\nlicense = \"Apache-2.0\"\n";
        assert!(found(packages, ROOT, workspace).is_empty());
        assert_eq!(
            found(packages, ROOT, &workspace.replace("1.95", "1.80").replace("Apache-2.0", "MIT")).len(),
            2
        );
    }
}
