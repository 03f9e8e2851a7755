//! Putting away what a demonstration made, however it ended.
//!
//! Problem: processes can be told to end with the demonstration, but containers, images, cgroups and folders outlive it,
//! and one that is killed puts nothing away. Approach: a process of its own, the sweeper, hears of each thing before it
//! is made, through a pipe. The pipe's end is the demonstration's end; the sweeper then removes everything, the last
//! first. So there is one way to put things away, and it is the same after the last line and after `kill -9`.

use crate::docker::client::Client;
use crate::docker::globals::Globals;
use crate::stage;
use anyhow::{Context, Result};
use rustix::process::{Pid, Signal, kill_process};
use serde::{Deserialize, Serialize};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Stdio};
use std::time::{Duration, Instant};

/// The command that is the sweeper.
pub(crate) const COMMAND: &str = "demo-sweeper";

/// How long one thing may resist: a process needs a moment to die.
const RESIST_MAX: Duration = Duration::from_secs(10);
/// How long between two tries.
const TRY_EVERY: Duration = Duration::from_millis(50);
/// After a demonstration that was killed, what was on its way when it died may still come into being.
const AFTERMATH: Duration = Duration::from_secs(2);

/// What is to be put away.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) enum Thing {
    Folder(PathBuf),
    /// A cgroup's folder; what runs in it ends.
    Cgroup(PathBuf),
    Container(String),
    Image(String),
    /// Nothing: the demonstration ends in good order, and nothing more will come.
    Farewell,
}

/// The demonstration's side.
pub(super) struct Sweeper {
    process: Child,
    pipe: ChildStdin,
}

impl Sweeper {
    /// Starts it, in a process group of its own: Ctrl-C is not for the sweeper.
    pub(super) fn start(globals: &Globals) -> Result<Self> {
        let doing = "could not start what puts everything away in the end";
        let mut command = stage::leeway()?;
        command.args(globals.words()).arg(COMMAND).process_group(0);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut process = command.spawn().context(doing)?;
        let pipe = process.stdin.take().context(doing)?;
        Ok(Self { process, pipe })
    }

    /// Tells it of something that is about to be made.
    pub(super) fn remember(&mut self, thing: &Thing) -> Result<()> {
        let line = serde_json::to_string(thing).context("could not write down what to put away")?;
        let told = writeln!(self.pipe, "{line}").and_then(|()| self.pipe.flush());
        told.context("could not say what to put away in the end")
    }

    /// Has everything put away, and says what could not be.
    pub(super) fn finish(mut self) -> Result<Vec<String>> {
        self.remember(&Thing::Farewell)?;
        let Self { mut process, pipe } = self;
        drop(pipe);
        let mut complaints = String::new();
        if let Some(mut stdout) = process.stdout.take() {
            stdout.read_to_string(&mut complaints).context("could not hear what was put away")?;
        }
        process.wait().context("could not wait until everything was put away")?;
        Ok(complaints.lines().map(str::to_owned).collect())
    }
}

/// The sweeper: hears what is made, waits for the demonstration's end, and removes it all.
pub(crate) fn run(globals: &Globals) -> Result<()> {
    let mut things = Vec::new();
    for line in BufReader::new(std::io::stdin()).lines() {
        let line = line.context("could not read what to put away")?;
        things.push(serde_json::from_str(&line).context("could not understand what to put away")?);
    }
    let mut complaints = sweep(&things, globals);
    if !matches!(things.last(), Some(Thing::Farewell)) {
        std::thread::sleep(AFTERMATH);
        complaints = sweep(&things, globals);
    }
    crate::commands::print_all(complaints.join("\n").as_bytes())
}

/// Removes everything, the last first; what resists.
fn sweep(things: &[Thing], globals: &Globals) -> Vec<String> {
    let mut docker = None;
    let mut complaints = Vec::new();
    for thing in things.iter().rev() {
        let done = match thing {
            Thing::Container(name) => with(&mut docker, globals, |docker| docker.remove(name)),
            Thing::Image(name) => with(&mut docker, globals, |docker| docker.remove_image(name)),
            Thing::Folder(path) => insist(|| or_missing(std::fs::remove_dir_all(path)))
                .with_context(|| format!("could not remove the folder {}", path.display())),
            Thing::Cgroup(path) => insist(|| empty(path))
                .with_context(|| format!("could not remove the cgroup {}", path.display())),
            Thing::Farewell => Ok(()),
        };
        complaints.extend(done.err().map(|error| format!("{error:#}")));
    }
    complaints
}

fn with(
    docker: &mut Option<Client>,
    globals: &Globals,
    act: impl FnOnce(&Client) -> Result<()>,
) -> Result<()> {
    let client = match docker.take() {
        Some(client) => client,
        None => Client::connect(globals)?,
    };
    act(docker.insert(client))
}

/// Ends what runs in a cgroup, and removes its folder. What is frozen on version 1 cannot die before it is thawed.
fn empty(cgroup: &Path) -> std::io::Result<()> {
    for (file, thawed) in [("freezer.state", "THAWED"), ("cgroup.freeze", "0")] {
        if cgroup.join(file).exists() {
            let _ = std::fs::write(cgroup.join(file), thawed);
        }
    }
    let pids = std::fs::read_to_string(cgroup.join("cgroup.procs")).unwrap_or_default();
    for pid in pids.lines().filter_map(|pid| pid.parse().ok()).filter_map(Pid::from_raw) {
        let _ = kill_process(pid, Signal::KILL);
    }
    or_missing(std::fs::remove_dir(cgroup))
}

fn or_missing(done: std::io::Result<()>) -> std::io::Result<()> {
    match done {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        done => done,
    }
}

/// Tries again until it is done, or has resisted for too long.
fn insist(act: impl Fn() -> std::io::Result<()>) -> std::io::Result<()> {
    let start = Instant::now();
    loop {
        match act() {
            Err(_) if start.elapsed() < RESIST_MAX => std::thread::sleep(TRY_EVERY),
            done => return done,
        }
    }
}
