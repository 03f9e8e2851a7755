//! The agent from start to stop: opens its places, starts its threads, waits for a signal, and puts everything away.

use crate::actuator::{Actuator, LaunchGate, Swapper, freezer};
use crate::config::Config;
use crate::coverage::Probed;
use crate::facts::exits::Exits;
use crate::facts::launches::Launches;
use crate::facts::{FACTS_QUEUED_MAX, Teller, Told, containers, gpu, overrides};
use crate::feed::Feed;
use crate::guard::{self, Guard};
use crate::journal::Journal;
use crate::ledger::{Ledger, Writer};
use crate::metrics::{Metrics, Notes};
use crate::owner::Owner;
use crate::registry::Registry;
use crate::server::{self, Desk, Door};
use crate::table::Table;
use crate::{clock, link, notify, swap, webhook};
use sched::{Scheduler, Settings};
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::io;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::sync_channel;
use std::time::{Duration, Instant};
use tokio::net::{TcpListener, UnixListener, UnixStream};
use tokio::signal::unix::{SignalKind, signal};

/// How to reach Docker; the caller knows the rules. It is asked again for every new connection.
pub type Connect = Arc<dyn Fn() -> Result<bollard::Docker, String> + Send + Sync>;
/// Reads the configuration anew.
pub type Reread = Arc<dyn Fn() -> Result<Config, String> + Send + Sync>;

/// Who may use the socket: its owner and its group.
const SOCKET_MODE: u32 = 0o660;
/// The group that may, where there is one.
const SOCKET_GROUP: &str = "leeway";
/// Shorter ones could be guessed.
const TOKEN_BYTES_MIN: usize = 16;
/// How many unknown containers may wait for Docker to be asked.
const ASKS_QUEUED_MAX: usize = 256;

/// A watcher that waits for a busy processor sees everything late; it uses a hundredth of one, and so comes first where it may.
const NICENESS: i32 = -10;

/// How long an agent that was killed keeps its socket: it has probes to take away first.
const DYING_MAX: Duration = Duration::from_secs(2);

