//! `leeway master`: the daemon that knows which node can take another container.

use super::cluster::{Record, address, failure as record_failure, own_address};
use crate::docker::globals::Globals;
use crate::failure::Failure;
use anyhow::Result;
use cluster::Failed;
use sched::placement::Strategy;
use std::error::Error as _;
use std::net::SocketAddr;
use std::path::PathBuf;
use wire::link::PORT;

/// Exit code: another master has the socket.
const ALREADY_RUNNING: u8 = 3;

/// Run a master, which knows which node can take another container
#[derive(clap::Args)]
pub struct Master {
    #[command(flatten)]
    record: Record,
    /// Where to listen for agents
    #[arg(long, value_name = "ADDRESS", env = "LEEWAY_MASTER_LISTEN", default_value_t = SocketAddr::from(([0, 0, 0, 0], PORT)))]
    listen: SocketAddr,
    /// Where agents reach it; swarm's own address of this machine, and the port of --listen, if not given
    #[arg(long, value_name = "HOST:PORT", env = "LEEWAY_MASTER_ADVERTISE", value_parser = address)]
    advertise: Option<String>,
    #[command(flatten)]
    socket: MasterSocket,
    /// How a node is chosen where nobody says otherwise: spread, memory, best-fit
    #[arg(long, value_name = "STRATEGY", default_value = "spread", value_parser = Strategy::ALL.map(Strategy::name))]
    strategy: String,
}

/// Where the master answers.
#[derive(clap::Args, Debug, Clone)]
pub struct MasterSocket {
    /// The master's socket
    #[arg(id = "master_socket", long = "socket", value_name = "FILE", env = "LEEWAY_MASTER_SOCKET", default_value = wire::cluster::SOCKET)]
    pub(crate) path: PathBuf,
}

impl Master {
    pub(crate) fn run(self, globals: &Globals) -> Result<()> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let docker = runtime.block_on(self.record.docker(globals))?;
        let advertise = self.advertise.unwrap_or_else(|| {
            let host = runtime.block_on(own_address(docker.as_ref()));
            format!("{host}:{}", self.listen.port())
        });
        // Its connections belong to a runtime that ends here; the master opens its own.
        let docker = match docker {
            None => None,
            Some(_) => Some(super::agent::connector(globals)().map_err(Failure::new)?),
        };
        drop(runtime);
        let config = cluster::Config {
            listen: self.listen,
            advertise,
            socket: self.socket.path,
            docker,
            state_dir: self.record.state_dir,
            strategy: Strategy::named(&self.strategy).unwrap_or_default(),
        };
        cluster::run(config).map_err(|failed| failure(&failed).into())
    }
}

fn failure(failed: &Failed) -> Failure {
    if let Failed::Record(no) = failed {
        return record_failure(no);
    }
    let cause = failed.source().map_or_else(String::new, |cause| format!(": {cause}"));
    let words = Failure::new(format!("{failed}{cause}"));
    match failed {
        Failed::Listen(..) => words.help("name others with --listen and --socket"),
        Failed::Running(_) => {
            words.help("stop it, or give this one a socket of its own: --socket").exit(ALREADY_RUNNING)
        }
        Failed::NoSwarm(_) => {
            words.help("`docker swarm init` makes this machine one; without an engine: --engine none")
        }
        _ => words,
    }
}
