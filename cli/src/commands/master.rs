//! `leeway master`: the daemon that knows which node can take another container.

use super::cluster::{Record, address, failure as record_failure, own_address, with_port};
use crate::docker::globals::Globals;
use crate::failure::Failure;
use anyhow::Result;
use cluster::Failed;
use sched::placement::Strategy;
use std::error::Error as _;
use std::net::SocketAddr;
use std::path::PathBuf;
use web::NotOpened;
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
    /// Answer on this address, too, with a page that shows the cluster; on loopback, or with a token
    #[arg(long, value_name = "ADDRESS", env = "LEEWAY_MASTER_HTTP")]
    http: Option<SocketAddr>,
    /// The file with the token that whoever asks there must have
    #[arg(long, value_name = "FILE", env = "LEEWAY_MASTER_HTTP_TOKEN_FILE")]
    http_token_file: Option<PathBuf>,
    /// How a node is chosen where nobody says otherwise: spread, memory, best-fit
    #[arg(long, value_name = "STRATEGY", default_value = "spread", value_parser = Strategy::ALL.map(Strategy::name))]
    strategy: String,
}

/// Where another socket is named.
const SOCKET: &str = "LEEWAY_MASTER_SOCKET";

/// The master's socket where no option names one.
pub(crate) fn usual_socket() -> PathBuf {
    std::env::var_os(SOCKET).map_or_else(|| PathBuf::from(wire::cluster::SOCKET), PathBuf::from)
}

/// Where the master answers.
#[derive(clap::Args, Debug, Clone)]
pub struct MasterSocket {
    /// The master's socket
    #[arg(id = "master_socket", long = "socket", value_name = "FILE", env = SOCKET, default_value = wire::cluster::SOCKET)]
    pub(crate) path: PathBuf,
}

impl Master {
    pub(crate) fn run(self, globals: &Globals) -> Result<()> {
        let open = |address: &SocketAddr| web::is_open_to_all(*address, self.http_token_file.as_deref());
        if let Some(address) = self.http.filter(open) {
            let wrong = format!("--http {address} is not on loopback: anybody who reaches it could ask it");
            return Err(Failure::new(wrong).help("--http-token-file asks for a token").exit(2).into());
        }
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let docker = runtime.block_on(self.record.docker(globals))?;
        let advertise = self.advertise.unwrap_or_else(|| {
            let host = runtime.block_on(own_address(docker.as_ref()));
            with_port(&host, self.listen.port())
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
            http: self.http,
            http_token_file: self.http_token_file,
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
        Failed::NotOpened(NotOpened::Listen(..)) => {
            words.help("name others with --listen, --socket and --http")
        }
        Failed::NotOpened(NotOpened::Taken(_)) => {
            words.help("stop it, or give this one a socket of its own: --socket").exit(ALREADY_RUNNING)
        }
        Failed::NoSwarm(_) => {
            words.help("`docker swarm init` makes this machine one; without an engine: --engine none")
        }
        _ => words,
    }
}
