//! What is held: the file an agent writes before each hold, so that whoever finds it can let everything go.
//!
//! One JSON object a line. The guard reads it when the agent dies, the next agent when it starts, and `leeway release`
//! when a person asks.

use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// The file's name, in the folder of what must not outlive a restart of the machine.
pub const FILE: &str = "held";

/// How something is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum How {
    /// Its container's cgroup is frozen.
    Frozen,
    /// Its container is paused through Docker.
    Paused,
    /// The process stands at its gate, stopped by a signal, or will.
    Stopped,
}

/// One thing that is held.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeldLine {
    /// How.
    pub how: How,
    /// The container's id.
    pub container: String,
    /// The container's name.
    pub name: String,
    /// The folder of the container's cgroup.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub cgroup: Option<PathBuf>,
    /// The process that is stopped, as the host sees it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub pid: Option<u32>,
    /// When that process started, in the kernel's own unit: a pid alone may mean another by now.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub started: Option<u64>,
}

impl HeldLine {
    /// Whether this is what a person means: by name, id or start of the id.
    pub fn is(&self, wanted: &str) -> bool {
        self.name == wanted || (!wanted.is_empty() && self.container.starts_with(wanted))
    }
}

/// The file's text.
pub fn text(lines: &[HeldLine]) -> String {
    let line = |line| serde_json::to_string(line).unwrap_or_default() + "\n";
    lines.iter().map(line).collect()
}

/// Reads the file. None at all means that nothing is held; a line that cannot be understood is left out.
pub fn read(run_dir: &Path) -> Vec<HeldLine> {
    let text = std::fs::read_to_string(run_dir.join(FILE)).unwrap_or_default();
    text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_and_half_a_line_is_left_out() {
        let frozen = HeldLine {
            how: How::Frozen,
            container: "5c3f".repeat(16),
            name: "infer".to_owned(),
            cgroup: Some("/sys/fs/cgroup/docker/x y".into()),
            pid: None,
            started: None,
        };
        let stopped =
            HeldLine { how: How::Stopped, cgroup: None, pid: Some(7), started: Some(8), ..frozen.clone() };
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(read(folder.path()), []);
        let text = text(&[frozen.clone(), stopped.clone()]) + "{\"how\":\"fro";
        std::fs::write(folder.path().join(FILE), text).unwrap();
        assert_eq!(read(folder.path()), [frozen.clone(), stopped]);
        assert!(frozen.is("infer") && frozen.is("5c3f5c") && !frozen.is("inf") && !frozen.is(""));
    }
}
