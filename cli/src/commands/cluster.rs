//! `leeway cluster`: the authority, the token that lets nodes join, and who may no longer report.

use crate::docker::client;
use crate::docker::endpoint::Endpoint;
use crate::docker::globals::Globals;
use crate::failure::Failure;
use anyhow::Result;
use bollard::Docker;
use cluster::certificates::{self, Authority};
use cluster::store::{NoRecord, Store};
use std::path::PathBuf;
use std::time::Duration;
use wire::kept::Kept;
use wire::link::PORT;
use wire::token::Token;

/// How long a token lets nodes join when nobody says otherwise.
const VALID_FOR: &str = "24h";

/// Make a cluster of a swarm, let nodes join it, and remove them
#[derive(clap::Args)]
pub struct Cluster {
    #[command(subcommand)]
    what: What,
}

#[derive(clap::Subcommand)]
enum What {
    /// Make the cluster's authority, and say how to go on
    Init(Init),
    /// Show the token that lets nodes join, or make a new one
    Token(ShowToken),
    /// Remove a node: its certificate is worth nothing from now on
    Remove(Remove),
}

/// Where the cluster's record is.
#[derive(clap::Args, Clone)]
pub(crate) struct Record {
    /// Which engine runs the containers: swarm, or none (places are found, and others create the containers)
    #[arg(long, value_name = "ENGINE", env = "LEEWAY_ENGINE", default_value = "swarm", value_parser = ["swarm", "none"])]
    pub(crate) engine: String,
    /// Where the record is kept without an engine
    #[arg(long, value_name = "DIR", env = "LEEWAY_STATE_DIR", default_value = "/var/lib/leeway")]
    pub(crate) state_dir: PathBuf,
}

#[derive(clap::Args)]
struct Init {
    #[command(flatten)]
    record: Record,
    /// Where agents reach the master
    #[arg(long, value_name = "HOST:PORT", value_parser = address)]
    advertise: Option<String>,
    /// How long the token lets nodes join
    #[arg(long, value_name = "D", default_value = VALID_FOR, value_parser = length)]
    valid_for: Duration,
}

#[derive(clap::Args)]
struct ShowToken {
    #[command(flatten)]
    record: Record,
    /// Make a new one; the one before lets nobody join any more
    #[arg(long)]
    rotate: bool,
    /// How long a new one lets nodes join
    #[arg(long, value_name = "D", default_value = VALID_FOR, value_parser = length, requires = "rotate")]
    valid_for: Duration,
}

#[derive(clap::Args)]
struct Remove {
    /// The node's name
    node: String,
    #[command(flatten)]
    record: Record,
}

/// A host and a port.
pub(crate) fn address(text: &str) -> Result<String, String> {
    let right = text
        .rsplit_once(':')
        .is_some_and(|(host, port)| !host.is_empty() && port.parse::<u16>().is_ok_and(|port| port > 0));
    right.then(|| text.to_owned()).ok_or_else(|| "accepted is HOST:PORT".to_owned())
}

fn length(text: &str) -> Result<Duration, String> {
    wire::duration::parse(text).map_err(|wrong| wrong.to_string())
}

impl Cluster {
    pub(crate) fn run(self, globals: &Globals) -> Result<()> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(async {
            match self.what {
                What::Init(init) => init.run(globals).await,
                What::Token(token) => token.run(globals).await,
                What::Remove(remove) => remove.run(globals).await,
            }
        })
    }
}

impl Init {
    async fn run(self, globals: &Globals) -> Result<()> {
        let docker = self.record.docker(globals).await?;
        let advertise = match self.advertise {
            Some(address) => address,
            None => with_port(&own_address(docker.as_ref()).await, PORT),
        };
        let (certificate, key) = Authority::create()?;
        let kept = Kept {
            certificate,
            key,
            secret: certificates::secret()?,
            secret_until_us: until(self.valid_for),
            ..Kept::default()
        };
        self.record.store(docker).create(&kept).await.map_err(|no| failure(&no))?;
        let engine = if self.record.engine == "none" { " --engine none" } else { "" };
        let token = token(&kept)?;
        println!("The cluster has an authority; nothing listens yet. Go on with, on this machine and on");
        println!("any other of swarm's managers:\n\n    leeway master{engine}\n");
        println!("and on every node with GPUs, within {}:\n", told(self.valid_for));
        println!("    leeway agent --join {token}@{advertise}\n");
        Ok(())
    }
}

