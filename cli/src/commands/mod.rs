//! One command per file.

pub mod run;

pub mod deadline;
pub mod ps;

pub mod agent;
pub mod cluster;
pub mod doctor;
pub mod events;
pub mod explain;
pub mod guard;
pub mod master;
pub mod nodes;
pub mod place;
pub mod policy;
pub mod release;
pub mod swapper;
pub mod tasks;
pub mod top;

pub mod completions;
pub mod plugin;

pub mod bench;
pub mod demo;
pub mod play;
pub mod replay;
pub mod sim;

pub mod gpu;
pub mod work;

use std::io::{self, Write};

/// Prints to standard output. A reader who has seen enough, such as `head`, is no failure.
pub(crate) fn print_all(text: &[u8]) -> anyhow::Result<()> {
    print_if_read(text).map(drop)
}

/// The same, and whether anybody still reads.
pub(crate) fn print_if_read(text: &[u8]) -> anyhow::Result<bool> {
    let mut stdout = io::stdout().lock();
    match stdout.write_all(text).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(false),
        written => anyhow::Context::context(written, "could not write to standard output").map(|()| true),
    }
}