/// Why an agent could not start, or run on.
#[derive(Debug, thiserror::Error)]
pub enum Failed {
    /// The socket cannot be had.
    #[error("could not listen at {0}")]
    Socket(String, #[source] io::Error),
    /// The token cannot be had.
    #[error("could not use the token in {0}: {1}")]
    Token(String, String),
    /// Another agent has the socket.
    #[error("an agent already answers at {0}")]
    Running(String),
    /// The process ids that NVML gives mean nothing here.
    #[error("the agent is not in the host's pid namespace, and NVML's process ids mean nothing here")]
    Namespace,
    /// A thread or the runtime could not be started.
    #[error("could not start the agent's threads")]
    Threads(#[from] io::Error),
}

/// Runs the agent until SIGTERM or SIGINT.
pub fn run(
    config: &Config,
    connect: Connect,
    reread: Reread,
    guard: guard::Spawn,
    helper: swap::Spawn,
) -> Result<(), Failed> {
    if config.driver.is_none() && !in_host_pid_namespace() {
        return Err(Failed::Namespace);
    }
    // Threads inherit it. Who is not root does without.
    let _ = rustix::process::setpriority_process(None, NICENESS);
    allow_many_files();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(serve(config, connect, reread, guard, helper))
}

/// Each process on a GPU is a file to us: with a shell's thousand, the exits of many would not be seen.
fn allow_many_files() {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    let most = rustix::process::Rlimit { current: limit.maximum, ..limit };
    let _ = rustix::process::setrlimit(rustix::process::Resource::Nofile, most);
}

async fn serve(
    config: &Config,
    connect: Connect,
    reread: Reread,
    guard: guard::Spawn,
    helper: swap::Spawn,
) -> Result<(), Failed> {
    let listener = listen(&config.socket).await?;
    let left = Arc::clone(&connect);
    let run_dir = config.run_dir.clone();
    // Its own thread, for it may ask Docker.
    let _ = tokio::task::spawn_blocking(move || let_go_what_was_left(&run_dir, &left)).await;
    let (http, door) = open_tcp(config).await?;
    let (sender, news) = sync_channel(FACTS_QUEUED_MAX);
    let teller = Teller(sender);
    let (asks, asked) = tokio::sync::mpsc::channel(ASKS_QUEUED_MAX);
    let (feed, metrics) = (Arc::new(Feed::new()), Arc::new(Metrics::new(&config.node)));
    let (ledger, writer) = open_ledger(config)?;
    // The owner is made on its own thread, and never leaves it.
    let exits = Exits::start(teller.clone())?;
    let launches = probes(config, &teller, &exits);
    let poll = Arc::new(gpu::Poll::default());
    let (owned, told, kept, paced) = (config.clone(), Arc::clone(&feed), ledger.clone(), Arc::clone(&poll));
    let gate = launches.clone().map(|launches| Box::new(launches) as Box<dyn LaunchGate>);
    let mut actuator = Actuator::start(&config.run_dir, &connect, &teller, config.visible, gate)?;
    let cannot_hold = freezer::works_here().err();
    if cannot_hold.is_none() {
        actuator.swapper = Some(Swapper::start(helper, teller.clone(), exits.clone())?);
    }
    let tables = launches.as_ref().map(Launches::tables_for_the_guard).transpose()?.unwrap_or_default();
    let guard = if cannot_hold.is_none() { Some(Guard::start(guard, teller.clone(), tables)?) } else { None };
    let (outlook, notes) = (link::begin(config, &teller, &connect), Notes::new(Arc::clone(&metrics)));
    let owner = move || {
        // Should the owner fail beyond what it catches, the agent must die, so that its guard lets go.
        let abort = AbortOnUnwind;
        let mut owner = new_owner(&owned, told, kept, notes, asks, launches, actuator);
        (owner.guard, owner.cannot_hold, owner.poll, owner.outlook) = (guard, cannot_hold, paced, outlook);
        owner.set_policy(&owned.policy);
        owner.run(news);
        std::mem::forget(abort);
    };
    let owner = std::thread::Builder::new().name("owner".to_owned()).spawn(owner)?;
    poll.period_us.store(config.poll.as_micros() as u64, Ordering::Relaxed);
    let looking = gpu::start(config.driver.clone(), teller.clone(), exits, Arc::clone(&poll))?;
    tokio::spawn(containers::watch(connect, teller.clone(), asked));
    tokio::spawn(overrides::watch(config.state_dir.clone(), teller.clone()));
    if let Some(webhook) = config.webhook.clone() {
        webhook::start(webhook, &feed, Arc::clone(&metrics))?;
    }
    let desk = Desk { teller: teller.clone(), ledger: ledger.clone(), feed, metrics };
    let routes = server::routes(desk.clone(), true, None);
    let http_routes = server::routes(desk, config.http_actions, Some(door));
    tokio::spawn(async move { axum::serve(listener, routes).await });
    if let Some(http) = http {
        tokio::spawn(async move { axum::serve(http, http_routes).await });
    }
    notify::tell("READY=1");
    eprintln!("notice: the agent of {} runs; ask it at {}", config.node, config.socket.display());
    wait_for_the_end(config, &reread, &teller, &poll, &ledger).await?;
    notify::tell("STOPPING=1");
    poll.stop.store(true, Ordering::Relaxed);
    teller.tell_soon(Told::Stop).await;
    let _ = owner.join();
    ledger.stop(writer);
    let _ = std::fs::remove_file(&config.socket);
    // The poller may be in the middle of a wait of seconds, or inside a driver that hangs: it is left to the end of the process.
    drop(looking);
    eprintln!("notice: the agent of {} has stopped", config.node);
    Ok(())
}

/// Waits for SIGTERM or SIGINT; SIGHUP reads the configuration anew.
async fn wait_for_the_end(
    config: &Config,
    reread: &Reread,
    teller: &Teller,
    poll: &gpu::Poll,
    ledger: &Ledger,
) -> Result<(), Failed> {
    let (mut terminate, mut interrupt, mut hangup) =
        (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?, signal(SignalKind::hangup())?);
    loop {
        tokio::select! {
            _ = terminate.recv() => return Ok(()),
            _ = interrupt.recv() => return Ok(()),
            _ = hangup.recv() => match reread() {
                Ok(new) => {
                    poll.period_us.store(new.poll.as_micros() as u64, Ordering::Relaxed);
                    ledger.retain(new.ledger);
                    say_what_needs_a_restart(config, &new);
                    teller.tell_soon(Told::Config(Box::new(new))).await;
                    eprintln!("notice: the configuration was read again");
                }
                Err(wrong) => eprintln!("warning: the configuration stays as it was: {wrong}"),
            },
        }
    }
}

fn say_what_needs_a_restart(old: &Config, new: &Config) {
    let places = |config: &Config| {
        let Config { driver, socket, http, http_token_file, http_actions, webhook, .. } = config.clone();
        let Config { state_dir, table, node, .. } = config.clone();
        (driver, socket, http, http_token_file, http_actions, webhook, state_dir, table, node)
    };
    if places(old) != places(new) {
        eprintln!(
            "warning: a new driver, socket, http, webhook, state_dir, table or node counts after a restart only"
        );
    }
}

/// The address to answer at over TCP, and who may come in there.
async fn open_tcp(config: &Config) -> Result<(Option<TcpListener>, Door), Failed> {
    let Some(address) = config.http else { return Ok((None, Door::default())) };
    let token = config.http_token_file.as_deref().map(read_token).transpose()?;
    let failed = |error| Failed::Socket(address.to_string(), error);
    Ok((Some(TcpListener::bind(address).await.map_err(failed)?), Door { token }))
}

/// The token in a file that only those who may know it can read.
fn read_token(file: &Path) -> Result<String, Failed> {
    let wrong = |why: String| Failed::Token(file.display().to_string(), why);
    let about = std::fs::metadata(file).map_err(|error| wrong(error.to_string()))?;
    if about.permissions().mode() & 0o007 != 0 {
        return Err(wrong("anybody may read it; `chmod 600` it".to_owned()));
    }
    let text = std::fs::read_to_string(file).map_err(|error| wrong(error.to_string()))?;
    let token = text.trim().to_owned();
    if token.len() < TOKEN_BYTES_MIN || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(wrong(format!("a token has at least {TOKEN_BYTES_MIN} visible ASCII characters")));
    }
    Ok(token)
}

fn open_ledger(config: &Config) -> Result<(Ledger, Writer), Failed> {
    // A folder that cannot be made is the ledger's to report: it then keeps to memory.
    let _ = std::fs::create_dir_all(&config.state_dir);
    Ok(Ledger::start(config.state_dir.join("ledger.db"), config.ledger)?)
}

/// The probes, or one line that says why there are none.
fn probes(config: &Config, teller: &Teller, exits: &Exits) -> Option<Launches> {
    if !config.probes {
        return None;
    }
    let started = Launches::start(config.driver.clone(), config.in_flight_us, &config.run_dir, teller, exits);
    started.inspect_err(|why| eprintln!("notice: tasks are seen by polling: {why}")).ok()
}

fn settings(config: &Config) -> Settings {
    crate::settings::with_burst_gap(sched::Span::from_micros(config.burst_gap_us.cast_signed()))
}

pub(crate) fn new_owner(
    config: &Config,
    feed: Arc<Feed>,
    ledger: Ledger,
    notes: Notes,
    asks: tokio::sync::mpsc::Sender<String>,
    launches: Option<Launches>,
    actuator: Actuator,
) -> Owner {
    let table = Table::open(&config.table);
    if let Err(error) = &table {
        let path = config.table.display();
        eprintln!("warning: the task table {path} cannot be written, and the agent goes on without: {error}");
    }
    Owner {
        node: config.node.clone(),
        policy: "none".to_owned(),
        configured: config.policy.clone(),
        since_us: clock::wall_now_us(),
        scheduler: Scheduler::new(settings(config), Box::new(sched::policy::None)),
        registry: Registry::new(config.manage_all),
        gpus: BTreeMap::new(),
        nvml: None,
        docker: false,
        starts_us: HashMap::new(),
        latest: BTreeMap::new(),
        feed,
        ledger,
        notes,
        table: table.ok(),
        probed: Probed::new(launches),
        actuator,
        guard: None,
        cannot_hold: None,
        facts: VecDeque::new(),
        journal: open_journal(config),
        failures: 0,
        asks,
        poll: Arc::default(),
        outlook: None,
    }
}

fn open_journal(config: &Config) -> Option<Journal> {
    let folder = config.state_dir.join("journal");
    // 2026-11-15T09:00:00.5Z, without what file names are better without.
    let name = clock::rfc3339(clock::wall_now_us());
    let name: String = name.chars().filter(char::is_ascii_alphanumeric).collect();
    let opened = Journal::start(&folder, &name, settings(config).burst_gap);
    opened
        .inspect_err(|error| {
            let folder = folder.display();
            eprintln!(
                "warning: the journal in {folder} cannot be written, and the agent goes on without: {error}"
            );
        })
        .ok()
}

/// What an earlier agent held and did not let go, because its guard died with it.
fn let_go_what_was_left(run_dir: &Path, connect: &Connect) {
    let left = guard::release::everything(run_dir, connect, None);
    for name in left.released {
        eprintln!("notice: container {name} was left held by an earlier agent, and is let go");
    }
    for (name, why) in &left.failed {
        eprintln!(
            "warning: container {name} was left held by an earlier agent, and could not be let go: {why}"
        );
    }
    if left.failed.is_empty() {
        let _ = guard::release::forget(run_dir);
    }
}

/// Ends the process when it is dropped, which happens when a panic passes by.
struct AbortOnUnwind;

impl Drop for AbortOnUnwind {
    fn drop(&mut self) {
        std::process::abort();
    }
}

/// Binds the socket. One that a dead agent left behind is replaced; a live agent's is not.
async fn listen(path: &Path) -> Result<UnixListener, Failed> {
    let failed = |error| Failed::Socket(path.display().to_string(), error);
    let asked = Instant::now();
    while UnixStream::connect(path).await.is_ok() {
        if asked.elapsed() > DYING_MAX {
            return Err(Failed::Running(path.display().to_string()));
        }
        tokio::time::sleep(DYING_MAX / 20).await;
    }
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder).map_err(failed)?;
    }
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed(error)),
        _ => {}
    }
    let listener = UnixListener::bind(path).map_err(failed)?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(SOCKET_MODE)).map_err(failed)?;
    // Without the group only root may ask, which is no failure.
    if let Some(group) = group_id(&std::fs::read_to_string("/etc/group").unwrap_or_default()) {
        let _ = chown(path, None, Some(group));
    }
    Ok(listener)
}

/// The number of the group `leeway` in `/etc/group`.
fn group_id(groups: &str) -> Option<u32> {
    let line = groups.lines().find(|line| line.split(':').next() == Some(SOCKET_GROUP))?;
    line.split(':').nth(2)?.parse().ok()
}

/// Whether this is the first pid namespace of the kernel, whose inode is fixed.
pub(crate) fn in_host_pid_namespace() -> bool {
    const FIRST: &str = "pid:[4026531836]";
    std::fs::read_link("/proc/self/ns/pid").is_ok_and(|link| link == Path::new(FIRST))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_group_is_found_by_its_whole_name() {
        let groups = "root:x:0:\nleeway-dev:x:7:\nleeway:x:998:ann,bob\n";
        assert_eq!(group_id(groups), Some(998));
        assert_eq!(group_id("root:x:0:\n"), None);
    }
}
