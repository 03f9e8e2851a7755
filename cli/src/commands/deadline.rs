//! `leeway deadline`: the deadline of a container that already exists.
//!
//! Docker's labels cannot change once a container exists, so what is set here is kept by Leeway, and counts instead of
//! the label until it is cleared or the container is removed. Each command prints the deadline that counts afterwards.

use crate::docker::client::{Client, Selection};
use crate::docker::containers::{self, Container};
use crate::docker::globals::Globals;
use crate::failure::Failure;
use crate::overrides::StateDir;
use anyhow::{Context, Result};
use std::collections::HashSet;
use wire::deadlines::{Deadlines, Override};
use wire::duration;

/// Show or change the deadline of an existing container
#[derive(clap::Args)]
pub struct Deadline {
    #[command(subcommand)]
    action: Action,
}

#[derive(clap::Subcommand)]
enum Action {
    /// Print the deadline that counts, or - if it has none
    Get(Of),
    /// Set a deadline, in place of the container's label
    #[command(allow_negative_numbers = true)]
    Set {
        #[command(flatten)]
        of: Of,
        /// The deadline: 2 or 2s, 250ms, 1m30s; more than 0, at most 24h
        #[arg(value_name = "D", allow_hyphen_values = true)]
        deadline: String,
    },
    /// Take back what was set: the container's label counts again
    Clear(Of),
}

#[derive(clap::Args)]
struct Of {
    #[command(flatten)]
    state: StateDir,
    /// Name, id or start of the id
    container: String,
}

impl Deadline {
    pub(crate) fn run(self, globals: &Globals) -> Result<()> {
        match self.action {
            Action::Get(of) => of.get(globals),
            Action::Set { of, deadline } => of.set(globals, &deadline),
            Action::Clear(of) => of.clear(globals),
        }
    }
}

impl Of {
    fn get(&self, globals: &Globals) -> Result<()> {
        let deadlines = self.state.deadlines()?;
        let containers = every_container(&Client::connect(globals)?)?;
        let container = self.find(&containers).context("could not read a deadline")?;
        super::print_all(format!("{}\n", counts(container, &deadlines)).as_bytes())
    }

    fn set(&self, globals: &Globals, deadline: &str) -> Result<()> {
        let deadline = duration::normalised(deadline).map_err(|wrong| Failure::input(wrong.to_string()))?;
        self.change(globals, |deadlines, container, daemon| {
            let given = Override { deadline, daemon: daemon.to_owned() };
            deadlines.containers.insert(container.id.clone(), given);
        })
    }

    fn clear(&self, globals: &Globals) -> Result<()> {
        self.change(globals, |deadlines, container, _| {
            deadlines.containers.remove(&container.id);
        })
    }

    fn change(&self, globals: &Globals, change: impl FnOnce(&mut Deadlines, &Container, &str)) -> Result<()> {
        let client = Client::connect(globals)?;
        let daemon = client.daemon_id()?;
        let change = |deadlines: &mut Deadlines| {
            // Under the lock: every container with an entry is older than this list, so one that is not in it is gone.
            let containers = every_container(&client)?;
            let container = self.find(&containers)?;
            drop_removed(deadlines, &daemon, &containers);
            change(deadlines, container, &daemon);
            Ok(counts(container, deadlines))
        };
        let doing = || format!("could not change the deadline of {}", self.container);
        let deadline = self.state.change_deadlines(change).with_context(doing)?;
        super::print_all(format!("{deadline}\n").as_bytes())
    }

    fn find<'a>(&self, containers: &'a [Container]) -> Result<&'a Container, Failure> {
        containers::find(containers, &self.container)
    }
}

/// Running or not: a deadline is a property of the container.
fn every_container(client: &Client) -> Result<Vec<Container>> {
    let listed = client.containers(&Selection { all: true, ..Selection::default() })?;
    Ok(listed.into_iter().map(Container::from).collect())
}

/// Drops what was set for containers that this daemon no longer has. Another daemon's are not ours to judge.
fn drop_removed(deadlines: &mut Deadlines, daemon: &str, containers: &[Container]) {
    let present: HashSet<&str> = containers.iter().map(|container| container.id.as_str()).collect();
    deadlines.containers.retain(|id, set| set.daemon != daemon || present.contains(id.as_str()));
}

/// The deadline that counts, as it is printed; what is wrong with the labels goes to standard error.
fn counts(container: &Container, deadlines: &Deadlines) -> String {
    for complaint in container.complaints() {
        eprintln!("warning: {complaint}");
    }
    container.deadline(deadlines).unwrap_or_else(|| "-".to_owned())
}
