//! A cluster without an engine: one master, and as many agents as a test wants, each with a simulated GPU.

pub(crate) use crate::running::Running;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;
use wire::cluster::{NodeRank, PlaceWanted, Placed};

/// How long a state may take to come about on a machine with other work to do.
const PATIENCE: Duration = Duration::from_mins(1);
/// How often to look whether it has.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// The program under test.
pub(crate) fn leeway() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_leeway"));
    for name in ["DOCKER_HOST", "DOCKER_CONTEXT"] {
        command.env_remove(name);
    }
    command
}

/// A cluster without an engine.
pub(crate) struct Hall {
    pub(crate) places: TempDir,
    pub(crate) address: String,
    /// Where the master's page is.
    pub(crate) http: String,
    master: Option<Running>,
}

impl Hall {
    /// A cluster with its master.
    pub(crate) fn open() -> Self {
        let places = tempfile::tempdir().expect("a temporary folder");
        let mut hall = Self { places, address: free_address(), http: free_address(), master: None };
        let made = succeeded(hall.cluster(&["init", "--advertise", &hall.address.clone()]));
        assert!(made.contains("leeway master") && made.contains("leeway agent --join leeway1-"), "{made}");
        hall.start_master();
        hall
    }

    /// A cluster with a node for each of these names, with so much GPU memory; and what runs there.
    pub(crate) fn with_nodes(nodes: &[(&str, &str)]) -> (Self, Vec<Running>) {
        let hall = Self::open();
        let mut running = Vec::new();
        for (name, memory) in nodes {
            let gpu = hall.place(&format!("{name}.gpu"));
            running.push(simulate(&gpu, memory));
            running.push(hall.agent(name, &gpu));
            hall.ready(name);
        }
        (hall, running)
    }

    /// Kills the master as a power cut would.
    pub(crate) fn kill_master(&mut self) {
        self.master = None;
    }

    /// Stops it as its service manager would.
    pub(crate) fn stop_master(&mut self) {
        self.master.take().expect("a master").stop();
    }

    pub(crate) fn start_master(&mut self) {
        let mut command = leeway();
        command.args(["master", "--engine", "none", "--listen", &self.address, "--advertise", &self.address]);
        command.args(["--http", &self.http]);
        command.arg("--state-dir").arg(self.place("master")).arg("--socket").arg(self.socket());
        self.master = Some(Running::start(command.stderr(log(&self.place("master.log")))));
        eventually("a master that answers", || {
            wire::client::get::<serde_json::Value>(&self.socket(), "/v1/master").ok()
        });
    }

    pub(crate) fn place(&self, name: &str) -> PathBuf {
        self.places.path().join(name)
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.place("master.sock")
    }

    /// `leeway cluster WORDS`
    pub(crate) fn cluster(&self, words: &[&str]) -> Command {
        let mut command = leeway();
        command
            .arg("cluster")
            .args(words)
            .args(["--engine", "none", "--state-dir"])
            .arg(self.place("master"));
        command
    }

    /// `leeway WORDS`, which asks this master.
    pub(crate) fn leeway(&self, words: &[&str]) -> Command {
        let mut command = leeway();
        command.args(words).env("LEEWAY_MASTER_SOCKET", self.socket());
        command
    }

    /// Has the master find a place for a container with a deadline of two seconds.
    pub(crate) fn find_place(&self) -> Placed {
        let wanted = PlaceWanted { deadline_us: Some(2_000_000), ..PlaceWanted::default() };
        wire::client::send(&self.socket(), "POST", "/v1/placements", &wanted).expect("a place")
    }

    /// The token, as it is now.
    pub(crate) fn token(&self) -> String {
        succeeded(self.cluster(&["token"])).trim().to_owned()
    }

    /// Starts an agent that joins as that node, on the simulated GPU in that folder.
    pub(crate) fn agent(&self, name: &str, gpu: &Path) -> Running {
        let invitation = format!("{}@{}", self.token(), self.address);
        Running::start(self.agent_command(name, gpu).args(["--join", &invitation]))
    }

    pub(crate) fn agent_command(&self, name: &str, gpu: &Path) -> Command {
        let mut command = leeway();
        command.args(["agent", "--probes", "off", "--node", name, "--driver"]).arg(gpu);
        let folder = self.place(name);
        command.arg("--run-dir").arg(folder.join("run")).arg("--state-dir").arg(folder.join("state"));
        command.arg("--table").arg(self.place(&format!("{name}.table")));
        command.stderr(log(&self.place(&format!("{name}.log"))));
        command
    }

    /// The node list.
    pub(crate) fn nodes(&self) -> Vec<NodeRank> {
        wire::client::get(&self.socket(), "/v1/nodes").unwrap_or_default()
    }

    /// Waits until a node is ready for containers.
    pub(crate) fn ready(&self, name: &str) -> NodeRank {
        eventually(&format!("a node {name} that is ready"), || {
            self.nodes().into_iter().find(|node| node.node == name && node.provisionable)
        })
    }

    /// What the master said so far.
    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(self.place("master.log")).unwrap_or_default()
    }

    /// Waits until the master has said something, and how often it has.
    pub(crate) fn told(&self, what: &str) -> usize {
        eventually(&format!("word of '{what}'"), || self.log().contains(what).then_some(()));
        self.log().matches(what).count()
    }
}

/// An address that nobody listens at now.
fn free_address() -> String {
    let free = std::net::TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr());
    free.expect("a port").to_string()
}

/// Starts a simulated GPU, and waits until it is ready.
pub(crate) fn simulate(folder: &Path, memory: &str) -> Running {
    let mut command = leeway();
    command.args(["gpu", "simulate", "--listed-after-ms", "0", "--memory", memory, "--dir"]);
    let mut child = command.arg(folder).stdout(Stdio::piped()).spawn().expect("a simulated GPU");
    let mut line = String::new();
    BufReader::new(child.stdout.take().expect("a pipe")).read_line(&mut line).expect("a line");
    assert!(line.starts_with("ready"), "{line}");
    Running(child)
}

/// A file to write a log to, after what is there.
pub(crate) fn log(path: &Path) -> std::fs::File {
    std::fs::OpenOptions::new().create(true).append(true).open(path).expect("a log")
}

/// What a command that must succeed prints.
pub(crate) fn succeeded(mut command: Command) -> String {
    let output = command.output().expect("a program to run");
    assert!(output.status.success(), "{command:?}\n{}", stderr(&output));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// What a command that must not succeed says.
pub(crate) fn failed(mut command: Command) -> String {
    let output = command.output().expect("a program to run");
    assert!(!output.status.success(), "{command:?}\n{}", String::from_utf8_lossy(&output.stdout));
    stderr(&output)
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Looks again and again until there is something to see.
pub(crate) fn eventually<T>(what: &str, look: impl Fn() -> Option<T>) -> T {
    within(PATIENCE, what, look)
}

/// The same, with another patience.
pub(crate) fn within<T>(patience: Duration, what: &str, look: impl Fn() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(seen) = look() {
            return seen;
        }
        assert!(start.elapsed() < patience, "after {patience:?} there is no {what}");
        std::thread::sleep(LOOK_EVERY);
    }
}
