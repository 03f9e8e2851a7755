//! Watches `deadlines.json`, which `leeway deadline set` replaces as a whole.

use super::{Teller, Told};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;
use wire::deadlines::Deadlines;

/// How often the file is looked at: a person waits no longer than that for a new deadline to count.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// A file is the same while this is: it is replaced by renaming, which gives it another inode.
type Stamp = Option<(u64, i64, i64, u64)>;

/// Follows the file for as long as the agent runs. One that cannot be understood changes nothing.
pub async fn watch(state_dir: PathBuf, teller: Teller) {
    let file = state_dir.join("deadlines.json");
    let mut seen: Stamp = None;
    loop {
        let stamp = stamp(&file);
        if stamp != seen {
            seen = stamp;
            match read(&file) {
                Ok(deadlines) => {
                    let given = deadlines.containers.into_iter().map(|(id, set)| (id, set.deadline));
                    if !teller.tell_soon(Told::Deadlines(given.collect())).await {
                        return;
                    }
                }
                Err(why) => eprintln!("warning: deadlines that were set stay as they were: {why}"),
            }
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

fn stamp(file: &Path) -> Stamp {
    let about = std::fs::metadata(file).ok()?;
    Some((about.ino(), about.mtime(), about.mtime_nsec(), about.len()))
}

fn read(file: &Path) -> Result<Deadlines, String> {
    let text = match std::fs::read_to_string(file) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Deadlines::default()),
        text => text.map_err(|error| format!("could not read {}: {error}", file.display()))?,
    };
    Deadlines::parse(&text).map_err(|damage| format!("could not understand {}: {damage}", file.display()))
}
