//! The guard: a small process of its own that lets everything go when the agent dies, however it dies.
//!
//! The agent starts it, and starts it again should it die. The two are linked by a pair of sockets: that the agent is gone
//! is seen as the end of the stream, and that it hangs as silence; that it dies, the kernel tells before all of it is gone.
//! What is held stands in a file that the agent writes before each hold, so the guard's list cannot lag behind.

mod gates;
pub mod release;
pub mod watch;

use crate::facts::{Teller, Told};
use crate::run::or_abort;
use rustix::net::{SendFlags, send};
use std::io::{self, Read};
use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How to start the guard: this program once more; the caller knows the words.
pub type Spawn = Arc<dyn Fn() -> io::Result<Command> + Send + Sync>;

/// How often the agent says that it lives, while something is held.
pub(crate) const RENEW_EVERY: Duration = Duration::from_millis(100);
/// How long the guard waits for that. A machine under load delays the agent, so not much less; held tasks wait that long for
/// an agent that hangs, so not much more.
const PATIENCE: Duration = Duration::from_millis(700);
/// The first wait before a guard is started again, doubled each time.
const WAIT_FIRST: Duration = Duration::from_millis(10);
/// The longest wait.
const WAIT_MAX: Duration = Duration::from_secs(5);
/// A guard that lived this long died of something else than its start.
const STARTED_WELL: Duration = Duration::from_secs(5);

/// The kernel lets go of a dead process's descriptors from the last to the first, and each probe takes it a tenth of a second: what
/// tells of the agent's death comes first.
const DESCRIPTOR_FROM: i32 = 512;

/// What the agent says: something is held, and I live; or nothing is.
const HOLDING: u8 = b'h';
const NOTHING: u8 = b'n';
/// What the guard says: I watch; or the agent was silent too long, and I let everything go.
const WATCHING: u8 = b'w';
const LET_GO: u8 = b'l';

/// The agent's side.
pub(crate) struct Guard {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
    renewed: Option<(Instant, bool)>,
}

#[derive(Default)]
struct Shared {
    link: Mutex<Option<UnixStream>>,
    stop: AtomicBool,
}

impl Guard {
    /// Starts a guard, and sees to it that there is one from now on.
    pub(crate) fn start(spawn: Spawn, teller: Teller, tables: Vec<OwnedFd>) -> io::Result<Self> {
        let shared = Arc::new(Shared::default());
        let theirs = Arc::clone(&shared);
        let keep = move || or_abort(|| keep_one(&spawn, &teller, &theirs, &tables));
        let thread = std::thread::Builder::new().name("guard".to_owned()).spawn(keep)?;
        Ok(Self { shared, thread: Some(thread), renewed: None })
    }

    /// Says that the agent lives. To be called at least every [`RENEW_EVERY`] while something is held, and before each hold.
    pub(crate) fn renew(&mut self, holding: bool) {
        let now = Instant::now();
        let recent =
            |(at, said): (Instant, bool)| said == holding && (!holding || now - at < RENEW_EVERY / 2);
        if self.renewed.is_some_and(recent) {
            return;
        }
        self.renewed = Some((now, holding));
        if let Some(link) = self.shared.link().as_mut() {
            // A guard that is gone or full of news already is the other thread's to deal with.
            let _ = send(
                &*link,
                &[if holding { HOLDING } else { NOTHING }],
                SendFlags::DONTWAIT | SendFlags::NOSIGNAL,
            );
        }
    }

    /// A new guard has heard nothing yet.
    pub(crate) fn renew_at_once(&mut self) {
        self.renewed = None;
    }

    /// Ends the guard, which lets go what is still held. It is not waited for where it has memory to bring back.
    pub(crate) fn stop(mut self, something_is_out: bool) {
        self.shared.stop.store(true, Ordering::Relaxed);
        self.shared.close();
        if let Some(thread) = self.thread.take().filter(|_| !something_is_out) {
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn link(&self) -> std::sync::MutexGuard<'_, Option<UnixStream>> {
        self.link.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells the guard that it is not needed any more.
    fn close(&self) {
        if let Some(link) = self.link().take() {
            let _ = link.shutdown(Shutdown::Both);
        }
    }
}

/// Starts one guard after another, each when the one before has died.
fn keep_one(spawn: &Spawn, teller: &Teller, shared: &Shared, tables: &[OwnedFd]) {
    let mut wait = WAIT_FIRST;
    loop {
        let began = Instant::now();
        let lived = live(spawn, teller, shared, tables);
        *shared.link() = None;
        if shared.stop.load(Ordering::Relaxed) || !teller.tell(Told::Guard(false)) {
            return;
        }
        match lived {
            Ok(()) => eprintln!("warning: the guard died, and is started again"),
            Err(error) => eprintln!("warning: nothing is held, for the guard cannot be started: {error}"),
        }
        wait = if began.elapsed() > STARTED_WELL { WAIT_FIRST } else { (wait * 2).min(WAIT_MAX) };
        std::thread::sleep(wait);
    }
}

/// One guard, from its start to its death.
fn live(spawn: &Spawn, teller: &Teller, shared: &Shared, tables: &[OwnedFd]) -> io::Result<()> {
    let (ours, theirs) = UnixStream::pair()?;
    let ours = last_opened(ours);
    let mut command = spawn()?;
    command.stdin(Stdio::from(OwnedFd::from(theirs))).stdout(Stdio::null());
    let mut child = command.spawn()?;
    // Ours alone now: while the command lives, so does its end.
    drop(command);
    gates::hand_over(&ours, tables)?;
    let mut heard = last_opened(ours.try_clone()?);
    *shared.link() = Some(ours);
    let mut byte = [0];
    // Who stopped us as the guard was started found nothing to close.
    while !shared.stop.load(Ordering::Relaxed)
        && let Ok(1) = heard.read(&mut byte)
    {
        let told = match byte[0] {
            WATCHING => Told::Guard(true),
            _ => Told::LetGo,
        };
        if !teller.tell(told) {
            break;
        }
    }
    shared.close();
    child.wait().map(drop)
}

/// The same stream, with a descriptor behind all others; or as it is, where so many are not allowed.
fn last_opened(stream: UnixStream) -> UnixStream {
    rustix::io::fcntl_dupfd_cloexec(&stream, DESCRIPTOR_FROM).map_or(stream, UnixStream::from)
}
