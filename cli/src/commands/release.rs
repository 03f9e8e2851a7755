//! `leeway release`: everything that is held runs, with an agent or without.

use super::agent::connector;
use crate::ask::Socket;
use crate::docker::globals::Globals;
use crate::failure::Failure;
use anyhow::{Context, Result};
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;
use wire::agent::{ReleaseWanted, ReleasedLine};
use wire::client::{self, NoAnswer};

/// How often to look whether there is room for what is swapped out.
const LOOK_EVERY: Duration = Duration::from_millis(500);

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
    /// The folder of the driver's libraries, for what is swapped out; otherwise the loader finds them
    #[arg(long, value_name = "DIR", env = "LEEWAY_DRIVER")]
    driver: Option<PathBuf>,
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
            line.released.iter().flat_map(|name| [name, "\n"]).collect()
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
        let mut released: BTreeSet<String> = done.released;
        released.extend(self.bring_back()?);
        Ok(ReleasedLine { released: released.into_iter().collect() })
    }

    /// What is swapped out comes back one by one, as memory allows; that may take as long as others keep it.
    fn bring_back(&self) -> Result<Vec<String>, Failure> {
        let only = self.container.as_deref();
        let helper = super::swapper::spawner(self.driver.as_deref(), &self.run_dir);
        let mut returning = node::swap::returning::Returning::new(&self.run_dir, helper);
        let mut back = Vec::new();
        let mut said = false;
        loop {
            let round = returning.round(only).map_err(|error| {
                Failure::new(format!("could not bring back what is swapped out: {error}")).help("try sudo")
            })?;
            back.extend(round.back);
            if let Some((name, why)) = round.lost.first() {
                return Err(Failure::new(format!("container {name} lost its GPU memory: {why}")));
            }
            let Some((name, why)) = round.waiting.first() else { return Ok(back) };
            if !std::mem::replace(&mut said, true) {
                eprintln!("notice: {name} is swapped out, and waits to come back: {why}");
            }
            std::thread::sleep(LOOK_EVERY);
        }
    }
}
