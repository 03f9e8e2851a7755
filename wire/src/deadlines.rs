//! `deadlines.json`: deadlines given to containers that already exist.
//!
//! Docker's labels cannot change once a container exists, so `leeway deadline set` writes here and the agent
//! reads here. Entries are keyed by full container id, which Docker never uses twice: an entry whose
//! container is gone means nothing, and the next write drops it.

use crate::duration;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The layout this version writes. A file of a later layout is refused, never rewritten.
pub const VERSION: u32 = 1;

/// The whole file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Deadlines {
    /// The layout of the file.
    pub version: u32,
    /// What was set, by full container id.
    pub containers: BTreeMap<String, Override>,
}

/// One container's deadline, in place of its label.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Override {
    /// The deadline as it was given, with its unit: `5s`.
    pub deadline: String,
    /// The id of the Docker daemon that has the container: one daemon knows nothing of another's containers, and
    /// must not have their entries dropped.
    pub daemon: String,
}

/// Why a text is no `deadlines.json`.
#[derive(Debug, thiserror::Error)]
pub enum Damaged {
    /// Not JSON, or not of this shape.
    #[error("it is not the JSON it should be")]
    Json(#[from] serde_json::Error),
    /// Written by a later Leeway.
    #[error("it has layout {0}, and this Leeway knows only layouts up to {VERSION}")]
    Version(u32),
    /// A deadline in it was edited by hand, and badly.
    #[error("the deadline of container {0} is wrong")]
    Deadline(String, #[source] duration::NotADuration),
}

impl Default for Deadlines {
    fn default() -> Self {
        Self { version: VERSION, containers: BTreeMap::new() }
    }
}

impl Deadlines {
    /// Reads a whole file; every deadline in it has been checked.
    pub fn parse(text: &str) -> Result<Self, Damaged> {
        let read: Self = serde_json::from_str(text)?;
        if read.version > VERSION {
            return Err(Damaged::Version(read.version));
        }
        for (container, given) in &read.containers {
            duration::parse(&given.deadline).map_err(|wrong| Damaged::Deadline(container.clone(), wrong))?;
        }
        Ok(read)
    }

    /// The whole file as it is written: one line a value, for people who look.
    pub fn render(&self) -> serde_json::Result<String> {
        serde_json::to_string_pretty(self).map(|text| text + "\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_back() {
        let mut deadlines = Deadlines::default();
        let given = Override { deadline: "5s".to_owned(), daemon: "ABCD:EFGH".to_owned() };
        deadlines.containers.insert("4f".repeat(32), given);
        assert_eq!(Deadlines::parse(&deadlines.render().unwrap()).unwrap(), deadlines);
    }

    #[test]
    fn a_damaged_file_is_refused_with_its_reason() {
        for (text, reason) in [
            ("", "JSON"),
            ("{\"version\":1,\"containers\":{\"ab\":", "JSON"),
            ("{\"version\":2,\"containers\":{}}", "layout 2"),
            (r#"{"version":1,"containers":{"ab":{"deadline":"soon","daemon":"x"}}}"#, "container ab"),
        ] {
            let damage = Deadlines::parse(text).unwrap_err().to_string();
            assert!(damage.contains(reason), "{text}: {damage}");
        }
    }
}
