//! `leeway doctor`: what this machine can do, which tier is used, and what to do about the rest.

use super::agent::{Places, connector};
use crate::docker::globals::Globals;
use crate::failure::Failure;
use anyhow::{Context, Result};
use wire::agent::Doctor as Report;

/// Exit code: something is not as it should be, but tasks can be seen.
const IMPAIRED: u8 = 1;
/// Exit code: no task can be seen on this machine.
const BLIND: u8 = 3;

/// Say what this machine can do, and what to do about the rest
///
/// Exit code 0: all is well. 1: something is missing, but tasks can be seen. 3: no task can be seen.
#[derive(clap::Args)]
pub struct Doctor {
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    places: Places,
}

impl Doctor {
    pub(crate) fn run(self, globals: &Globals) -> Result<()> {
        let report = node::doctor::examine(&self.places.config()?, docker(globals));
        let text = if self.json {
            serde_json::to_string(&report).context("could not write the report as JSON")? + "\n"
        } else {
            table(&report)
        };
        super::print_all(text.as_bytes())?;
        let wrong = report.checks.iter().filter(|check| !check.ok).count();
        match (report.tier.as_str(), wrong) {
            (_, 0) => Ok(()),
            ("none", _) => Err(Failure::new("no GPU task can be seen on this machine").exit(BLIND).into()),
            (_, 1) => Err(Failure::new("1 check failed").exit(IMPAIRED).into()),
            (_, wrong) => Err(Failure::new(format!("{wrong} checks failed")).exit(IMPAIRED).into()),
        }
    }
}

fn table(report: &Report) -> String {
    let width = report.checks.iter().map(|check| check.name.len()).max().unwrap_or_default();
    let mut text = String::new();
    for check in &report.checks {
        let verdict = match (check.ok, &check.help) {
            (true, None) => "ok  ",
            // Nothing is wrong, and something could be better.
            (true, Some(_)) => "note",
            (false, _) => "FAIL",
        };
        text += &format!("{verdict}  {:width$}  {}\n", check.name, check.detail);
        if let Some(help) = &check.help {
            text += &format!("      {:width$}  help: {help}\n", "");
        }
    }
    text + &format!("\ntier: {}\n", report.tier)
}

/// Docker's version, or why there is none.
fn docker(globals: &Globals) -> Result<String, String> {
    let connect = connector(globals);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| error.to_string())?;
    runtime.block_on(async {
        let docker = connect()?.negotiate_version().await.map_err(|error| error.to_string())?;
        let version = docker.version().await.map_err(|error| error.to_string())?;
        Ok(format!("version {}", version.version.unwrap_or_default()))
    })
}
