//! A stage to measure on and to show things on: a simulated GPU and an agent of our own, which go when we do.

mod others;

use crate::failure::Failure;
use anyhow::{Context, Result};
use std::ffi::OsStr;
use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};
use wire::agent::NodeLine;
use wire::client;

/// How long the GPU and the agent may take to be ready.
const READY_MAX: Duration = Duration::from_secs(30);
/// How often to look whether they are.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// The library that every driver has, and by which its folder is known.
const NVML: &str = "libnvidia-ml.so.1";

/// A program that ends with us.
pub(crate) struct Player(Child);

/// What a stage is set with.
pub(crate) struct Setting<'a> {
    /// The folder of a driver's libraries; without one, a GPU is simulated.
    pub(crate) driver: Option<&'a Path>,
    /// Memory of the simulated GPU.
    pub(crate) memory: &'a str,
    /// How long after a program's start the simulated GPU's NVML lists it.
    pub(crate) listed_after_ms: u64,
    /// How often the agent looks.
    pub(crate) poll_ms: u64,
    /// The agent's policy.
    pub(crate) policy: &'a str,
    /// Where the agent writes what it holds; a folder of the stage's own if not given.
    pub(crate) run_dir: Option<&'a Path>,
    /// How the agent sees tasks; as well as it can, if nobody cares.
    pub(crate) tier: Option<Tier>,
    /// Where the agent serves its page, if anybody wants to see it.
    pub(crate) http: Option<std::net::SocketAddr>,
}

/// How an agent sees tasks.
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

impl Player {
    pub(crate) fn start(command: &mut Command) -> Result<Self> {
        let what = format!("could not start {}", command.get_program().to_string_lossy());
        Ok(Self(command.stdin(Stdio::null()).spawn().context(what)?))
    }

    pub(crate) fn pid(&self) -> u32 {
        self.0.id()
    }

    /// How it ended, if it has.
    pub(crate) fn ended(&mut self) -> Option<ExitStatus> {
        self.0.try_wait().ok().flatten()
    }

