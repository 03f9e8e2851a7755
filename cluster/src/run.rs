//! A master from start to stop: opens its port and its socket, follows the engine, and waits for a signal.

use crate::certificates::{Authority, NoCertificate};
use crate::clock;
use crate::door;
use crate::engine::swarm::{Swarm, soon};
use crate::engine::{Engine, View};
use crate::master::Master;
use crate::moving::{self, Seen};
use crate::server;
use crate::store::{NoRecord, Store};
use bollard::Docker;
use sched::placement::Strategy;
use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{oneshot, watch};
use tokio::task::JoinSet;
use web::NotOpened;

/// How often the engine and the record are looked at.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// How long the record may take to be read.
const READ_MAX: Duration = Duration::from_secs(3);
/// How long agents have to hear that this master stops.
const FAREWELL_WAIT: Duration = Duration::from_millis(500);

/// How a master is to run.
pub struct Config {
    /// Where to listen for agents.
    pub listen: SocketAddr,
    /// Where agents reach us.
    pub advertise: String,
    /// The API's socket.
    pub socket: PathBuf,
    /// The page, and what can only be looked at, on TCP, too.
    pub http: Option<SocketAddr>,
    /// The file with the token that is asked for there; without one it is on loopback.
    pub http_token_file: Option<PathBuf>,
    /// Docker, if the engine is swarm; nothing: no engine.
    pub docker: Option<Docker>,
    /// Where the record is without an engine.
    pub state_dir: PathBuf,
    /// The strategy where nobody says otherwise.
    pub strategy: Strategy,
}

