//! A crowd to watch: containers that each hold a little GPU memory and do nothing else.
//!
//! Docker's where Docker answers and the GPU is a simulated one, else plain cgroups with our labels: for the agent the two differ in
//! where the labels come from.

use super::Interruption;
use super::cgroup::Cgroup;
use crate::failure::Failure;
use crate::stage::{Player, Stage};
use anyhow::{Context, Result};
use std::io::Write;
use std::process::{Child, Command, Stdio};

/// An image with nothing in it: the simulated GPU's options bring the program along.
pub(super) const IMAGE: &str = "leeway-bench";
/// A tar file without files: two empty blocks, filled up to what tar writes at once.
const EMPTY_TAR: [u8; 10_240] = [0; 10_240];
/// How many containers Docker makes or removes at a time.
const AT_ONCE: usize = 4;
/// What each of them does. It would end by itself, if we were killed.
const HOLD: [&str; 5] = ["hold", "--memory", "1MiB", "--for", "1h"];
/// The label of each; nothing is held by an agent that only watches.
const LABEL: (&str, &str) = ("leeway.deadline", "24h");

/// What the crowd is made of.
pub(super) enum Crowd {
    Docker { ids: Vec<String> },
    Plain { players: Vec<Player>, cgroups: Vec<Cgroup> },
}

impl Crowd {
    /// Gathers that many.
    pub(super) fn gather(
        stage: &Stage,
        count: usize,
        plain: bool,
        interruption: &Interruption,
    ) -> Result<Self> {
        let mut crowd = if plain || !stage.is_simulated() || !import() {
            Self::Plain { players: Vec::new(), cgroups: Vec::new() }
        } else {
            Self::Docker { ids: Vec::new() }
        };
        // What there is of it goes when it is dropped, also half-way.
        match &mut crowd {
            Self::Docker { ids } => start(stage, ids, count, interruption)?,
            Self::Plain { players, cgroups } => {
                for number in 0..count {
                    interruption.check()?;
                    let cgroup = Cgroup::new(&number.to_string(), &[LABEL])?;
                    players.push(Player::start(&mut cgroup.inside(&stage.work(&HOLD)?))?);
                    cgroups.push(cgroup);
                }
            }
        }
        Ok(crowd)
    }

    pub(super) fn kind(&self) -> &'static str {
        match self {
            Self::Docker { .. } => "docker",
            Self::Plain { .. } => "cgroups",
        }
    }

    /// One of its Docker containers.
    pub(super) fn first_id(&self) -> Option<&str> {
        match self {
            Self::Docker { ids } => ids.first().map(String::as_str),
            Self::Plain { .. } => None,
        }
    }
}

impl Drop for Crowd {
    fn drop(&mut self) {
        match self {
            Self::Docker { ids } => {
                for some in ids.chunks(AT_ONCE) {
                    let gone: Vec<_> = some
                        .iter()
                        .filter_map(|id| spawn(docker(&["rm", "-f", id]).stdout(Stdio::null())))
                        .collect();
                    gone.into_iter().for_each(|mut child| drop(child.wait()));
                }
                let _ = docker(&["rmi", IMAGE]).stdout(Stdio::null()).stderr(Stdio::null()).status();
            }
            Self::Plain { players, cgroups } => {
                players.iter_mut().for_each(Player::tell_to_end);
                players.clear();
                cgroups.clear();
            }
        }
    }
}

/// Whether Docker answers and has the image now.
pub(super) fn import() -> bool {
    let mut import = docker(&["import", "-", IMAGE]);
    let Some(mut child) = spawn(import.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()))
    else {
        return false;
    };
    let given = child.stdin.take().is_some_and(|mut stdin| stdin.write_all(&EMPTY_TAR).is_ok());
    child.wait().is_ok_and(|status| given && status.success())
}

fn start(stage: &Stage, ids: &mut Vec<String>, count: usize, interruption: &Interruption) -> Result<()> {
    let options = crate::gpu::options::of(stage.driver(), None)?;
    let label = format!("{}={}", LABEL.0, LABEL.1);
    while ids.len() < count {
        interruption.check()?;
        let some = AT_ONCE.min(count - ids.len());
        let mut starting = Vec::new();
        for _ in 0..some {
            let mut run = docker(&["run", "-d", "--rm", "--network", "none", "--label", &label]);
            run.args(&options).args([IMAGE, "leeway", "work"]).args(HOLD).stdout(Stdio::piped());
            starting.push(run.stderr(Stdio::piped()).spawn().context("could not start `docker run`")?);
        }
        let done: Vec<_> = starting.into_iter().map(Child::wait_with_output).collect();
        for output in done {
            let output = output.context("could not wait for `docker run`")?;
            if !output.status.success() {
                let why = String::from_utf8_lossy(&output.stderr).trim().to_owned();
                return Err(Failure::new(format!("Docker could not start a container: {why}")).into());
            }
            ids.push(String::from_utf8_lossy(&output.stdout).trim().to_owned());
        }
    }
    Ok(())
}

pub(super) fn docker(words: &[&str]) -> Command {
    let mut docker = Command::new("docker");
    docker.args(words).stdin(Stdio::null());
    docker
}

fn spawn(mut command: impl std::borrow::BorrowMut<Command>) -> Option<Child> {
    command.borrow_mut().spawn().ok()
}
