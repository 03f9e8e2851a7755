//! That all masters have said farewell, in a file: an agent that starts anew meanwhile has the minutes that are left, not seconds.

use super::contact::Contact;
use rustix::time::{ClockId, clock_gettime};
use std::collections::HashSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};
use wire::replace::replace;

/// The file's name, in the folder of what must not outlive a restart of the machine.
const FILE: &str = "farewells";
/// Tells one start of the machine from another, should the folder outlive one all the same.
const BOOT: &str = "/proc/sys/kernel/random/boot_id";

/// When a master last let this node stay, and who has said farewell.
pub(super) type Gone = (Instant, HashSet<String>);

/// The file of one agent.
pub(super) struct Farewells {
    file: PathBuf,
    /// The time in it.
    written: Mutex<Option<Instant>>,
}

impl Farewells {
    pub(super) fn new(run_dir: &Path) -> Self {
        Self { file: run_dir.join(FILE), written: Mutex::new(None) }
    }

    /// What the agent before us left. It is in the file no more.
    pub(super) fn take(&self) -> Option<Gone> {
        let text = std::fs::read_to_string(&self.file).ok()?;
        let _ = std::fs::remove_file(&self.file);
        let mut lines = text.lines();
        if lines.next()? != boot().ok()? {
            return None;
        }
        let ago = now().checked_sub(Duration::from_micros(lines.next()?.parse().ok()?))?;
        Some((Instant::now().checked_sub(ago)?, lines.map(str::to_owned).collect()))
    }

    /// Writes down how masters stand, if that has changed.
    pub(super) fn keep(&self, contact: &Contact) {
        let mut written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
        let gone = contact.all_gone();
        let at = gone.as_ref().map(|(at, _)| *at);
        if at == *written {
            return;
        }
        let done = gone.map_or_else(|| std::fs::remove_file(&self.file), |gone| self.write(&gone));
        if let Err(error) = done {
            eprintln!("warning: that masters said farewell could not be kept: {error}");
        }
        *written = at;
    }

    fn write(&self, (at, masters): &Gone) -> io::Result<()> {
        let at = now().saturating_sub(at.elapsed());
        let lines = [boot()?, at.as_micros().to_string()].into_iter().chain(masters.iter().cloned());
        replace(&self.file, lines.collect::<Vec<String>>().join("\n"))
    }
}

/// The time since the machine started, sleep included.
fn now() -> Duration {
    Duration::try_from(clock_gettime(ClockId::Boottime)).unwrap_or_default()
}

fn boot() -> io::Result<String> {
    Ok(std::fs::read_to_string(BOOT)?.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn contact(gone: Option<Gone>) -> Contact {
        Contact::new(vec!["a".to_owned(), "b".to_owned()], gone)
    }

    #[test]
    fn an_agent_that_starts_anew_knows_that_all_masters_have_said_farewell() {
        let folder = tempfile::tempdir().unwrap();
        let (file, before) = (Farewells::new(folder.path()), contact(None));
        let soon = || Instant::now() + Duration::from_mins(1);
        before.farewell("a", true);
        file.keep(&before);
        assert_eq!(file.take(), None, "one is left");
        before.farewell("b", true);
        file.keep(&before);
        let next = Farewells::new(folder.path());
        let after = contact(next.take());
        assert!(contact(None).is_cut_off(soon()) && !after.is_cut_off(soon()));
        assert!(after.is_cut_off(Instant::now() + Duration::from_mins(4)), "it has what is left, no more");
        next.keep(&after);
        assert!(Farewells::new(folder.path()).file.exists(), "and so has the one after it");
        after.farewell("a", false);
        next.keep(&after);
        assert_eq!(next.take(), None, "one is back");
    }

    #[test]
    fn what_was_said_before_the_machine_started_is_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let file = Farewells::new(folder.path());
        file.write(&(Instant::now(), HashSet::new())).unwrap();
        let text = std::fs::read_to_string(&file.file).unwrap();
        std::fs::write(&file.file, format!("another{text}")).unwrap();
        assert_eq!((file.take(), file.file.exists()), (None, false));
    }
}
