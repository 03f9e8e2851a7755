//! A crowd to watch: containers that each hold a little GPU memory and do nothing else.
//!
//! Docker's where Docker answers and the GPU is a simulated one, else plain cgroups with our labels: for the agent the two differ in
//! where the labels come from.

use crate::failure::Failure;
use crate::stage::{Player, Stage};
use anyhow::{Context, Result};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// An image with nothing in it: the simulated GPU's options bring the program along.
const IMAGE: &str = "leeway-bench";
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
    Plain { players: Vec<Player>, folders: Vec<PathBuf> },
}

impl Crowd {
    /// Gathers that many.
    pub(super) fn gather(stage: &Stage, count: usize, plain: bool) -> Result<Self> {
        let mut crowd = if plain || !stage.is_simulated() || !import() {
            Self::Plain { players: Vec::new(), folders: Vec::new() }
        } else {
            Self::Docker { ids: Vec::new() }
        };
        // What there is of it goes when it is dropped, also half-way.
        match &mut crowd {
            Self::Docker { ids } => start(stage, ids, count)?,
            Self::Plain { players, folders } => {
                let root = root();
                for number in 0..count {
                    let folder = root.join(format!("leeway-bench-{}-{number}", std::process::id()));
                    make(&folder)?;
                    folders.push(folder.clone());
                    players.push(Player::start(&mut inside(stage, &folder)?)?);
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
            Self::Plain { players, folders } => {
                players.iter().for_each(Player::tell_to_end);
                players.clear();
                folders.iter().for_each(|folder| drop(std::fs::remove_dir(folder)));
            }
        }
    }
}

/// Whether Docker answers and has the image now.
fn import() -> bool {
    let mut import = docker(&["import", "-", IMAGE]);
    let Some(mut child) = spawn(import.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()))
    else {
        return false;
    };
    let given = child.stdin.take().is_some_and(|mut stdin| stdin.write_all(&EMPTY_TAR).is_ok());
    child.wait().is_ok_and(|status| given && status.success())
}

fn start(stage: &Stage, ids: &mut Vec<String>, count: usize) -> Result<()> {
    let options = crate::gpu::options::of(stage.driver(), None)?;
    let label = format!("{}={}", LABEL.0, LABEL.1);
    while ids.len() < count {
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

/// Where cgroups are made: version 2, or a hierarchy of version 1.
fn root() -> PathBuf {
    let root = Path::new("/sys/fs/cgroup");
    if root.join("freezer").is_dir() { root.join("freezer") } else { root.to_owned() }
}

fn make(folder: &Path) -> Result<()> {
    std::fs::create_dir(folder).with_context(|| format!("could not make the cgroup {}", folder.display()))?;
    // Version 1 has only the trusted kind on older kernels.
    let label = |kind: &str| {
        let name = format!("{kind}.{}", LABEL.0);
        rustix::fs::setxattr(folder, name, LABEL.1.as_bytes(), rustix::fs::XattrFlags::empty())
    };
    label("user").or_else(|_| label("trusted")).context("could not label a cgroup")
}

/// The program, started inside a cgroup: it is there before it calls the driver.
fn inside(stage: &Stage, cgroup: &Path) -> Result<Command> {
    let work = stage.work(&HOLD)?;
    let mut shell = Command::new("sh");
    shell.args(["-c", "echo $$ >\"$0/cgroup.procs\" && exec \"$@\""]).arg(cgroup);
    shell.arg(work.get_program()).args(work.get_args());
    for (name, value) in work.get_envs() {
        value.map(|value| shell.env(name, value));
    }
    shell.stdout(Stdio::null());
    Ok(shell)
}
