//! `leeway agent`: the daemon that sees every GPU task of every container.

use crate::docker::client;
use crate::docker::endpoint::Endpoint;
use crate::docker::globals::Globals;
use crate::failure::Failure;
use anyhow::Result;
use node::config::FILE;
use node::{Config, Connect, Failed, Layer};
use std::error::Error as _;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use web::NotOpened;
use wire::token::Invitation;

/// Exit code: another agent has the socket.
const ALREADY_RUNNING: u8 = 3;
/// Exit code: not in the host's pid namespace.
const WRONG_NAMESPACE: u8 = 4;

/// Run the agent, which sees every GPU task of every container
#[derive(clap::Args)]
pub struct Agent {
    #[command(flatten)]
    places: Places,
    /// Say whether the configuration is right, and exit
    #[arg(long)]
    check_config: bool,
    /// Join a cluster first: TOKEN@HOST:PORT, as `leeway cluster init` prints it
    #[arg(long, value_name = "TOKEN@HOST:PORT", env = "LEEWAY_JOIN", hide_env_values = true)]
    join: Option<Invitation>,
}

/// Where an agent keeps what it keeps; `doctor` takes the same.
#[derive(clap::Args, Clone)]
pub struct Places {
    /// The configuration; /etc/leeway/leeway.toml if it is there
    #[arg(long = "config", value_name = "FILE", env = "LEEWAY_CONFIG")]
    config_file: Option<PathBuf>,
    /// The folder of libnvidia-ml.so.1; otherwise the loader finds it
    #[arg(long, value_name = "DIR", env = "LEEWAY_DRIVER")]
    driver: Option<PathBuf>,
    /// The socket of the API
    #[arg(long, value_name = "FILE", env = "LEEWAY_SOCKET")]
    socket: Option<PathBuf>,
    /// Serve the page and the API on TCP, too: loopback, or elsewhere with a token (docs/seeing.md)
    #[arg(long, value_name = "ADDRESS", env = "LEEWAY_HTTP")]
    http: Option<SocketAddr>,
    /// For what must not outlive a restart of the machine: the socket, and what is held
    #[arg(long, value_name = "DIR", env = "LEEWAY_RUN_DIR")]
    run_dir: Option<PathBuf>,
    /// For what must: the ledger, deadlines that were set
    #[arg(long, value_name = "DIR", env = "LEEWAY_STATE_DIR")]
    state_dir: Option<PathBuf>,
    /// The task table in shared memory
    #[arg(long, value_name = "FILE", env = "LEEWAY_TABLE")]
    table: Option<PathBuf>,
    /// How GPUs are shared: none, fifo, earliest-deadline, least-slack
    #[arg(long, value_name = "POLICY", env = "LEEWAY_POLICY")]
    policy: Option<String>,
    /// Which containers may be touched: labelled, all
    #[arg(long, value_name = "WHICH", env = "LEEWAY_MANAGE")]
    manage: Option<String>,
    /// Hold containers by Docker's own pause, which `docker ps` shows: true, false
    #[arg(long, value_name = "BOOL", env = "LEEWAY_VISIBLE", num_args = 0..=1, default_missing_value = "true")]
    visible: Option<bool>,
    /// The node's name
    #[arg(long, value_name = "NAME", env = "LEEWAY_NODE")]
    node: Option<String>,
    /// Milliseconds between two looks at the GPUs
    #[arg(long, value_name = "MS", env = "LEEWAY_POLL_MS")]
    poll_ms: Option<u64>,
    /// Whether to see launches by probes: auto, off
    #[arg(long, value_name = "WHETHER", env = "LEEWAY_PROBES")]
    probes: Option<String>,
}

impl Places {
    /// Flags and environment over the file over the defaults.
    pub(crate) fn config(&self) -> Result<Config, Failure> {
        let file = self.config_file.clone().unwrap_or_else(|| PathBuf::from(FILE));
        let given = self.clone();
        let flags = Layer {
            driver: given.driver,
            socket: given.socket,
            http: given.http,
            run_dir: given.run_dir,
            state_dir: given.state_dir,
            table: given.table,
            policy: given.policy,
            manage: given.manage,
            visible: given.visible,
            node: given.node,
            poll_ms: given.poll_ms,
            probes: given.probes,
            ..Layer::default()
        };
        let config = Layer::read(&file, self.config_file.is_some()).and_then(|file| flags.over(file));
        config.map_err(|wrong| {
            let cause = wrong.source().map_or_else(String::new, |cause| format!(": {cause}"));
            Failure::input(format!("{wrong}{cause}")).help("docs/agent.md lists every key and flag")
        })
    }
}

impl Agent {
    pub(crate) fn run(self, globals: &Globals) -> Result<()> {
        let config = self.places.config()?;
        if self.check_config {
            println!("the configuration is right");
            return Ok(());
        }
        if let Some(invitation) = &self.join {
            join(&config, invitation, globals)?;
        }
        let places = self.places;
        let reread = Arc::new(move || places.config().map_err(|wrong| wrong.to_string()));
        let driver = config.driver.as_deref();
        let guard = super::guard::spawner(globals, &config.run_dir, driver);
        let helper = super::swapper::spawner(driver, &config.run_dir);
        node::run(&config, connector(globals), reread, guard, helper).map_err(|failed| failure(&failed))
    }
}

fn join(config: &Config, invitation: &Invitation, globals: &Globals) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let connect = connector(globals);
    let joined = runtime.block_on(node::link::join(&config.state_dir, &config.node, invitation, &connect));
    let said = joined.map_err(|why| Failure::new(format!("could not join the cluster: {why}")))?;
    eprintln!("notice: {said}");
    Ok(())
}

/// How the agent reaches Docker: by the rules of the Docker CLI, looked at anew for every connection.
pub(crate) fn connector(globals: &Globals) -> Connect {
    let endpoint = Endpoint::find(globals).map_err(|error| format!("{error:#}"));
    Arc::new(move || {
        let endpoint = endpoint.clone()?;
        endpoint.check().map_err(|error| error.to_string())?;
        client::open(&endpoint).map_err(|error| error.to_string())
    })
}

fn failure(failed: &Failed) -> anyhow::Error {
    let cause = failed.source().map_or_else(String::new, |cause| format!(": {cause}"));
    let words = Failure::new(format!("{failed}{cause}"));
    match failed {
        Failed::NotOpened(NotOpened::Listen(..)) => words
            .help("the agent needs root; or name folders of your own with --run-dir, --state-dir, --table"),
        Failed::NotOpened(NotOpened::Taken(_)) => words
            .help("stop it, or give this one places of its own: --run-dir, --state-dir, --table")
            .exit(ALREADY_RUNNING),
        Failed::Namespace => {
            words.help("run the agent on the host, or in a container with --pid=host").exit(WRONG_NAMESPACE)
        }
        Failed::NotOpened(NotOpened::Token(..)) | Failed::Threads(_) => words,
    }
    .into()
}
