//! One command per file.

pub mod run;

pub mod deadline;
pub mod ps;

pub mod completions;
pub mod plugin;

pub mod sim;

pub mod gpu;
pub mod work;

use std::io::{self, Write};

/// Prints to standard output. A reader who has seen enough, such as `head`, is no failure.
pub(crate) fn print_all(text: &[u8]) -> anyhow::Result<()> {
    match io::stdout().lock().write_all(text) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        written => anyhow::Context::context(written, "could not write to standard output"),
    }
}
