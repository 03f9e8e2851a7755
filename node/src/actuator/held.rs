//! The file that says what is held, written before each hold.

use std::path::{Path, PathBuf};
use wire::held::{self, HeldLine};
use wire::replace::replace;

pub(super) struct Held {
    file: PathBuf,
    /// What the file says; none if that is not known.
    written: Option<Vec<HeldLine>>,
    said: bool,
}

impl Held {
    pub(super) fn new(run_dir: &Path) -> Self {
        Self { file: run_dir.join(held::FILE), written: None, said: false }
    }

    /// Replaces the file as a whole, so that nobody reads half of it. False if that cannot be done.
    pub(super) fn write(&mut self, lines: Vec<HeldLine>) -> bool {
        if self.written.as_ref() == Some(&lines) {
            return true;
        }
        match replace(&self.file, held::text(&lines)) {
            Ok(()) => {
                (self.written, self.said) = (Some(lines), false);
                true
            }
            Err(error) => {
                self.written = None;
                if !std::mem::replace(&mut self.said, true) {
                    let file = self.file.display();
                    eprintln!("warning: nothing is held while {file} cannot be written: {error}");
                }
                false
            }
        }
    }
}
