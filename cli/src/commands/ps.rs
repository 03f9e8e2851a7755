//! `leeway ps`: Docker's list of containers, with their deadlines.
//!
//! Everything printed is a template over the fields of a container, as in Docker: the table, too. A column that an agent
//! knows about is one more field, and one more entry in `table` below.

mod fields;
mod ports;
mod template;
mod words;

use crate::ask::Socket;
use crate::docker::client::{Client, Selection};
use crate::docker::containers::Container;
use crate::docker::globals::Globals;
use crate::failure::Failure;
use crate::overrides::StateDir;
use anyhow::{Context, Result};
use fields::Row;
use std::collections::HashMap;
use template::Template;
use wire::agent::{ContainerLine, Live};
use wire::client;
use wire::deadlines::Deadlines;
use wire::duration;
use wire::ps::PsContainer;

/// List containers and their deadlines
#[derive(clap::Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is a switch of the command line")]
pub struct Ps {
    /// Show all containers, not just those that run
    #[arg(short, long)]
    all: bool,
    /// Only show containers that match, as with `docker ps`: label=leeway.deadline, status=exited, …
    #[arg(short, long, value_name = "KEY=VALUE")]
    filter: Vec<String>,
    /// Show the last N containers, running or not
    #[arg(short = 'n', long, value_name = "N")]
    last: Option<i32>,
    /// Show the latest container, running or not
    #[arg(short, long)]
    latest: bool,
    /// Do not shorten ids and commands
    #[arg(long)]
    no_trunc: bool,
    /// Only show ids
    #[arg(short, long)]
    quiet: bool,
    /// Print one JSON object a line, with stable keys
    #[arg(long, conflicts_with_all = ["format", "quiet"])]
    json: bool,
    /// Print by a template with Docker's names: table, json, or such as '{{.Names}} {{.Deadline}}'
    #[arg(long, value_name = "TEMPLATE")]
    format: Option<String>,
    #[command(flatten)]
    state: StateDir,
    #[command(flatten)]
    socket: Socket,
}

/// What the agent knows, by full container id; nothing where no agent answers.
type Lives = Option<HashMap<String, Live>>;

impl Ps {
    pub(crate) fn run(self, globals: &Globals) -> Result<()> {
        let lives = self.lives();
        let template = Template::parse(&self.format(lives.is_some()))?;
        let selection = self.selection()?;
        let deadlines = self.state.deadlines()?;
        let listed = Client::connect(globals)?.containers(&selection)?;
        let containers: Vec<Container> = listed.into_iter().map(Container::from).collect();
        for complaint in containers.iter().flat_map(Container::complaints).filter(|_| !self.quiet) {
            eprintln!("warning: {complaint}");
        }
        let text = if self.json {
            json(&containers, &deadlines, &lives)?
        } else {
            let now = jiff::Timestamp::now();
            let live = |container: &Container| lives.as_ref()?.get(&container.id);
            let row = |container| Row {
                container,
                deadlines: &deadlines,
                live: live(container),
                full: self.no_trunc,
                now,
            };
            template.render(&containers.iter().map(row).collect::<Vec<_>>())
        };
        super::print_all(text.as_bytes())
    }

    /// Asks the agent. That there is none, or that it may not be asked, takes nothing from Docker's list.
    fn lives(&self) -> Lives {
        let lines: Vec<ContainerLine> = client::get(&self.socket.path, "/v1/containers").ok()?;
        Some(lines.into_iter().map(|line| (line.id, line.live)).collect())
    }

    /// What to print, as a template.
    fn format(&self, agent: bool) -> String {
        match self.format.as_deref() {
            None | Some("" | "table") if self.quiet => "{{.ID}}".to_owned(),
            None | Some("" | "table") => table(agent),
            Some("json") => "{{json .}}".to_owned(),
            Some(template) => template.to_owned(),
        }
    }

    fn selection(&self) -> Result<Selection, Failure> {
        let mut filters: HashMap<String, Vec<String>> = HashMap::new();
        for filter in &self.filter {
            let Some((key, value)) = filter.split_once('=') else {
                let wrong =
                    format!("'{filter}' is not a filter: accepted are KEY=VALUE, such as status=exited");
                return Err(Failure::input(wrong));
            };
            filters.entry(key.trim().to_lowercase()).or_default().push(value.trim().to_owned());
        }
        Ok(Selection { all: self.all, last: if self.latest { Some(1) } else { self.last }, filters })
    }
}

/// Docker's table, and what Leeway knows.
fn table(agent: bool) -> String {
    let docker = ["ID", "Image", "Command", "RunningFor", "Status", "Ports", "Names"];
    let leeway: &[&str] = if agent { &["Deadline", "Task", "Float", "Hits"] } else { &["Deadline"] };
    let columns: Vec<String> = docker.iter().chain(leeway).map(|field| format!("{{{{.{field}}}}}")).collect();
    format!("table {}", columns.join("\t"))
}

fn json(containers: &[Container], deadlines: &Deadlines, lives: &Lives) -> Result<String> {
    let mut lines = String::new();
    for container in containers {
        let deadline = container.deadline(deadlines).and_then(|given| duration::parse(&given).ok());
        let line = PsContainer {
            id: container.id.clone(),
            name: container.name().to_owned(),
            image: container.summary.image.clone().unwrap_or_default(),
            command: container.summary.command.clone().unwrap_or_default(),
            status: container.summary.status.clone().unwrap_or_default(),
            deadline_us: deadline.map(|deadline| deadline.as_micros() as i64),
            mode: container.mode(),
            live: lives.as_ref().and_then(|lives| lives.get(&container.id)).cloned(),
        };
        lines += &serde_json::to_string(&line).context("could not write a container as JSON")?;
        lines.push('\n');
    }
    Ok(lines)
}
