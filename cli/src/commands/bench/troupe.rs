//! Programs that run on a stage at given moments, each in a cgroup or a container of its own, and what they wrote down.

use super::Interruption;
use super::cgroup::Cgroup;
use super::crowd::{IMAGE, docker, import};
use super::program::{self, Printed};
use crate::failure::Failure;
use crate::gpu;
use crate::stage::Stage;
use anyhow::{Context, Result};
use rustix::io::Errno;
use rustix::process::{Pid, test_kill_process};
use serde_json::Value;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, SystemTime};
use wire::agent::{PolicyLine, PolicyWanted, TaskLine};
use wire::client;

/// How often to look who has ended.
const LOOK_EVERY: Duration = Duration::from_millis(5);
/// What it takes until all programs are loaded and wait for their moment: in all, and for each.
const CGROUP_READY: (Duration, Duration) = (Duration::from_millis(400), Duration::from_millis(25));
const DOCKER_READY: (Duration, Duration) = (Duration::from_secs(2), Duration::from_millis(700));
/// A program that began so much later than it should makes a run another one: of fewer tasks, or with more time until a deadline, which counts
/// from its own start.
const LATE_S: f64 = 0.1;
/// Where NVIDIA's Multi-Process Service is, unless the environment says otherwise.
const MPS_FOLDER: &str = "/tmp/nvidia-mps";
const MPS_VARIABLE: &str = "CUDA_MPS_PIPE_DIRECTORY";
/// A folder with no such service in it.
const MPS_NOWHERE: &str = "/nonexistent";

/// What a program runs in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Ground {
    /// Processes in cgroups with labels
    Cgroups,
    /// Docker containers
    Docker,
}

/// One program.
pub(super) struct Part {
    /// Tells it from the others that run with it.
    pub(super) name: String,
    pub(super) labels: Vec<(&'static str, String)>,
    /// What follows `leeway work`.
    pub(super) words: Vec<String>,
    /// How long after the others' common moment it begins.
    pub(super) after: Duration,
}

/// When a program's phases were over, by its own clock, in seconds since 1970.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Times {
    pub(super) init: f64,
    pub(super) allocated: f64,
    pub(super) input: f64,
    pub(super) kernel: f64,
    pub(super) output: f64,
    pub(super) end: f64,
    /// What a server's requests took, all together, each from the moment it was due to arrive.
    pub(super) requests: f64,
}

impl Times {
    fn of(report: &Value) -> Result<Self, Failure> {
        let untold =
            |phase: &str| Failure::new(format!("a CUDA program did not say when it was done with {phase}"));
        let time = |phase: &str| report[phase].as_f64().ok_or_else(|| untold(phase));
        let requests = report["requests"].as_array().into_iter().flatten();
        let took = |request: &Value| Some(request["end"].as_f64()? - request["arrived"].as_f64()?);
        Ok(Self {
            init: time("init")?,
            allocated: time("allocated")?,
            input: time("input")?,
            kernel: time("kernel")?,
            output: time("output")?,
            end: time("end")?,
            requests: requests.filter_map(took).sum(),
        })
    }
}

/// Who runs programs, and how.
pub(super) struct Troupe<'a> {
    pub(super) ground: Ground,
    pub(super) interruption: &'a Interruption,
    /// Makes the names of different runs different, so that nobody has a history.
    runs: u32,
}

impl<'a> Troupe<'a> {
    pub(super) fn new(ground: Ground, interruption: &'a Interruption) -> Result<Self> {
        if ground == Ground::Docker && !import() {
            let help = "leave `--ground docker` out: processes in cgroups";
            return Err(Failure::new("Docker does not answer").help(help).into());
        }
        Ok(Self { ground, interruption, runs: 0 })
    }

    /// Runs them all, from one moment on; what each wrote down, in order.
    pub(super) fn play(&mut self, stage: &mut Stage, parts: &[Part], mps: bool) -> Result<Vec<Times>> {
        self.runs += 1;
        let (ready, each) = if self.ground == Ground::Docker { DOCKER_READY } else { CGROUP_READY };
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let moment = now + ready + each * parts.len() as u32;
        let mut players = Vec::new();
        let played =
            self.start(stage, parts, moment, mps, &mut players).and_then(|()| self.outcome(&mut players));
        if played.is_err() {
            // Who is held cannot end: first everybody is let go.
            stage.leave_agent();
        }
        drop(players);
        played
    }

    fn start(
        &self,
        stage: &Stage,
        parts: &[Part],
        moment: Duration,
        mps: bool,
        players: &mut Vec<Player>,
    ) -> Result<()> {
        for part in parts {
            self.interruption.check()?;
            let at = format!("{:.6}", (moment + part.after).as_secs_f64());
            let words: Vec<&str> =
                part.words.iter().map(String::as_str).chain(["--json", "--at", &at]).collect();
            let name = format!("{}-{}", self.runs, part.name);
            let labels: Vec<(&str, &str)> =
                part.labels.iter().map(|(label, value)| (*label, value.as_str())).collect();
            players.push(match self.ground {
                Ground::Cgroups => Player::in_cgroup(stage, &name, &labels, &words, mps)?,
                Ground::Docker => Player::in_docker(stage, &name, &labels, &words)?,
            });
        }
        Ok(())
    }

