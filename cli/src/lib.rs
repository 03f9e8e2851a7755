//! The command line: what a person types, checked once at the door, and handed to the crate that does it.

pub mod commands;
mod refusal;

use clap::error::ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand;
use clap::{Parser, Subcommand};
use std::ffi::OsString;
use std::process::ExitCode;

/// Deadline-aware GPU sharing for containers.
#[derive(Parser)]
#[command(name = "leeway", version, max_term_width = 110, arg_required_else_help = true)]
struct Leeway {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Sim(commands::sim::Sim),
}

/// Runs one command line. Exit codes: 0 done, 1 failed, 2 the command line or an input was not understood.
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let leeway = match Leeway::try_parse_from(arguments) {
        Ok(leeway) => leeway,
        Err(refusal) => {
            // Help and version are refusals to clap too; they print to stdout and exit with 0.
            if refusal.use_stderr() && refusal.kind() != DisplayHelpOnMissingArgumentOrSubcommand {
                eprint!("{}", refusal::in_one_line(&refusal));
            } else {
                let _ = refusal.print();
            }
            return ExitCode::from(refusal.exit_code() as u8);
        }
    };
    let outcome = match leeway.command {
        Command::Sim(sim) => sim.run(),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            let misunderstood = error.chain().any(<dyn std::error::Error>::is::<Misunderstood>);
            ExitCode::from(if misunderstood { 2 } else { 1 })
        }
    }
}

/// Input that was not understood: exit code 2, as for a wrong command line.
#[derive(Debug)]
pub struct Misunderstood(pub String);

impl std::fmt::Display for Misunderstood {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Misunderstood {}
