//! The placements whose containers this node stops, in a file: an agent that dies meanwhile leaves it to the next one to tell masters.
//!
//! They are written down before they are stopped. That one of them lives all the same does no harm: a master asks its engine before it
//! places anything anew.

use std::collections::HashSet;
use std::io;
use std::path::{Path, PathBuf};
use wire::replace::replace;

/// The file's name, in the folder of what must not outlive a restart of the machine.
const FILE: &str = "stopped";
/// How many are remembered.
pub(super) const STOPPED_MAX: usize = 1000;

/// The file of one agent.
#[derive(Clone)]
pub(super) struct StoppedFile(PathBuf);

impl StoppedFile {
    pub(super) fn new(run_dir: &Path) -> Self {
        Self(run_dir.join(FILE))
    }

    /// All that are in it, the latest last.
    pub(super) fn read(&self) -> Vec<String> {
        let text = std::fs::read_to_string(&self.0).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    /// Writes down some more.
    pub(super) fn add<'a>(&self, placements: impl Iterator<Item = &'a str>) -> io::Result<()> {
        let mut all = self.read();
        let mut known: HashSet<String> = all.iter().cloned().collect();
        let before = all.len();
        all.extend(placements.filter(|one| known.insert((*one).to_owned())).map(str::to_owned));
        if all.len() == before {
            return Ok(());
        }
        let surplus = all.len().saturating_sub(STOPPED_MAX);
        replace(&self.0, all[surplus..].join("\n"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_agent_knows_what_this_one_stopped() {
        let folder = tempfile::tempdir().unwrap();
        let file = StoppedFile::new(folder.path());
        assert!(file.read().is_empty());
        file.add(["one", "two", "one"].into_iter()).unwrap();
        file.add(std::iter::once("two")).unwrap();
        assert_eq!(StoppedFile::new(folder.path()).read(), ["one", "two"]);
        let many: Vec<String> = (0..STOPPED_MAX).map(|number| number.to_string()).collect();
        file.add(many.iter().map(String::as_str)).unwrap();
        assert_eq!((file.read().len(), file.read()[0].as_str()), (STOPPED_MAX, "0"));
    }
}
