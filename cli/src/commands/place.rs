//! `leeway place`: where a container would go, and for every node why or why not.

use super::master::MasterSocket;
use super::tasks::aligned;
use crate::ask;
use crate::failure::Failure;
use anyhow::{Context, Result};
use sched::placement::Strategy;
use wire::cluster::{PlaceLine, PlaceWanted};
use wire::{bytes, client, duration};

/// Say where a container would go, and why; nothing is created or reserved
#[derive(clap::Args)]
pub struct Place {
    /// How long a GPU task of the container may take
    #[arg(long, value_name = "D", value_parser = micros)]
    deadline: Option<i64>,
    /// How long one takes, where that is known
    #[arg(long, value_name = "D", value_parser = micros)]
    expect: Option<i64>,
    /// How much GPU memory it needs
    #[arg(long, value_name = "M", value_parser = size)]
    gpu_memory: Option<u64>,
    /// How a node is chosen: spread, memory, best-fit; the master's own if not given
    #[arg(long, value_name = "STRATEGY", value_parser = Strategy::ALL.map(Strategy::name))]
    strategy: Option<String>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    socket: MasterSocket,
}

fn micros(text: &str) -> Result<i64, String> {
    duration::parse(text).map(|parsed| parsed.as_micros() as i64).map_err(|wrong| wrong.to_string())
}

fn size(text: &str) -> Result<u64, String> {
    bytes::parse(text).map_err(|wrong| wrong.to_string())
}

impl Place {
    pub(crate) fn run(self) -> Result<()> {
        let wanted = PlaceWanted {
            deadline_us: self.deadline,
            expect_us: self.expect,
            gpu_memory_bytes: self.gpu_memory.unwrap_or(0),
            strategy: self.strategy,
            ..PlaceWanted::default()
        };
        let line: PlaceLine = client::send(&self.socket.path, "POST", "/v1/place", &wanted)
            .map_err(|error| ask::master_failure(&error))?;
        let text = if self.json {
            serde_json::to_string(&line).context("could not write the placement as JSON")? + "\n"
        } else {
            table(&line)
        };
        super::print_all(text.as_bytes())?;
        if line.node.is_none() {
            return Err(Failure::new(line.reason).into());
        }
        Ok(())
    }
}

fn table(line: &PlaceLine) -> String {
    let mut rows = vec![["", "NODE", "GPU", "REASON"].map(str::to_owned).to_vec()];
    rows.extend(line.nodes.iter().map(|node| {
        let mark = if node.chosen { "*" } else { "" };
        vec![mark.to_owned(), node.node.clone(), node.gpu.to_string(), node.reason.clone()]
    }));
    aligned(&rows)
}
