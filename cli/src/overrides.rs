//! `deadlines.json` on disk: read whole, written whole, never half.
//!
//! Readers take no lock: the file is replaced by renaming, so they see the old one or the new one. Writers hold a lock
//! on a file beside it from reading to renaming, so two at once lose nothing. A file that cannot be understood is
//! left exactly as it is: it holds what somebody set.

use crate::failure::Failure;
use anyhow::{Context, Result};
use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use wire::deadlines::Deadlines;
use wire::replace::replace_for_good;

/// Where Leeway keeps what must outlive a restart.
#[derive(clap::Args, Debug)]
pub struct StateDir {
    /// Where Leeway keeps what must outlive a restart
    #[arg(long, value_name = "DIR", env = "LEEWAY_STATE_DIR", default_value = "/var/lib/leeway")]
    state_dir: PathBuf,
}

impl StateDir {
    /// What was set; nothing if nobody ever set anything.
    pub fn deadlines(&self) -> Result<Deadlines> {
        read(&self.file())
    }

    /// Changes what was set, as one step: nobody else's change is lost, and no reader sees half of it.
    pub fn change_deadlines<T>(&self, change: impl FnOnce(&mut Deadlines) -> Result<T>) -> Result<T> {
        let file = self.file();
        let _lock = self.lock().map_err(|error| self.not_writable(&error))?;
        let mut deadlines = read(&file)?;
        let before = deadlines.clone();
        let outcome = change(&mut deadlines)?;
        if deadlines != before {
            let text = deadlines.render().context("could not write deadlines as JSON")?;
            replace_for_good(&file, &text, 0o644).map_err(|error| self.not_writable(&error))?;
        }
        Ok(outcome)
    }

    fn file(&self) -> PathBuf {
        self.state_dir.join("deadlines.json")
    }

    /// The lock is let go when the file is closed, also if we are killed.
    fn lock(&self) -> io::Result<File> {
        fs::create_dir_all(&self.state_dir)?;
        let name = self.state_dir.join("deadlines.json.lock");
        let lock = OpenOptions::new().create(true).truncate(false).write(true).open(name)?;
        lock.lock()?;
        Ok(lock)
    }

    fn not_writable(&self, error: &io::Error) -> Failure {
        let failure = Failure::new(format!("could not write {}: {error}", self.file().display()));
        if error.kind() == io::ErrorKind::PermissionDenied {
            return failure.help(
                "deadlines are kept for the whole machine: try sudo, or name a folder with --state-dir",
            );
        }
        failure
    }
}

fn read(file: &Path) -> Result<Deadlines> {
    let text = match fs::read_to_string(file) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Deadlines::default()),
        read => read.with_context(|| format!("could not read {}", file.display()))?,
    };
    Deadlines::parse(&text).map_err(|damage| {
        let cause = format!("{:#}", anyhow::Error::new(damage));
        Failure::new(format!("could not understand {}, and left it as it is: {cause}", file.display()))
            .help("repair the file, or move it aside: the labels then count for every container")
            .into()
    })
}
