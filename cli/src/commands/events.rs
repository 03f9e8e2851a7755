//! `leeway events`: what happens to tasks, as it happens.

use crate::ask::{self, Socket};
use crate::failure::Failure;
use anyhow::Result;
use wire::agent::EventLine;
use wire::client;

/// Show what happens to tasks, as it happens
#[derive(clap::Args)]
pub struct Events {
    /// Print one JSON object a line
    #[arg(long)]
    json: bool,
    /// Begin with what happened since: how long ago (1h, 10m), or a time such as 2026-11-15T09:00:00Z
    #[arg(long, value_name = "WHEN", value_parser = ask::since)]
    since: Option<i64>,
    /// End after what has happened already
    #[arg(long)]
    no_follow: bool,
    #[command(flatten)]
    socket: Socket,
}

impl Events {
    pub(crate) fn run(self) -> Result<()> {
        let mut path = format!("/v1/events?follow={}", !self.no_follow);
        // Without a start, what has happened is all that is kept.
        if let Some(since_us) = self.since.or(self.no_follow.then_some(0)) {
            path += &format!("&since_us={since_us}");
        }
        let mut failed = None;
        let each = |data: &str| {
            let text = if self.json { Ok(format!("{data}\n")) } else { line(data) };
            match text.and_then(|text| super::print_if_read(text.as_bytes())) {
                Ok(goes_on) => goes_on,
                Err(error) => {
                    failed = Some(error);
                    false
                }
            }
        };
        client::follow(&self.socket.path, &path, each).map_err(|error| ask::failure(&error))?;
        failed.map_or(Ok(()), Err)
    }
}

fn line(data: &str) -> Result<String> {
    let event: EventLine = serde_json::from_str(data)
        .map_err(|error| Failure::new(format!("the agent sent an event that is none: {error}")))?;
    let who = event.name.or_else(|| event.pid.map(|pid| format!("pid {pid}"))).unwrap_or_default();
    Ok(format!("{}  {:<9} {who}: {}\n", event.time, event.event, event.reason))
}
