//! A machine for a test: a Docker daemon, a simulated GPU and an agent, each the test's own.

use crate::daemon::{Daemon, IMAGE, folder, leeway_program, output, stdout};
pub(crate) use crate::running::Running;
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// How long a state may take to come about on a machine with other work to do.
const PATIENCE: Duration = Duration::from_secs(30);
/// How often to look whether it has.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// How far a start may be from the program's own record on a machine with other work to do. `leeway bench detect` has the
/// figures of a quiet one.
pub(crate) const START_ERROR_S_MAX: f64 = 0.15;
/// Docker writes an end down late: its own processes stand between.
pub(crate) const END_ERROR_S_MAX: f64 = 0.5;

/// Everything a test needs. The daemon is shared; names and places are not.
pub(crate) struct Scene {
    pub(crate) daemon: &'static Daemon,
    pub(crate) places: TempDir,
    _gpu: Option<Running>,
}

impl Scene {
    /// A machine with that many GPUs, which NVML lists at once.
    pub(crate) fn new(daemon: &'static Daemon, gpus: usize) -> Self {
        Self::with_memory(daemon, gpus, None)
    }

    /// The same, with that much memory each.
    pub(crate) fn with_memory(daemon: &'static Daemon, gpus: usize, memory: Option<&str>) -> Self {
        let places = folder();
        let gpu = (gpus > 0).then(|| simulate(&places.path().join("gpu"), gpus, memory));
        Self { daemon, places, _gpu: gpu }
    }

    pub(crate) fn place(&self, name: &str) -> PathBuf {
        self.places.path().join(name)
    }

    /// `leeway WORDS`, with this machine's places.
    pub(crate) fn leeway<'a>(&self, words: impl IntoIterator<Item = &'a str>) -> Command {
        let mut command = self.daemon.leeway(words);
        command.env("LEEWAY_STATE_DIR", self.place("state"));
        command.env("LEEWAY_RUN_DIR", self.place("run")).env("LEEWAY_SOCKET", self.place("run/agent.sock"));
        command.env("LEEWAY_TABLE", self.place("table")).env("LEEWAY_CONFIG", self.config());
        command
    }

    /// The configuration file: the tests' own, unless one wrote another.
    pub(crate) fn config(&self) -> PathBuf {
        let file = self.place("leeway.toml");
        if !file.exists() {
            std::fs::write(&file, crate::CONFIG).expect("a configuration");
        }
        file
    }

    /// Starts the agent, and waits until it answers and has heard of Docker.
    pub(crate) fn agent(&self) -> Running {
        self.agent_with(&[])
    }

    /// The same, with more words on its command line.
    pub(crate) fn agent_with(&self, words: &[&str]) -> Running {
        let agent = self.agent_unready(words);
        eventually("an agent that sees GPU and Docker", || {
            let node = self.node()?;
            (node["tier"] != "none" && node["docker"] == true).then_some(())
        });
        agent
    }

    /// Starts the agent, whatever comes of it. What it says goes to `agent.log`.
    pub(crate) fn agent_unready(&self, words: &[&str]) -> Running {
        let mut command = self.leeway(["agent"]);
        command.arg("--driver").arg(self.place("gpu")).args(words);
        Running::start(command.stderr(self.new_log()))
    }

    /// Where an agent says what it says, after what others said before.
    pub(crate) fn new_log(&self) -> std::fs::File {
        let log = std::fs::OpenOptions::new().create(true).append(true).open(self.place("agent.log"));
        log.expect("a log")
    }

    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(self.place("agent.log")).unwrap_or_default()
    }

    pub(crate) fn node(&self) -> Option<Value> {
        wire::client::get(&self.place("run/agent.sock"), "/v1/node").ok()
    }

    /// Starts a container on a GPU; its id.
    pub(crate) fn start(&self, gpu: usize, options: &[&str], words: &[&str]) -> String {
        let gpu = gpu.to_string();
        let mounts =
            output(self.leeway(["gpu", "options", "--device", &gpu, "--dir"]).arg(self.place("gpu")));
        let mounts = stdout(&mounts);
        let words =
            [&["run", "-d"], options, &mounts.split(' ').collect::<Vec<_>>(), &[IMAGE], words].concat();
        stdout(&output(&mut self.leeway(words)))
    }

    /// The tasks of a container, as `leeway tasks --json` prints them.
    pub(crate) fn tasks(&self, container: &str) -> Vec<Value> {
        lines(&stdout(&output(&mut self.leeway(["tasks", "--json", container]))))
    }

    /// The tasks of a container, once there are that many and all have ended.
    pub(crate) fn finished(&self, container: &str, count: usize) -> Vec<Value> {
        eventually_or(&format!("{count} finished tasks of {container}"), || {
            let tasks = self.tasks(container);
            let ended = tasks.iter().filter(|task| !task["end"].is_null()).count();
            if (tasks.len(), ended) == (count, count) {
                return Ok(tasks);
            }
            let all = stdout(&output(&mut self.leeway(["tasks", "--json"])));
            Err(format!("but {} with {ended} ended of:\n{all}\nagent: {}", tasks.len(), self.log()))
        })
    }

    /// The one running task of a container.
    pub(crate) fn running(&self, container: &str) -> Value {
        eventually(&format!("a running task of {container}"), || {
            self.tasks(container).into_iter().find(|task| task["end"].is_null())
        })
    }

    /// What a container printed, as JSON, once it has ended; and when Docker saw it end.
    pub(crate) fn outcome(&self, container: &str) -> (Vec<Value>, f64) {
        output(&mut self.daemon.docker(["wait", container]));
        let printed = output(&mut self.daemon.docker(["logs", container]));
        let format = "{{.State.FinishedAt}}";
        let ended = output(&mut self.daemon.docker(["inspect", "--format", format, container]));
        (lines(&stdout(&printed)), seconds(&stdout(&ended).into()))
    }

    pub(crate) fn remove(&self, container: &str) {
        output(&mut self.daemon.docker(["rm", "-f", container]));
    }
}

