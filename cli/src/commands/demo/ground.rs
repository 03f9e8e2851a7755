//! The ground a story is shown on: what its parts become on this machine.

use super::cast::Part;
use super::docker::Containers;
use super::processes::Processes;
use super::sweeper::Sweeper;
use crate::docker::globals::Globals;
use crate::stage::Stage;
use anyhow::{Context, Result};

/// What the parts become, the best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum On {
    /// Docker containers, from an empty image
    Docker,
    /// Plain processes in cgroups that have the labels; needs root
    Cgroups,
    /// Plain processes, which have no deadlines
    Processes,
}

impl On {
    const BEST_FIRST: [Self; 3] = [Self::Docker, Self::Cgroups, Self::Processes];

    /// Its name on the command line and in JSON.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Docker => "docker",
            Self::Cgroups => "cgroups",
            Self::Processes => "processes",
        }
    }
}

/// How the agent knows a part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Identity {
    /// By its container's id, or its cgroup's path.
    Container(String),
    /// By its pid alone.
    Process(u32),
}

impl Identity {
    /// Whether it is meant by something the agent said.
    pub(super) fn is(&self, container: Option<&String>, pid: Option<u32>) -> bool {
        match self {
            Self::Container(id) => container == Some(id),
            Self::Process(own) => pid == Some(*own),
        }
    }

    /// The container's id, if it is one.
    pub(super) fn container(&self) -> Option<&String> {
        match self {
            Self::Container(id) => Some(id),
            Self::Process(_) => None,
        }
    }
}

/// How a part's program ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    Well,
    /// What it said last.
    Badly(String),
}

/// A way to start the parts.
pub(super) trait Ground {
    /// Starts one.
    fn start(&mut self, part: &'static Part, stage: &Stage, sweeper: &mut Sweeper) -> Result<Identity>;
    /// How it ended, if it has.
    fn ended(&mut self, who: &Identity) -> Result<Option<Ending>>;
}

/// The ground that was chosen.
pub(super) struct Chosen {
    pub(super) ground: Box<dyn Ground>,
    pub(super) on: On,
    /// Why nothing better is used, a sentence each.
    pub(super) because: Vec<String>,
}

/// The ground that was asked for, or the best there is. `run` is a name that nobody else uses.
pub(super) fn choose(
    asked: Option<On>,
    run: &str,
    globals: &Globals,
    stage: &Stage,
    sweeper: &mut Sweeper,
) -> Result<Chosen> {
    if let Some(on) = asked {
        let ground = open(on, run, globals, stage, sweeper)
            .with_context(|| format!("could not show it on {}", on.name()))?;
        return Ok(Chosen { ground, on, because: Vec::new() });
    }
    let mut because = Vec::new();
    for on in On::BEST_FIRST {
        match open(on, run, globals, stage, sweeper) {
            Ok(ground) => return Ok(Chosen { ground, on, because }),
            Err(error) => because.push(format!("no {}: {error:#}", on.name())),
        }
    }
    anyhow::bail!("could not start anything on this machine: {}", because.join("; "))
}

fn open(
    on: On,
    run: &str,
    globals: &Globals,
    stage: &Stage,
    sweeper: &mut Sweeper,
) -> Result<Box<dyn Ground>> {
    Ok(match on {
        On::Docker => Box::new(Containers::open(run, globals, stage, sweeper)?),
        On::Cgroups => Box::new(Processes::in_cgroups(run, sweeper)?),
        On::Processes => Box::new(Processes::plain()),
    })
}
