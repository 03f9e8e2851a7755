//! A real swarm of three Docker daemons on one machine, with a simulated GPU and an agent on each, and masters.

use crate::hall::{Running, eventually, leeway, log, simulate, within};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};
use tempfile::TempDir;
use wire::cluster::NodeRank;

/// How long a container may take to start, or to be moved after its node was lost, beside other work.
pub(crate) const LONG: Duration = Duration::from_mins(2);
/// The image in every daemon.
pub(crate) const IMAGE: &str = "leeway-test";

/// Nodes n1, n2 and n3, by their numbers.
pub(crate) const NODES: [usize; 3] = [1, 2, 3];

/// The swarm, and what runs on it.
pub(crate) struct Town {
    places: TempDir,
    gpus: Vec<Running>,
    agents: BTreeMap<usize, Running>,
    masters: BTreeMap<usize, Running>,
}

impl Town {
    /// A swarm with an authority, and nothing else of Leeway's.
    pub(crate) fn found() -> Self {
        let places = tempfile::Builder::new().prefix("lw").tempdir().expect("a temporary folder");
        let town = Self { places, gpus: Vec::new(), agents: BTreeMap::new(), masters: BTreeMap::new() };
        run(script().arg("start").arg(town.places.path()).arg(std::process::id().to_string()));
        run(town.leeway(1).args(["cluster", "init"]));
        town
    }

    /// Starts a simulated GPU with 8, 16 or 24 GiB on each node, and an agent that joins.
    pub(crate) fn settle(&mut self) {
        let token = run(self.leeway(1).args(["cluster", "token"]));
        let number = std::fs::read_to_string(self.place("number")).expect("a number");
        let invitation = format!("{}@10.{}.0.1:7843", token.trim(), number.trim());
        for node in NODES {
            let gpu = self.place(&format!("n{node}/gpu"));
            self.gpus.push(simulate(&gpu, &format!("{}GiB", 8 * node)));
            self.start_agent(node, &["--join", &invitation]);
        }
    }

    fn start_agent(&mut self, node: usize, words: &[&str]) {
        let place = |what: &str| self.place(&format!("n{node}/{what}"));
        let mut command = self.enter(node, "agent");
        command.args(["--policy", "none", "--probes", "off", "--node", &format!("n{node}"), "--driver"]);
        command.arg(place("gpu")).arg("--run-dir").arg(place("run")).arg("--state-dir").arg(place("state"));
        command.arg("--table").arg(place("table")).args(words);
        command.stderr(log(&self.place(&format!("agent{node}.log"))));
        self.agents.insert(node, Running::start(&mut command));
    }

    /// Kills an agent as a power cut would, and starts it again.
    pub(crate) fn restart_agent(&mut self, node: usize) {
        self.agents.remove(&node);
        self.start_agent(node, &[]);
    }

    /// Starts a master on a node.
    pub(crate) fn start_master(&mut self, node: usize, words: &[&str]) {
        let mut command = self.enter(node, "master");
        command.args(words).arg("--socket").arg(self.socket(node));
        command.stderr(log(&self.place(&format!("master{node}.log"))));
        self.masters.insert(node, Running::start(&mut command));
    }

    /// Starts a master on each node. One that finds no leader, for swarm elects one, ends, and is started again.
    pub(crate) fn start_masters(&mut self) {
        for node in NODES {
            self.start_master(node, &[]);
        }
        let start = Instant::now();
        let mut waiting = NODES.to_vec();
        while !waiting.is_empty() {
            assert!(start.elapsed() < LONG, "masters {waiting:?} do not answer");
            std::thread::sleep(Duration::from_millis(200));
            waiting.retain(|node| self.get::<Value>(*node, "/v1/master").is_none());
            for node in &waiting {
                let ended = self.masters.get_mut(node).map(|master| master.0.try_wait());
                if matches!(ended, Some(Ok(Some(_)))) {
                    self.start_master(*node, &[]);
                }
            }
        }
    }

    /// Kills a master as a power cut would.
    pub(crate) fn kill_master(&mut self, node: usize) {
        self.masters.remove(&node);
    }

    /// Stops a master as its service manager would.
    pub(crate) fn stop_master(&mut self, node: usize) {
        self.masters.remove(&node).expect("a master").stop();
    }

    /// Ends everything on a node.
    pub(crate) fn kill_node(&mut self, node: usize) {
        self.network("kill", node);
        self.agents.remove(&node);
        self.masters.remove(&node);
    }

    /// Cuts a node off (`cut`), or undoes that (`heal`); or ends its Docker alone (`crash`).
    pub(crate) fn network(&self, what: &str, node: usize) {
        run(script().arg(what).arg(self.places.path()).arg(node.to_string()));
    }

    pub(crate) fn place(&self, name: &str) -> PathBuf {
        self.places.path().join(name)
    }

    pub(crate) fn socket(&self, node: usize) -> PathBuf {
        self.place(&format!("master{node}.sock"))
    }

    fn docker_host(&self, node: usize) -> String {
        format!("unix://{}", self.place(&format!("n{node}/docker.sock")).display())
    }

    /// `leeway` as on that node, but for its network.
    pub(crate) fn leeway(&self, node: usize) -> Command {
        let mut command = leeway();
        command.env("DOCKER_HOST", self.docker_host(node)).env("LEEWAY_MASTER_SOCKET", self.socket(node));
        command
    }