/// Why a master could not start.
#[derive(Debug, thiserror::Error)]
pub enum Failed {
    /// Nobody can be answered.
    #[error(transparent)]
    NotOpened(#[from] NotOpened),
    /// Docker manages no swarm.
    #[error("a master needs a swarm manager's Docker: {0}")]
    NoSwarm(String),
    /// There is no record.
    #[error(transparent)]
    Record(#[from] NoRecord),
    /// The authority is broken.
    #[error("the cluster's authority cannot be used")]
    Certificate(#[from] NoCertificate),
    /// No thread or signal can be had.
    #[error("could not start the master's threads")]
    Threads(#[from] io::Error),
}

/// Runs a master until SIGTERM or SIGINT.
pub fn run(config: Config) -> Result<(), Failed> {
    allow_many_files();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(serve(config))
}

/// Each agent is a file to us.
fn allow_many_files() {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    let most = rustix::process::Rlimit { current: limit.maximum, ..limit };
    let _ = rustix::process::setrlimit(rustix::process::Resource::Nofile, most);
}

async fn serve(config: Config) -> Result<(), Failed> {
    let (engine, store) = match config.docker {
        None => (Engine::None, Store::Folder(config.state_dir)),
        Some(docker) => {
            let swarm = Swarm::find(docker.clone()).await.map_err(Failed::NoSwarm)?;
            (Engine::Swarm(swarm), Store::Swarm(docker))
        }
    };
    let kept = store.read().await?;
    let authority = Authority::load(&kept.certificate, &kept.key)?;
    let tls = door::tls(&authority)?;
    // Last of what may fail, so that a master that cannot start leaves no socket that nobody answers at.
    let http = web::at_address(config.http, config.http_token_file.as_deref()).await?;
    let socket = web::at_socket(&config.socket).await?;
    let failed = |error| NotOpened::Listen(config.listen.to_string(), error);
    let port = TcpListener::bind(config.listen).await.map_err(failed)?;
    let own = match &engine {
        Engine::None => "this".to_owned(),
        Engine::Swarm(swarm) => swarm.id.clone(),
    };
    let ((), kept) = store
        .change(|kept| {
            kept.masters.insert(own.clone(), config.advertise.clone());
            Ok(())
        })
        .await
        .unwrap_or(((), kept));
    let address = config.advertise.clone();
    let master = Arc::new(Master::new(kept, authority, store, engine, address, config.strategy));
    let (first, looked) = oneshot::channel();
    let following = tokio::spawn(follow(Arc::clone(&master), first));
    // An agent that came before the first look would hear that there is no leader.
    let _ = looked.await;
    let door = tokio::spawn(door::keep(Arc::clone(&master), port, tls));
    let routes = server::routes(Arc::clone(&master), true, None);
    tokio::spawn(async move { axum::serve(socket, routes).await });
    if let Some((http, door)) = http {
        let routes = server::routes(Arc::clone(&master), false, Some(door));
        tokio::spawn(async move { axum::serve(http, routes).await });
    }
    eprintln!(
        "notice: the master runs; agents reach it at {}, ask it at {}",
        config.advertise,
        config.socket.display()
    );
    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    let _ = std::fs::remove_file(&config.socket);
    // Nobody comes in any more, and nothing is moved: who hears the farewell counts on that. Who moves ends with who follows.
    door.abort();
    following.abort();
    let _ = following.await;
    master.active.store(false, Ordering::Relaxed);
    master.book().farewell();
    tokio::time::sleep(FAREWELL_WAIT).await;
    eprintln!("notice: the master has stopped");
    Ok(())
}

/// Follows the engine and the record, for ever, and says when it has looked for the first time.
async fn follow(master: Arc<Master>, first: oneshot::Sender<()>) {
    let mut ticks = tokio::time::interval(LOOK_EVERY);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let (mut mark, mut first) = (None, Some(first));
    // Moving takes its time, and looking must not wait for it: it is done elsewhere, by what was seen last.
    let (seen, to_move) = watch::channel(None);
    let mut mover = JoinSet::new();
    if let Engine::Swarm(swarm) = &master.engine {
        mover.spawn(moving::keep(Arc::clone(&master), swarm.clone(), to_move));
    }
    loop {
        ticks.tick().await;
        let read = tokio::time::timeout(READ_MAX, master.store.read_if_new(&mut mark)).await;
        if let Ok(Ok(Some(kept))) = read
            && *master.kept() != kept
        {
            master.set_kept(kept);
        }
        master.book().advance();
        match &master.engine {
            Engine::None => master.book().welcome_all(&master.welcome()),
            Engine::Swarm(swarm) => look(&master, swarm, &seen).await,
        }
        if let Some(first) = first.take() {
            let _ = first.send(());
        }
    }
}

/// Looks at the swarm, and tells agents what concerns them.
async fn look(master: &Master, swarm: &Swarm, seen: &watch::Sender<Option<Seen>>) {
    // A manager that lost the majority leads nobody.
    let view = soon(swarm.look()).await.unwrap_or_default();
    if view.leads != master.active.swap(view.leads, Ordering::Relaxed) {
        let now = if view.leads {
            "is the active one: swarm's leader is here"
        } else {
            "waits: it is not swarm's leader"
        };
        eprintln!("notice: this master {now}");
    }
    master.set_leader(view.leader.clone());
    let welcome = master.welcome();
    {
        let mut book = master.book();
        book.set_view(clock::now(), view.clone());
        book.welcome_all(&welcome);
    }
    let services = soon(swarm.placed()).await;
    if let Ok(services) = &services {
        let mut placed: HashMap<String, Vec<String>> = HashMap::new();
        for service in services {
            placed.entry(service.engine_id.clone()).or_default().push(service.name.clone());
        }
        master.book().set_placed(placed);
    }
    if !view.leads {
        seen.send_replace(None);
    } else if let Ok(services) = services {
        drop_masters(master, &view).await;
        seen.send_replace(Some((view, services)));
    }
}

/// Masters whose machines have left the swarm are none any more: agents need not look for them.
async fn drop_masters(master: &Master, view: &View) {
    let is_gone = |id: &String| view.has_lost(id) && !view.down.contains(id);
    if !master.kept().masters.keys().any(is_gone) {
        return;
    }
    let dropped = master.store.change(|kept| {
        kept.masters.retain(|id, _| !is_gone(id));
        Ok(())
    });
    if let Ok(Ok(((), kept))) = tokio::time::timeout(READ_MAX, dropped).await {
        master.set_kept(kept);
    }
}
