//! A master from start to stop: opens its port and its socket, follows the engine, and waits for a signal.

use crate::certificates::{Authority, NoCertificate};
use crate::door;
use crate::engine::{Engine, View, swarm::Swarm};
use crate::master::Master;
use crate::moving::Mover;
use crate::server;
use crate::store::{NoRecord, Store};
use bollard::Docker;
use sched::placement::Strategy;
use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::net::{TcpListener, UnixListener, UnixStream};
use tokio::signal::unix::{SignalKind, signal};

/// How often the engine and the record are looked at.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// How long the engine may take to answer before it counts as gone.
const LOOK_MAX: Duration = Duration::from_secs(3);
/// Who may use the socket: root, and who it gives the group to.
const SOCKET_MODE: u32 = 0o660;

/// How a master is to run.
pub struct Config {
    /// Where to listen for agents.
    pub listen: SocketAddr,
    /// Where agents reach us.
    pub advertise: String,
    /// The API's socket.
    pub socket: PathBuf,
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
    /// A socket or port cannot be had.
    #[error("could not listen at {0}")]
    Listen(String, #[source] io::Error),
    /// Another master has the socket.
    #[error("a master already answers at {0}")]
    Running(String),
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
    let socket = listen_at(&config.socket).await?;
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
    let failed = |error| Failed::Listen(config.listen.to_string(), error);
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
    tokio::spawn(door::keep(Arc::clone(&master), port, tls));
    tokio::spawn(follow(Arc::clone(&master)));
    let routes = server::routes(Arc::clone(&master));
    tokio::spawn(async move { axum::serve(socket, routes).await });
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
    eprintln!("notice: the master has stopped");
    Ok(())
}

/// Follows the engine and the record, for ever.
async fn follow(master: Arc<Master>) {
    let mut ticks = tokio::time::interval(LOOK_EVERY);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut mover = None;
    loop {
        ticks.tick().await;
        if let Ok(Ok(kept)) = tokio::time::timeout(LOOK_MAX, master.store.read()).await
            && *master.kept() != kept
        {
            master.set_kept(kept);
        }
        master.book().advance();
        if let Engine::Swarm(swarm) = &master.engine {
            look(&master, swarm, &mut mover).await;
        }
    }
}

/// Looks at the swarm; where it leads, services are moved that must.
async fn look(master: &Arc<Master>, swarm: &Swarm, mover: &mut Option<Mover>) {
    // A manager that lost the majority answers late or not at all, and leads nobody.
    let view = match tokio::time::timeout(LOOK_MAX, swarm.look()).await {
        Ok(Ok(view)) => view,
        _ => View::default(),
    };
    if view.leads != master.active.swap(view.leads, Ordering::Relaxed) {
        let now = if view.leads {
            "is the active one: swarm's leader is here"
        } else {
            "waits: it is not swarm's leader"
        };
        eprintln!("notice: this master {now}");
    }
    master.set_leader(view.leader.clone());
    master.book().set_unusable(view.unusable.clone());
    if view.leads {
        let mover = mover.get_or_insert_with(Mover::new);
        mover.look(master, swarm, &view).await;
    } else {
        *mover = None;
    }
}

async fn listen_at(path: &Path) -> Result<UnixListener, Failed> {
    let failed = |error| Failed::Listen(path.display().to_string(), error);
    if UnixStream::connect(path).await.is_ok() {
        return Err(Failed::Running(path.display().to_string()));
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
    Ok(listener)
}
