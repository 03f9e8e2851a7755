//! How a command fails: an exit code, and a line of help where there is something to try.
//!
//! It sits at the end of an error's chain, so `error:` prints the attempts and then this, and `help:` follows.

use std::io::Write;

/// The command did what it could, and failed.
const FAILED: u8 = 1;
/// The command line or an input was not understood.
const MISUNDERSTOOD: u8 = 2;

/// The end of an error's chain: why, what to try, and what to exit with.
#[derive(Debug)]
pub struct Failure {
    cause: String,
    help: Option<String>,
    exit: u8,
}

impl Failure {
    /// Something failed: exit code 1.
    pub fn new(cause: impl Into<String>) -> Self {
        Self { cause: cause.into(), help: None, exit: FAILED }
    }

    /// An input was not understood: exit code 2.
    pub fn input(cause: impl Into<String>) -> Self {
        Self { cause: cause.into(), help: None, exit: MISUNDERSTOOD }
    }

    /// What to try, as one sentence.
    #[must_use]
    pub fn help(self, help: impl Into<String>) -> Self {
        Self { help: Some(help.into()), ..self }
    }

    /// Another exit code: that of the program we stand in for.
    #[must_use]
    pub fn exit(self, exit: u8) -> Self {
        Self { exit, ..self }
    }
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.cause)
    }
}

impl std::error::Error for Failure {}

/// Prints an error's help, if it has one, and says what to exit with.
pub(crate) fn help_and_exit_code(error: &anyhow::Error) -> u8 {
    let failure = error.chain().find_map(|cause| cause.downcast_ref::<Failure>());
    if let Some(help) = failure.and_then(|failure| failure.help.as_deref()) {
        let _ = writeln!(std::io::stderr(), "help: {help}");
    }
    failure.map_or(FAILED, |failure| failure.exit)
}
