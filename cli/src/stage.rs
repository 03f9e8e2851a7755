//! A stage to measure on: a simulated GPU and an agent of our own, which go when we do.

use crate::failure::Failure;
use anyhow::{Context, Result};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use wire::agent::NodeLine;
use wire::client;

/// How long the GPU and the agent may take to be ready.
const READY_MAX: Duration = Duration::from_secs(20);
/// How often to look whether they are.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// A program that ends with us.
pub(crate) struct Player(Child);

impl Player {
    pub(crate) fn start(command: &mut Command) -> Result<Self> {
        let what = format!("could not start {}", command.get_program().to_string_lossy());
        Ok(Self(command.stdin(Stdio::null()).spawn().context(what)?))
    }

    pub(crate) fn pid(&self) -> u32 {
        self.0.id()
    }

    /// Asks it to end, without waiting: many end sooner together than one after another.
    pub(crate) fn tell_to_end(&self) {
        let pid = rustix::process::Pid::from_child(&self.0);
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
    }
}

impl Drop for Player {
    /// First politely, so that it puts its things away.
    fn drop(&mut self) {
        self.tell_to_end();
        let asked = Instant::now();
        while asked.elapsed() < Duration::from_secs(2) {
            if !matches!(self.0.try_wait(), Ok(None)) {
                return;
            }
            std::thread::sleep(LOOK_EVERY);
        }
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// How the agent sees tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Tier {
    Polling,
    Probes,
}

impl Tier {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Tier::Polling => "polling",
            Tier::Probes => "probes",
        }
    }
}

/// The stage. Fields are dropped in order: the agent, the GPU, then the folder.
pub(crate) struct Stage {
    agent: Option<Player>,
    _gpu: Option<Player>,
    folder: Folder,
    driver: PathBuf,
    poll_ms: u64,
    tier: Tier,
}

impl Stage {
    /// Sets up an agent, and with no driver given a simulated GPU that NVML lists programs on at once.
    pub(crate) fn set(driver: Option<&Path>, memory: &str, poll_ms: u64, tier: Tier) -> Result<Self> {
        let folder = Folder::new()?;
        let (gpu, driver) = match driver {
            Some(driver) => (None, driver.to_owned()),
            None => {
                let at = folder.0.join("gpu");
                let mut simulate = leeway()?;
                simulate.args(["gpu", "simulate", "--listed-after-ms", "0", "--memory", memory, "--dir"]);
                (Some(Player::start(simulate.arg(&at).stdout(Stdio::null()))?), at)
            }
        };
        wait_for("the driver's libraries", || driver.join("libnvidia-ml.so.1").exists())?;
        let mut stage = Self { agent: None, _gpu: gpu, folder, driver, poll_ms, tier };
        stage.enter_agent()?;
        Ok(stage)
    }

    /// Starts the agent, and waits until it sees the GPU, in the way that is wanted.
    pub(crate) fn enter_agent(&mut self) -> Result<()> {
        let at = |name: &str| self.folder.0.join(name);
        let mut agent = leeway()?;
        agent.arg("agent").arg("--driver").arg(&self.driver).args(["--poll-ms", &self.poll_ms.to_string()]);
        agent.args(["--probes", if self.tier == Tier::Probes { "auto" } else { "off" }]);
        agent.arg("--run-dir").arg(at("run")).arg("--state-dir").arg(at("state"));
        agent.arg("--table").arg(at("table")).arg("--socket").arg(at("run/agent.sock"));
        self.agent = Some(Player::start(agent.stderr(Stdio::null()))?);
        let what = format!("an agent that sees a GPU by {}", self.tier.name());
        Ok(wait_for(&what, || self.node().is_some_and(|node| node.tier == self.tier.name()))?)
    }

    /// Ends the agent; everything else stays.
    pub(crate) fn leave_agent(&mut self) {
        self.agent = None;
    }

    pub(crate) fn agent_pid(&self) -> Result<u32, Failure> {
        self.agent.as_ref().map(Player::pid).ok_or_else(|| Failure::new("no agent runs"))
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.folder.0.join("run/agent.sock")
    }

    pub(crate) fn state(&self) -> PathBuf {
        self.folder.0.join("state")
    }

    pub(crate) fn node(&self) -> Option<NodeLine> {
        client::get(&self.socket(), "/v1/node").ok()
    }

    /// Whether the GPU is one of ours.
    pub(crate) fn is_simulated(&self) -> bool {
        self.driver.join(::gpu::SOCKET).exists()
    }

    /// The folder of the driver's libraries.
    pub(crate) fn driver(&self) -> &Path {
        &self.driver
    }

    /// A CUDA program on the stage's GPU.
    pub(crate) fn work(&self, words: &[&str]) -> Result<Command> {
        let mut work = leeway()?;
        work.arg("work").args(words).env("LD_LIBRARY_PATH", &self.driver);
        Ok(work)
    }
}

/// This program, once more.
pub(crate) fn leeway() -> Result<Command> {
    Ok(Command::new(std::env::current_exe().context("could not find this program's own file")?))
}

/// Waits until something is so.
pub(crate) fn wait_for(what: &str, is_so: impl Fn() -> bool) -> Result<(), Failure> {
    let start = Instant::now();
    while !is_so() {
        if start.elapsed() > READY_MAX {
            return Err(Failure::new(format!("waited {} s in vain for {what}", READY_MAX.as_secs()))
                .help("`leeway doctor` says what this machine lacks"));
        }
        std::thread::sleep(LOOK_EVERY);
    }
    Ok(())
}

/// A folder of our own. Sockets have short names, so it is in the system's folder for such things.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Result<Self> {
        let path = std::env::temp_dir().join(format!("leeway-{}", std::process::id()));
        std::fs::create_dir(&path).with_context(|| format!("could not make {}", path.display()))?;
        Ok(Self(path))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