    /// `leeway WHAT` on that node, in its network.
    fn enter(&self, node: usize, what: &str) -> Command {
        let mut command = script();
        command.arg("enter").arg(self.places.path()).arg(node.to_string());
        command.arg(env!("CARGO_BIN_EXE_leeway")).arg(what).env_remove("DOCKER_CONTEXT");
        command.env("DOCKER_HOST", self.docker_host(node));
        command
    }

    /// What `docker WORDS` prints on that node, if it succeeds.
    pub(crate) fn docker(&self, node: usize, words: &[&str]) -> Option<String> {
        let mut command = Command::new("docker");
        command.args(words).env("DOCKER_HOST", self.docker_host(node)).env_remove("DOCKER_CONTEXT");
        let output = command.output().expect("Docker's program");
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
    }

    /// What a master answers.
    pub(crate) fn get<T: serde::de::DeserializeOwned>(&self, node: usize, path: &str) -> Option<T> {
        wire::client::get(&self.socket(node), path).ok()
    }

    /// The node list of a master, once all of these nodes are in it and take containers.
    pub(crate) fn nodes(&self, master: usize, wanted: &[&str]) -> Vec<NodeRank> {
        within(LONG, &format!("{wanted:?} in the list of master {master}"), || {
            let list: Vec<NodeRank> = self.get(master, "/v1/nodes")?;
            let ready = |name: &&str| list.iter().any(|node| node.node == **name && node.state == "ready");
            wanted.iter().all(ready).then_some(list)
        })
    }

    /// `leeway run --node NODE` by way of a master: the service's name, and where it went.
    pub(crate) fn run(
        &self,
        master: usize,
        node: &str,
        options: &[&str],
        words: &[&str],
    ) -> (String, String) {
        let mut command = self.leeway(master);
        command.args(["run", "-d", "--node", node]).args(options).args(self.gpu_options());
        let output = command.arg(IMAGE).args(words).output().expect("leeway");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{said}");
        let line = said.lines().find(|line| line.contains(" goes to ")).unwrap_or_else(|| panic!("{said}"));
        let (name, rest) = line["notice: ".len()..].split_once(" goes to ").expect("a name");
        let (node, _) = rest.split_once(',').expect("a node");
        (name.to_owned(), node.to_owned())
    }

    /// The GPU of whichever node the container comes to: each has its own at the same path.
    fn gpu_options(&self) -> Vec<String> {
        let here = self.place("n1/gpu");
        let options = run(leeway().args(["gpu", "options", "--dir"]).arg(&here));
        let there = self.place("gpu").display().to_string();
        let options = options.trim().replace(&here.display().to_string(), &there);
        options.split(' ').map(str::to_owned).collect()
    }

    /// The containers of a service that run on a node now.
    pub(crate) fn running(&self, node: usize, service: &str) -> Vec<String> {
        let filter = format!("label=com.docker.swarm.service.name={service}");
        let listed = self.docker(node, &["ps", "-q", "--no-trunc", "--filter", &filter]).unwrap_or_default();
        listed.lines().map(str::to_owned).collect()
    }

    /// Waits until a service runs on a node; its container.
    pub(crate) fn runs_on(&self, node: usize, service: &str) -> String {
        within(LONG, &format!("container of {service} on n{node}"), || self.running(node, service).pop())
    }

    /// The events of a master.
    pub(crate) fn events(&self, master: usize) -> Vec<Value> {
        let text = run(self
            .leeway(master)
            .args(["events", "--json", "--no-follow", "--socket"])
            .arg(self.socket(master)));
        text.lines().map(|line| serde_json::from_str(line).expect(line)).collect()
    }

    /// Waits until one of the masters has moved a service, and says so: where to, and why.
    pub(crate) fn moved(&self, masters: &[usize], service: &str) -> Value {
        within(LONG, &format!("move of {service}"), || {
            masters.iter().find_map(|master| self.happened(*master, "moved", service).pop())
        })
    }

    /// What happened to a service, by the master's word.
    pub(crate) fn happened(&self, master: usize, event: &str, service: &str) -> Vec<Value> {
        let about = |line: &Value| line["event"] == event && line["name"] == service;
        self.events(master).into_iter().filter(about).collect()
    }

    /// Waits until a master is the active one, of these.
    pub(crate) fn active(&self, masters: &[usize]) -> usize {
        eventually("an active master", || {
            let is_active = |node: &&usize| {
                let about: Option<wire::cluster::MasterLine> = self.get(**node, "/v1/master");
                about.is_some_and(|about| about.active)
            };
            masters.iter().find(is_active).copied()
        })
    }
}

impl Drop for Town {
    fn drop(&mut self) {
        if std::thread::panicking() {
            for node in NODES {
                for what in ["master", "agent"] {
                    let said = std::fs::read_to_string(self.place(&format!("{what}{node}.log")));
                    eprintln!("--- {what} {node}\n{}", said.unwrap_or_default());
                }
            }
        }
        self.agents.clear();
        self.masters.clear();
        let _ = script().arg("stop").arg(self.places.path()).output();
    }
}

fn script() -> Command {
    Command::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../scripts/swarm-for-tests"))
}

/// What a command that must succeed prints.
pub(crate) fn run(command: &mut Command) -> String {
    let output = command.output().expect("a program to run");
    assert!(output.status.success(), "{command:?}\n{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}
