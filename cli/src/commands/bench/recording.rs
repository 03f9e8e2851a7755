//! What an agent of ours recorded, to measure by.

use anyhow::{Context, Result};
use std::path::{Path, PathBuf};
use wire::journal::Line;

/// All lines of a journal's folder, in order.
pub(super) fn lines(folder: &Path) -> Result<Vec<Line>> {
    let files = std::fs::read_dir(folder).context("could not read the journal")?.flatten();
    let mut files: Vec<PathBuf> = files.map(|file| file.path()).collect();
    files.sort();
    let mut lines = Vec::new();
    for file in files {
        let text = std::fs::read_to_string(&file).context("could not read the journal")?;
        lines.extend(text.lines().filter_map(|line| serde_json::from_str::<Line>(line).ok()));
    }
    Ok(lines)
}
