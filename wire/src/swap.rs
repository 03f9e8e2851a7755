//! Swapping: what the helper that calls the driver is told, and the file that says what is swapped out.
//!
//! The helper reads one JSON object a line and answers each with one. The file is like that of what is held (see [`crate::held`]): an agent
//! writes it before it asks the driver for anything, and whoever finds it can bring everything back.

use crate::replace::replace;
use serde::{Deserialize, Serialize};
use std::path::Path;

/// The file's name, in the folder of what must not outlive a restart of the machine.
pub const FILE: &str = "swapped";

/// Room on a GPU: its number, and bytes.
pub type Room = (u16, u64);

/// What the helper is to do, and to which process, as the host sees it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Order {
    /// Say how much room it has on which GPUs, its contexts included.
    Measure {
        /// The process.
        pid: u32,
    },
    /// Keep it from the GPU: what it asks of the driver waits.
    Lock {
        /// The process.
        pid: u32,
        /// Its start: a pid alone may mean another by now.
        started: u64,
    },
    /// Move its GPU memory to host memory. It must be locked, and it takes part, so it must not be stopped.
    Checkpoint {
        /// The process.
        pid: u32,
        /// Its start.
        started: u64,
    },
    /// Move its memory back, if there is that much room.
    Restore {
        /// The process.
        pid: u32,
        /// Its start.
        started: u64,
        /// How much on which GPU.
        rooms: Vec<Room>,
    },
    /// Let it use the GPU again.
    Unlock {
        /// The process.
        pid: u32,
        /// Its start.
        started: u64,
    },
    /// Say where its memory is.
    State {
        /// The process.
        pid: u32,
        /// Its start.
        started: u64,
    },
}

/// What came of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Answer {
    /// It is done.
    Done,
    /// That much room, on these GPUs.
    Rooms(Vec<Room>),
    /// There it is.
    State(State),
    /// There is not enough room on a GPU; a sentence.
    NoRoom(String),
    /// The process is gone.
    Gone,
    /// The driver will not; a sentence.
    Refused(String),
}

/// Where a process's GPU memory is: the driver's own states.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// On the GPU.
    Running,
    /// On the GPU, and the process is kept from it.
    Locked,
    /// In host memory.
    Out,
    /// Nowhere: it did not fit back, and the driver gave the process up.
    Lost,
}

/// One process that is swapped out, or about to be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SwappedLine {
    /// The container's id.
    pub container: String,
    /// The container's name.
    pub name: String,
    /// The process, as the host sees it.
    pub pid: u32,
    /// When it started, in the kernel's own unit.
    pub started: u64,
    /// How much room it takes to bring it back. None before it was measured: then it has not left.
    #[serde(default)]
    pub rooms: Vec<Room>,
}

impl SwappedLine {
    /// Whether this is what a person means: by name, id or start of the id.
    pub fn is(&self, wanted: &str) -> bool {
        self.name == wanted || (!wanted.is_empty() && self.container.starts_with(wanted))
    }
}

/// Reads the file. None at all means that nothing is swapped out; a line that cannot be understood is left out.
pub fn read(run_dir: &Path) -> Vec<SwappedLine> {
    let text = std::fs::read_to_string(run_dir.join(FILE)).unwrap_or_default();
    text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

/// Replaces the file as a whole, so that nobody reads half of it; without lines there is none.
pub fn write(run_dir: &Path, lines: &[SwappedLine]) -> std::io::Result<()> {
    let file = run_dir.join(FILE);
    if lines.is_empty() {
        return match std::fs::remove_file(&file) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        };
    }
    let line = |line| serde_json::to_string(line).unwrap_or_default() + "\n";
    replace(&file, lines.iter().map(line).collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_and_nothing_is_no_file() {
        let folder = tempfile::tempdir().unwrap();
        let line = SwappedLine {
            container: "5c3f".repeat(16),
            name: "train".to_owned(),
            pid: 7,
            started: 8,
            rooms: vec![(0, 1 << 30)],
        };
        assert_eq!(read(folder.path()), []);
        write(folder.path(), std::slice::from_ref(&line)).unwrap();
        assert_eq!(read(folder.path()), std::slice::from_ref(&line));
        assert!(line.is("train") && line.is("5c3f5c") && !line.is("") && !line.is("tra"));
        write(folder.path(), &[]).unwrap();
        assert!(!folder.path().join(FILE).exists());
        write(folder.path(), &[]).unwrap();
    }
}
