//! `leeway release`: everything that is held runs, with an agent or without.

use super::agent::connector;
use crate::ask::Socket;
use crate::docker::globals::Globals;
use crate::failure::Failure;
use anyhow::{Context, Result};
use std::path::PathBuf;
use wire::agent::{ReleaseWanted, ReleasedLine};
use wire::client::{self, NoAnswer};

/// Let go everything that is held, or one container; works without the agent, too
#[derive(clap::Args)]
pub struct Release {
    /// Only this one: its name, its id or the start of its id
    container: Option<String>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    /// Where an agent writes what is held
    #[arg(long, value_name = "DIR", env = "LEEWAY_RUN_DIR", default_value = "/run/leeway")]
    run_dir: PathBuf,
    #[command(flatten)]
    socket: Socket,
}

impl Release {
    /// Asks the agent; where none answers, the file it wrote says what to let go.
    pub(crate) fn run(self, globals: &Globals) -> Result<()> {
        let wanted = ReleaseWanted { container: self.container.clone() };
        let told: Result<ReleasedLine, NoAnswer> =
            client::send(&self.socket.path, "POST", "/v1/release", &wanted);
        let line = match told {
            Ok(line) => line,
            Err(NoAnswer::Refused(400, why)) => return Err(Failure::input(why).into()),
            Err(_) => self.by_hand(globals)?,
        };
        let text = if self.json {
            serde_json::to_string(&line).context("could not write as JSON who was let go")? + "\n"
        } else {
            line.released.iter().map(|name| format!("{name}\n")).collect::<Vec<String>>().concat()
        };
        super::print_all(text.as_bytes())
    }

    fn by_hand(&self, globals: &Globals) -> Result<ReleasedLine, Failure> {
        let only = self.container.as_deref();
        let done = node::guard::release::everything(&self.run_dir, &connector(globals), only);
        if let Some((name, why)) = done.failed.first() {
            return Err(Failure::new(format!("could not let go container {name}: {why}"))
                .help("thawing needs root; try sudo"));
        }
        Ok(ReleasedLine { released: done.released.into_iter().collect() })
    }
}