/// Starts a simulated GPU, and waits until it is ready.
pub(crate) fn simulate(folder: &Path, gpus: usize, memory: Option<&str>) -> Running {
    let mut command = Command::new(leeway_program());
    command.args(["gpu", "simulate", "--listed-after-ms", "0", "--devices", &gpus.to_string(), "--dir"]);
    command.arg(folder).args(memory.into_iter().flat_map(|memory| ["--memory", memory]));
    let mut child = command.stdout(Stdio::piped()).spawn().expect("a simulated GPU");
    let mut line = String::new();
    BufReader::new(child.stdout.take().expect("a pipe")).read_line(&mut line).expect("a line");
    assert!(line.starts_with("ready"), "{line}");
    Running(child)
}

/// Looks again and again until there is something to see.
pub(crate) fn eventually<T>(what: &str, look: impl Fn() -> Option<T>) -> T {
    eventually_or(what, || look().ok_or_else(String::new))
}

/// The same, for what says what there is instead.
pub(crate) fn eventually_or<T>(what: &str, look: impl Fn() -> Result<T, String>) -> T {
    let start = Instant::now();
    loop {
        match look() {
            Ok(seen) => return seen,
            Err(instead) => {
                assert!(start.elapsed() < PATIENCE, "after {PATIENCE:?} there is no {what} {instead}");
            }
        }
        std::thread::sleep(LOOK_EVERY);
    }
}

fn lines(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).expect(line)).collect()
}

/// Seconds since 1970 of a time in JSON: a number, or RFC 3339.
pub(crate) fn seconds(time: &Value) -> f64 {
    time.as_f64().unwrap_or_else(|| {
        let time: jiff::Timestamp = time.as_str().expect("a time").parse().expect("RFC 3339");
        time.as_microsecond() as f64 / 1e6
    })
}
