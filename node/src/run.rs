//! The agent from start to stop: opens its places, starts its threads, waits for a signal, and puts everything away.

use crate::actuator::{Actuator, LaunchGate, Swapper, freezer};
use crate::config::Config;
use crate::coverage::Probed;
use crate::facts::exits::Exits;
use crate::facts::launches::Launches;
use crate::facts::{FACTS_QUEUED_MAX, Teller, Told, containers, gpu, overrides};
use crate::guard::{self, Guard};
use crate::journal::Journal;
use crate::ledger::{Ledger, Writer};
use crate::metrics::{Metrics, Notes};
use crate::owner::Owner;
use crate::registry::Registry;
use crate::server::{self, Desk};
use crate::table::Table;
use crate::{clock, link, notify, swap, webhook};
use sched::{Scheduler, Settings};
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::sync_channel;
use tokio::signal::unix::{SignalKind, signal};
use web::Feed;

/// How to reach Docker; the caller knows the rules. It is asked again for every new connection.
pub type Connect = Arc<dyn Fn() -> Result<bollard::Docker, String> + Send + Sync>;
/// Reads the configuration anew.
pub type Reread = Arc<dyn Fn() -> Result<Config, String> + Send + Sync>;

/// How many unknown containers may wait for Docker to be asked.
const ASKS_QUEUED_MAX: usize = 256;

/// A watcher that waits for a busy processor sees everything late; it uses a hundredth of one, and so comes first where it may.
const NICENESS: i32 = -10;

/// Why an agent could not start, or run on.
#[derive(Debug, thiserror::Error)]
pub enum Failed {
    /// Nobody can be answered.
    #[error(transparent)]
    NotOpened(#[from] web::NotOpened),
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
    let listener = web::at_socket(&config.socket).await?;
    let left = Arc::clone(&connect);
    let run_dir = config.run_dir.clone();
    // Its own thread, for it may ask Docker.
    let _ = tokio::task::spawn_blocking(move || let_go_what_was_left(&run_dir, &left)).await;
    let http = web::at_address(config.http, config.http_token_file.as_deref()).await?;
    let (sender, news) = sync_channel(FACTS_QUEUED_MAX);
    let teller = Teller(sender);
    let (asks, asked) = tokio::sync::mpsc::channel(ASKS_QUEUED_MAX);
    let (feed, metrics) = (Arc::new(Feed::default()), Arc::new(Metrics::new(&config.node)));
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
    let (outlook, notes) = (link::begin(config, &teller), Notes::new(Arc::clone(&metrics)));
    let owner = move || {
        let mut owner = new_owner(&owned, told, kept, notes, asks, launches, actuator);
        (owner.guard, owner.cannot_hold, owner.poll, owner.outlook) = (guard, cannot_hold, paced, outlook);
        owner.set_policy(&owned.policy);
        owner.run(news);
    };
    let owner = std::thread::Builder::new().name("owner".to_owned()).spawn(|| or_abort(owner))?;
    poll.period_us.store(config.poll.as_micros() as u64, Ordering::Relaxed);
    let looking = gpu::start(config.driver.clone(), teller.clone(), exits, Arc::clone(&poll))?;
    tokio::spawn(containers::watch(connect, teller.clone(), asked));
    tokio::spawn(overrides::watch(config.state_dir.clone(), teller.clone()));
    if let Some(webhook) = config.webhook.clone() {
        webhook::start(webhook, &feed, Arc::clone(&metrics))?;
    }
    let desk = Desk { teller: teller.clone(), ledger: ledger.clone(), feed, metrics };
    let routes = server::routes(desk.clone(), true, None);
    tokio::spawn(async move { axum::serve(listener, routes).await });
    if let Some((http, door)) = http {
        let routes = server::routes(desk, config.http_actions, Some(door));
        tokio::spawn(async move { axum::serve(http, routes).await });
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

/// Does what the agent cannot be without. Should that fail beyond what it catches, the agent must die, so that its guard lets go.
pub(crate) fn or_abort<T>(deed: impl FnOnce() -> T) -> T {
    let abort = AbortOnUnwind;
    let done = deed();
    std::mem::forget(abort);
    done
}

/// Ends the process when it is dropped, which happens when a panic passes by.
struct AbortOnUnwind;

impl Drop for AbortOnUnwind {
    fn drop(&mut self) {
        std::process::abort();
    }
}

/// Whether this is the first pid namespace of the kernel, whose inode is fixed.
pub(crate) fn in_host_pid_namespace() -> bool {
    const FIRST: &str = "pid:[4026531836]";
    std::fs::read_link("/proc/self/ns/pid").is_ok_and(|link| link == Path::new(FIRST))
}
