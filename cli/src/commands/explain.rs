//! `leeway explain`: why a container is, or is not, running now.

use crate::ask::{self, Socket};
use crate::failure::Failure;
use anyhow::{Context, Result};
use wire::agent::ExplainLine;
use wire::client::{self, NoAnswer};

/// Say what a container is doing, since when, who is ahead of it and why
#[derive(clap::Args)]
pub struct Explain {
    /// Name, id or start of the id
    container: String,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    socket: Socket,
}

impl Explain {
    pub(crate) fn run(self) -> Result<()> {
        let path = format!("/v1/containers/{}/explain", client::escaped(&self.container));
        let line: ExplainLine = client::get(&self.socket.path, &path).map_err(|error| match error {
            NoAnswer::Refused(404, why) => Failure::new(why).help("`leeway ps -a` lists all containers"),
            error => ask::failure(&error),
        })?;
        let text = if self.json {
            serde_json::to_string(&line).context("could not write the explanation as JSON")?
        } else {
            line.sentences.join("\n")
        };
        super::print_all(format!("{text}\n").as_bytes())
    }
}
