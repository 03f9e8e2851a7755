//! `leeway nodes`: the node list, the best first.

use super::master::MasterSocket;
use super::tasks::{aligned, in_words};
use crate::ask;
use anyhow::{Context, Result};
use sched::placement::{Bytes, Strategy};
use std::time::Duration;
use wire::client;
use wire::cluster::NodeRank;

/// How often `--watch` looks.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Clears a terminal, and goes to its first line.
const CLEAR: &str = "\x1b[2J\x1b[H";

/// List the GPUs of all nodes, the best for a new container first
#[derive(clap::Args)]
pub struct Nodes {
    /// Print one JSON object a line
    #[arg(long)]
    json: bool,
    /// Go on, and print it again each second
    #[arg(long)]
    watch: bool,
    /// Best by which strategy: spread, memory, best-fit; the master's own if not given
    #[arg(long, value_name = "STRATEGY", value_parser = Strategy::ALL.map(Strategy::name))]
    strategy: Option<String>,
    #[command(flatten)]
    socket: MasterSocket,
}

impl Nodes {
    pub(crate) fn run(self) -> Result<()> {
        loop {
            let text = self.once()?;
            if !self.watch {
                return super::print_all(text.as_bytes());
            }
            let clear = std::io::IsTerminal::is_terminal(&std::io::stdout()) && !self.json;
            let text = if clear { format!("{CLEAR}{text}") } else { text };
            if !super::print_if_read(text.as_bytes())? {
                return Ok(());
            }
            std::thread::sleep(LOOK_EVERY);
        }
    }

    fn once(&self) -> Result<String> {
        let query = self.strategy.as_ref().map_or_else(String::new, |name| format!("?strategy={name}"));
        let nodes: Vec<NodeRank> = client::get(&self.socket.path, &format!("/v1/nodes{query}"))
            .map_err(|error| ask::master_failure(&error))?;
        if !self.json {
            return Ok(table(&nodes));
        }
        let mut text = String::new();
        for node in &nodes {
            text += &serde_json::to_string(node).context("could not write a node as JSON")?;
            text.push('\n');
        }
        Ok(text)
    }
}

fn table(nodes: &[NodeRank]) -> String {
    let heading = ["NODE", "GPU", "STATE", "FREE", "MEMORY", "FLOAT", "REPORTED"];
    let mut rows = vec![heading.map(str::to_owned).to_vec()];
    rows.extend(nodes.iter().map(|node| {
        vec![
            node.node.clone(),
            node.gpu.to_string(),
            node.state.clone(),
            Bytes(node.gpu_memory_free_bytes).to_string(),
            Bytes(node.gpu_memory_total_bytes).to_string(),
            node.float_us.map_or_else(|| "unlimited".to_owned(), in_words),
            format!("{} ago", in_words(node.age_us)),
        ]
    }));
    aligned(&rows)
}
