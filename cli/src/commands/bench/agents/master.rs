//! The master that is measured: a process of its own, with a record that names every agent beforehand.

use super::super::Interruption;
use anyhow::{Context, Result, bail};
use cluster::certificates::{self, Authority};
use node::link::identity::Identity;
use serde::de::DeserializeOwned;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use wire::client;
use wire::cluster::{MasterLine, NodeRank};
use wire::kept::{Kept, KeptNode};

/// How long everybody may take to connect.
const CONNECT_MAX: Duration = Duration::from_mins(3);
/// How often to look whether they have.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// The clock ticks of `/proc`, a second; the same on every Linux that Rust runs on.
const TICKS_PER_SECOND: f64 = 100.0;

/// The master, and what its agents need.
pub(super) struct Master {
    folder: PathBuf,
    socket: PathBuf,
    pub(super) address: String,
    /// One for each agent, in the order of their numbers.
    pub(super) members: Vec<Identity>,
    child: Option<Child>,
}

/// What a master used in some time.
pub(super) struct Used {
    pub(super) seconds: f64,
    ticks: u64,
    pub(super) memory_kib: u64,
    pub(super) loopback_bytes: u64,
}

impl Used {
    pub(super) fn cpu_percent(&self) -> f64 {
        self.ticks as f64 / TICKS_PER_SECOND / self.seconds * 100.0
    }
}

/// What an agent is called.
pub(super) fn name(number: usize) -> String {
    format!("node-{number:05}")
}

impl Master {
    /// A cluster with that many members. They share one key, which nobody minds here; each has its own certificate.
    pub(super) fn new(nodes: usize) -> Result<Self> {
        let folder = std::env::temp_dir().join(format!("leeway-bench-{}", std::process::id()));
        std::fs::create_dir_all(&folder).context("could not make a folder")?;
        let (certificate, key) = Authority::create()?;
        let authority = Authority::load(&certificate, &key)?;
        let pair = rcgen::KeyPair::generate()?;
        let request = rcgen::CertificateParams::default().serialize_request(&pair)?.pem()?;
        let port = std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let address = format!("127.0.0.1:{port}");
        let mut kept = Kept {
            certificate: certificate.clone(),
            key,
            secret: certificates::secret()?,
            ..Kept::default()
        };
        let mut members = Vec::with_capacity(nodes);
        for number in 0..nodes {
            let (signed, key) = authority.for_agent(&name(number), &request)?;
            kept.nodes.insert(name(number), KeptNode { engine_id: String::new(), key });
            members.push(Identity {
                key: pair.serialize_pem(),
                certificate: signed,
                authority: certificate.clone(),
                masters: vec![address.clone()],
            });
        }
        std::fs::write(folder.join("cluster.json"), serde_json::to_vec(&kept)?)?;
        let socket = folder.join("master.sock");
        Ok(Self { folder, socket, address, members, child: None })
    }

    pub(super) fn start(&mut self, interruption: &Interruption) -> Result<()> {
        let program = std::env::current_exe().context("could not find this program")?;
        let mut command = Command::new(program);
        command.args(["master", "--engine", "none", "--listen", &self.address, "--advertise", &self.address]);
        command.arg("--state-dir").arg(&self.folder).arg("--socket").arg(&self.socket);
        self.child = Some(command.stderr(Stdio::null()).spawn().context("could not start a master")?);
        let started = Instant::now();
        while self.get::<MasterLine>("/v1/master").is_err() {
            if started.elapsed() > CONNECT_MAX {
                bail!("the master does not answer");
            }
            interruption.sleep(LOOK_EVERY)?;
        }
        Ok(())
    }

    /// Kills it as a power cut would, and starts it again.
    pub(super) fn restart(&mut self, interruption: &Interruption) -> Result<()> {
        self.kill();
        self.start(interruption)
    }

    fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    pub(super) fn socket(&self) -> &Path {
        &self.socket
    }

    pub(super) fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T> {
        Ok(client::get(&self.socket, path)?)
    }

    /// Waits until every node is in the list; how long that took, in milliseconds.
    pub(super) fn wait_for(&self, nodes: usize, since: Instant, interruption: &Interruption) -> Result<u64> {
        loop {
            let about: MasterLine = self.get("/v1/master")?;
            if about.agents >= nodes {
                let list: Vec<NodeRank> = self.get("/v1/nodes")?;
                if list.iter().filter(|node| node.provisionable).count() >= nodes {
                    return Ok(since.elapsed().as_millis() as u64);
                }
            }
            if since.elapsed() > CONNECT_MAX {
                bail!("only {} of {nodes} agents connected", about.agents);
            }
            interruption.sleep(LOOK_EVERY)?;
        }
    }

    /// What the master uses while something happens.
    pub(super) fn over(&self, happens: impl FnOnce()) -> Result<Used> {
        let (started, ticks, bytes) = (Instant::now(), self.ticks()?, loopback_bytes());
        happens();
        Ok(Used {
            seconds: started.elapsed().as_secs_f64(),
            ticks: self.ticks()? - ticks,
            memory_kib: self.memory_kib()?,
            loopback_bytes: loopback_bytes() - bytes,
        })
    }

    fn proc(&self, file: &str) -> Result<String> {
        let pid = self.child.as_ref().map_or(0, Child::id);
        std::fs::read_to_string(format!("/proc/{pid}/{file}")).context("the master has ended")
    }

    /// Processor time so far. The program's name, in parentheses, may have spaces in it.
    fn ticks(&self) -> Result<u64> {
        let stat = self.proc("stat")?;
        let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
        let number = |at: usize| fields.get(at).and_then(|field| field.parse::<u64>().ok());
        number(11).zip(number(12)).map(|(user, system)| user + system).context("no processor time")
    }

    fn memory_kib(&self) -> Result<u64> {
        let status = self.proc("status")?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        line.and_then(|line| line.split_whitespace().next()?.parse().ok()).context("no memory")
    }
}

impl Drop for Master {
    fn drop(&mut self) {
        self.kill();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// Everything that was sent over the loopback.
fn loopback_bytes() -> u64 {
    let table = std::fs::read_to_string("/proc/net/dev").unwrap_or_default();
    let line = table.lines().find_map(|line| line.trim().strip_prefix("lo:"));
    line.and_then(|line| line.split_whitespace().nth(8)?.parse().ok()).unwrap_or(0)
}