    /// Waits for all of them, and for Ctrl-C.
    fn outcome(&self, players: &mut [Player]) -> Result<Vec<Times>> {
        while !players.iter_mut().all(Player::has_ended) {
            self.interruption.check()?;
            std::thread::sleep(LOOK_EVERY);
        }
        // What interrupts us may interrupt them first, and then they print nothing.
        self.interruption.check()?;
        players.iter_mut().map(|player| Ok(Times::of(&player.report()?)?)).collect()
    }
}

impl Drop for Troupe<'_> {
    fn drop(&mut self) {
        if self.ground == Ground::Docker {
            let _ = docker(&["rmi", IMAGE]).stdout(Stdio::null()).stderr(Stdio::null()).status();
        }
    }
}

/// A program, and what it runs in. Fields are dropped in order: nobody is in a cgroup that goes.
struct Player {
    child: Child,
    printed: Printed,
    container: Option<String>,
    _cgroup: Option<Cgroup>,
}

impl Player {
    fn in_cgroup(
        stage: &Stage,
        name: &str,
        labels: &[(&str, &str)],
        words: &[&str],
        mps: bool,
    ) -> Result<Self> {
        let cgroup = Cgroup::new(name, labels)?;
        let mut command = cgroup.inside(&stage.work(words)?);
        // Where the service runs, every program uses it, unless it looks for it elsewhere.
        if mps {
            command.env(MPS_VARIABLE, mps_folder());
        } else {
            command.env(MPS_VARIABLE, MPS_NOWHERE);
        }
        let (child, printed) = spawned(&mut command)?;
        Ok(Self { child, printed, container: None, _cgroup: Some(cgroup) })
    }

    fn in_docker(stage: &Stage, name: &str, labels: &[(&str, &str)], words: &[&str]) -> Result<Self> {
        let name = format!("leeway-bench-{}-{name}", std::process::id());
        let mut run = docker(&["run", "--rm", "--network", "none", "--name", &name]);
        for (label, value) in labels {
            run.args(["--label", &format!("{label}={value}")]);
        }
        if stage.is_simulated() {
            run.args(gpu::options::of(stage.driver(), None)?).args([IMAGE, "leeway"]);
        } else {
            run.args(gpu::host::options(stage.driver())?).arg(IMAGE).arg(gpu::host::program()?);
        }
        run.arg("work").args(words);
        let (child, printed) = spawned(&mut run)?;
        Ok(Self { child, printed, container: Some(name), _cgroup: None })
    }

    fn has_ended(&mut self) -> bool {
        !matches!(self.child.try_wait(), Ok(None))
    }

    /// What it reported, once it has ended.
    fn report(&mut self) -> Result<Value> {
        let status = self.child.wait().context("could not wait for a CUDA program")?;
        Ok(program::report(status, &self.printed.all()?)?)
    }
}

impl Drop for Player {
    fn drop(&mut self) {
        if !self.has_ended() {
            if let Some(name) = &self.container {
                let _ = docker(&["rm", "-f", name]).stdout(Stdio::null()).stderr(Stdio::null()).status();
            }
            let _ = self.child.kill();
        }
        let _ = self.child.wait();
    }
}

fn spawned(command: &mut Command) -> Result<(Child, Printed)> {
    let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn();
    let mut child = child.context("could not start a CUDA program")?;
    let printed = Printed::by(&mut child);
    Ok((child, printed))
}

fn mps_folder() -> PathBuf {
    std::env::var_os(MPS_VARIABLE).map_or_else(|| PathBuf::from(MPS_FOLDER), PathBuf::from)
}

/// Whether a control daemon of the Multi-Process Service runs here. One that was killed leaves its files behind, so its pid is looked for.
pub(super) fn mps_runs() -> bool {
    let folder = mps_folder();
    let pid = std::fs::read_to_string(folder.join("nvidia-cuda-mps-control.pid")).unwrap_or_default();
    let pid = pid.trim().parse().ok().and_then(Pid::from_raw);
    folder.join("control").exists() && pid.is_some_and(|pid| test_kill_process(pid) != Err(Errno::SRCH))
}

/// How many programs of a run began later than the first of them did, each beside its own moment. All together may: their common one is ours.
pub(super) fn began_late(began: impl Iterator<Item = f64> + Clone) -> usize {
    let first = began.clone().fold(f64::MAX, f64::min);
    began.filter(|began| began - first > LATE_S).count()
}

/// Says that so many did, if any.
pub(super) fn tell_late(late: usize, of: &str) {
    if late > 0 {
        eprintln!("notice: {late} of {of} began late: the machine is busy");
    }
}

/// Changes the agent's policy.
pub(super) fn set_policy(stage: &Stage, policy: &str) -> Result<(), Failure> {
    let wanted = PolicyWanted { policy: policy.to_owned(), gpu: None };
    let set: Result<PolicyLine, _> = client::send(&stage.socket(), "PUT", "/v1/policy", &wanted);
    set.map(drop).map_err(|error| crate::ask::failure(&error))
}

/// Waits until the agent knows that nobody is on the GPU any more. One that has ended, or does not answer, is an error: what was measured may be
/// of none.
pub(super) fn empty(stage: &mut Stage, interruption: &Interruption) -> Result<(), Failure> {
    let socket = stage.socket();
    let mut tasks = Ok(Vec::new());
    interruption.wait_for("an empty GPU", || {
        tasks = client::get::<Vec<TaskLine>>(&socket, "/v1/tasks");
        tasks.as_ref().map_or(true, |tasks| tasks.iter().all(|task| task.end.is_some()))
    })?;
    stage.check_agent()?;
    tasks.map(drop).map_err(|error| crate::ask::failure(&error))
}