impl ShowToken {
    async fn run(self, globals: &Globals) -> Result<()> {
        let store = self.record.open(globals).await?;
        let kept = if self.rotate {
            let secret = certificates::secret()?;
            let until_us = until(self.valid_for);
            let changed = store.change(|kept| {
                kept.secret.clone_from(&secret);
                kept.secret_until_us = until_us;
                Ok(())
            });
            changed.await.map_err(|no| failure(&no))?.1
        } else {
            store.read().await.map_err(|no| failure(&no))?
        };
        if !self.rotate && kept.secret_until_us <= cluster::wall_now_us() {
            return Err(Failure::new("the token has expired")
                .help("`leeway cluster token --rotate` makes a new one")
                .into());
        }
        println!("{}", token(&kept)?);
        Ok(())
    }
}

impl Remove {
    async fn run(self, globals: &Globals) -> Result<()> {
        let store = self.record.open(globals).await?;
        let name = self.node.clone();
        let removed = store.change(|kept| {
            kept.remove(&name).then_some(()).ok_or_else(|| {
                let known: Vec<&str> = kept.nodes.keys().map(String::as_str).collect();
                let known = if known.is_empty() { "none" } else { &known.join(", ") };
                format!("there is no node '{name}' in the cluster: accepted are {known}")
            })
        });
        removed.await.map_err(|no| failure(&no))?;
        println!("{} is removed: its certificate is worth nothing within a second", self.node);
        Ok(())
    }
}

impl Record {
    /// Docker, if the engine is swarm.
    pub(crate) async fn docker(&self, globals: &Globals) -> Result<Option<Docker>> {
        if self.engine == "none" {
            return Ok(None);
        }
        let endpoint = Endpoint::find(globals)?;
        endpoint.check()?;
        Ok(Some(client::open(&endpoint)?.negotiate_version().await?))
    }

    fn store(&self, docker: Option<Docker>) -> Store {
        docker.map_or_else(|| Store::Folder(self.state_dir.clone()), Store::Swarm)
    }

    async fn open(&self, globals: &Globals) -> Result<Store> {
        let docker = self.docker(globals).await?;
        Ok(self.store(docker))
    }
}

/// What others call this machine: what swarm does, else its name.
pub(crate) async fn own_address(docker: Option<&Docker>) -> String {
    let told = match docker {
        Some(docker) => docker.info().await.ok().and_then(|info| info.swarm?.node_addr),
        None => None,
    };
    let name = || std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default().trim().to_owned();
    told.filter(|address| !address.is_empty()).unwrap_or_else(name)
}

/// A host and a port as one word, which for IPv6 needs brackets.
pub(crate) fn with_port(host: &str, port: u16) -> String {
    if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
}

fn token(kept: &Kept) -> Result<Token> {
    let authority = Authority::load(&kept.certificate, &kept.key)?;
    Ok(Token { authority: authority.digest(), secret: kept.secret.clone() })
}

fn until(valid_for: Duration) -> i64 {
    cluster::wall_now_us() + valid_for.as_micros() as i64
}

fn told(valid_for: Duration) -> String {
    sched::Span::from_micros(valid_for.as_micros() as i64).to_string()
}

/// Why the record could not be had, and what to try.
pub(crate) fn failure(no: &NoRecord) -> Failure {
    let cause = std::error::Error::source(no).map_or_else(String::new, |cause| format!(": {cause}"));
    let failure = Failure::new(format!("{no}{cause}"));
    match no {
        NoRecord::Busy => failure.help("nothing was changed; say it again"),
        NoRecord::Exists => failure.help("`leeway cluster token` lets more nodes join"),
        NoRecord::Swarm(_) => {
            failure.help("this must run on a manager of a swarm; `docker swarm init` makes one")
        }
        _ => failure,
    }
}