    /// Asks it to end, without waiting: many end sooner together than one after another.
    pub(crate) fn tell_to_end(&mut self) {
        // Once it has been waited for, its pid may mean anybody.
        if self.ended().is_some() {
            return;
        }
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

/// The stage. Fields are dropped in order: the agent, the GPU, then the folder.
pub(crate) struct Stage {
    agent: Option<Player>,
    _gpu: Option<Player>,
    folder: Folder,
    driver: PathBuf,
    /// What the agent is told to be like.
    words: Vec<String>,
    run_dir: PathBuf,
    tier: Option<Tier>,
}

impl Stage {
    /// Sets up an agent that holds nobody, and with no driver given a simulated GPU that NVML lists programs on at once.
    pub(crate) fn set(driver: Option<&Path>, memory: &str, poll_ms: u64, tier: Option<Tier>) -> Result<Self> {
        let setting = Setting {
            driver,
            memory,
            listed_after_ms: 0,
            poll_ms,
            policy: "none",
            tier,
            run_dir: None,
            http: None,
        };
        Self::set_in(Folder::new("leeway")?, &setting)
    }

    /// The same in a folder that is there already.
    pub(crate) fn set_in(folder: Folder, setting: &Setting<'_>) -> Result<Self> {
        let at = |name: &str| folder.0.join(name);
        let mut gpu = None;
        let driver = setting.driver.map_or_else(|| at("gpu"), Path::to_owned);
        if setting.driver.is_some() && !driver.join(NVML).exists() {
            let folder = driver.display();
            return Err(Failure::new(format!("there is no {NVML} in {folder}"))
                .help("name the folder of libcuda.so.1 and libnvidia-ml.so.1 with `--driver`")
                .into());
        }
        if setting.driver.is_some() && !is_simulated(&driver) {
            others::look_for(&driver)?;
        }
        if setting.driver.is_none() {
            let mut simulate = ending_with_us(&[])?;
            simulate.args(["gpu", "simulate", "--memory", setting.memory, "--listed-after-ms"]);
            simulate.arg(setting.listed_after_ms.to_string()).arg("--dir").arg(at("gpu"));
            gpu = Some(Player::start(simulate.stdout(Stdio::null()))?);
        }
        if gpu.is_some() {
            // The program for containers is the last thing a simulated GPU puts into its folder.
            ready("the driver's libraries", gpu.as_mut(), || driver.join("lib/ld.so").exists())?;
        }
        let mut words = vec!["--poll-ms".to_owned(), setting.poll_ms.to_string()];
        words.extend(["--policy".to_owned(), setting.policy.to_owned()]);
        words.extend(setting.http.iter().flat_map(|http| ["--http".to_owned(), http.to_string()]));
        if setting.tier == Some(Tier::Polling) {
            words.extend(["--probes".to_owned(), "off".to_owned()]);
        }
        let run_dir = setting.run_dir.map_or_else(|| at("run"), Path::to_owned);
        let mut stage = Self { agent: None, _gpu: gpu, folder, driver, words, run_dir, tier: setting.tier };
        stage.enter_agent()?;
        Ok(stage)
    }

    /// Starts the agent, and waits until it sees the GPU, in the way that is wanted.
    pub(crate) fn enter_agent(&mut self) -> Result<()> {
        let at = |name: &str| self.folder.0.join(name);
        // An agent of the machine has its settings in a file and in the environment: they are not meant for this one.
        std::fs::write(at("leeway.toml"), "").context("could not write an empty configuration")?;
        let log = File::create(at("agent.log")).context("could not make a log for the agent")?;
        let mut agent = ending_with_us(&[])?;
        agent.arg("agent").arg("--driver").arg(&self.driver).args(&self.words);
        agent.arg("--run-dir").arg(&self.run_dir).arg("--state-dir").arg(at("state"));
        agent.arg("--table").arg(at("table")).arg("--socket").arg(at("run/agent.sock"));
        agent.arg("--config").arg(at("leeway.toml"));
        for (name, _) in std::env::vars_os().filter(|(name, _)| name.as_bytes().starts_with(b"LEEWAY_")) {
            agent.env_remove(name);
        }
        let mut agent = Player::start(agent.stderr(log))?;
        let (socket, wanted) = (self.socket(), self.tier.map(Tier::name));
        let mut tier = None;
        let what = format!("an agent that sees a GPU by {}", wanted.unwrap_or("any means"));
        ready(&what, Some(&mut agent), || {
            tier = node_at(&socket).map(|node| node.tier).filter(|tier| tier != "none");
            tier.is_some()
        })
        .with_context(|| self.last_words_of_the_agent())?;
        // Whether there are probes is settled before an agent answers: who waited for them would wait in vain.
        if wanted.is_some() && tier.as_deref() != wanted {
            return Err(Failure::new(self.why_by_polling())
                .help("`leeway doctor` says what this machine lacks")
                .into());
        }
        self.agent = Some(agent);
        Ok(())
    }

    /// Ends the agent; everything else stays.
    pub(crate) fn leave_agent(&mut self) {
        self.agent = None;
    }

    pub(crate) fn agent_pid(&self) -> Result<u32, Failure> {
        self.agent.as_ref().map(Player::pid).ok_or_else(|| Failure::new("no agent runs"))
    }

    /// An error, if there should be an agent and it has ended: what was measured since is of none.
    pub(crate) fn check_agent(&mut self) -> Result<(), Failure> {
        let Some(how) = self.agent.as_mut().and_then(Player::ended) else { return Ok(()) };
        Err(Failure::new(format!(
            "the agent ended while it was measured ({how}); {}",
            self.last_words_of_the_agent()
        )))
    }

    /// What the agent said of probes that it does not have.
    fn why_by_polling(&self) -> String {
        let log = std::fs::read_to_string(self.folder.0.join("agent.log")).unwrap_or_default();
        let said = log.lines().find_map(|line| line.strip_prefix("notice: tasks are seen by polling: "));
        format!("there are no probes here: {}", said.unwrap_or("the agent does not say why"))
    }

    /// What the agent said last: why it ended, where it has.
    fn last_words_of_the_agent(&self) -> String {
        let log = std::fs::read_to_string(self.folder.0.join("agent.log")).unwrap_or_default();
        format!("the agent said last: {}", log.lines().last().unwrap_or("nothing"))
    }

    /// The folder of the GPU's libraries.
    pub(crate) fn driver(&self) -> &Path {
        &self.driver
    }

    /// A file of ours on the stage.
    pub(crate) fn place(&self, name: &str) -> PathBuf {
        self.folder.0.join(name)
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.folder.0.join("run/agent.sock")
    }

    pub(crate) fn state(&self) -> PathBuf {
        self.folder.0.join("state")
    }

    pub(crate) fn node(&self) -> Option<NodeLine> {
        node_at(&self.socket())
    }

    /// Whether the GPU is one of ours.
    pub(crate) fn is_simulated(&self) -> bool {
        is_simulated(&self.driver)
    }

    /// A CUDA program on the stage's GPU.
    pub(crate) fn work(&self, words: &[&str]) -> Result<Command> {
        let mut work = leeway()?;
        work.arg("work").args(words).env("LD_LIBRARY_PATH", &self.driver);
        Ok(work)
    }
}

/// Whether a folder's libraries are of a simulated GPU.
fn is_simulated(driver: &Path) -> bool {
    driver.join(::gpu::SOCKET).exists()
}

fn node_at(socket: &Path) -> Option<NodeLine> {
    client::get(socket, "/v1/node").ok()
}

/// This program, once more; however we end, it ends too. Ctrl-C is for us alone: we end it in good order.
/// `options` are those of `leeway play`.
pub(crate) fn ending_with_us(options: &[&OsStr]) -> Result<Command> {
    let mut command = leeway()?;
    command.args(["play", "--parent", &std::process::id().to_string()]).args(options).arg("--");
    command.process_group(0);
    Ok(command)
}

/// This program, once more.
pub(crate) fn leeway() -> Result<Command> {
    Ok(Command::new(std::env::current_exe().context("could not find this program's own file")?))
}

/// Waits until something is so.
pub(crate) fn wait_for(what: &str, mut is_so: impl FnMut() -> bool) -> Result<(), Failure> {
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

/// Waits until something is so that a program brings about, and no longer than the program lives.
fn ready(
    what: &str,
    mut player: Option<&mut Player>,
    mut is_so: impl FnMut() -> bool,
) -> Result<(), Failure> {
    let mut gone = false;
    wait_for(what, || {
        gone = player.as_mut().is_some_and(|player| player.ended().is_some());
        gone || is_so()
    })?;
    if gone {
        return Err(Failure::new(format!("{what} did not come: the program that makes it has ended")));
    }
    Ok(())
}

/// A folder of our own. Sockets have short names, so it is in the system's folder for such things.
pub(crate) struct Folder(PathBuf);

impl Folder {
    pub(crate) fn new(name: &str) -> Result<Self> {
        Self::new_in(&std::env::temp_dir(), name)
    }

    /// In another place than the system's.
    pub(crate) fn new_in(place: &Path, name: &str) -> Result<Self> {
        let path = place.join(format!("{name}-{}", std::process::id()));
        std::fs::create_dir(&path).with_context(|| format!("could not make {}", path.display()))?;
        Ok(Self(path))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
