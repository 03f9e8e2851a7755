//! The process that is the device: one thread, one socket, one timer. It sleeps when nothing is due and nobody has asked for a moment.

use crate::costs::Settings;
use crate::message::{REQUEST_WORDS_MAX, Request, to_bytes, to_words};
use crate::world::World;
use crate::{SOCKET, monotonic_ns};
use rustix::event::epoll;
use rustix::fs::Mode;
use rustix::io::Errno;
use rustix::net::sockopt::socket_peercred;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketAddrUnix, SocketFlags, SocketType};
use rustix::process::{Pid, PidfdFlags};
use rustix::time::{Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec};
use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

/// Events that are taken from the kernel at once.
const EVENTS_MAX: usize = 64;
/// Requests of one client that are read before the next client has its turn.
const REQUESTS_AT_ONCE_MAX: usize = 64;
/// Clients that may wait to be let in.
const BACKLOG: i32 = 1_024;
/// How long to look for more requests before sleeping. A real device is rung by a store; to wake a process costs the program that launches more than
/// the launch itself, and only one whose launches come slowly enough for the device to sleep in between would pay for it.
const AWAKE_NS: u64 = 20_000;
/// And how long between two such looks: each takes locks that whoever submits needs, too.
const LOOK_NS: u64 = 2_000;
/// A device is in hardware, and does not wait for a processor: where we may, we come before other processes.
const NICENESS: i32 = -15;

const AT_ONCE: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };

const TIMER: u64 = 0;
const LISTENER: u64 = 1;
const SHUTDOWN: u64 = 2;
/// Connections and exits have numbers from here on.
const NUMBERS: u64 = 4;

/// What one number of the event loop stands for.
enum Source {
    Connection { socket: OwnedFd, pid: u32 },
    Exit { _process: OwnedFd, pid: u32 },
}

/// The device, ready to be used.
pub struct Server {
    epoll: OwnedFd,
    timer: OwnedFd,
    listener: OwnedFd,
    path: PathBuf,
    world: World,
    sources: HashMap<u64, Source>,
    /// Which number watches for a process's exit.
    exits: HashMap<u32, u64>,
    next: u64,
    /// When the timer will go off, so that it is not set to what it is.
    armed_ns: Option<u64>,
}

impl Server {
    /// Opens the socket in a folder. It fails if another device is there.
    pub fn open(folder: &Path, settings: Settings) -> io::Result<Self> {
        let path = folder.join(SOCKET);
        if crate::client::Connection::open(&path).is_ok() {
            return Err(io::Error::new(io::ErrorKind::AddrInUse, "another simulated GPU is running there"));
        }
        let _ = std::fs::remove_file(&path);
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let listener = rustix::net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
        rustix::net::bind(&listener, &SocketAddrUnix::new(&path)?)?;
        // Programs in containers run as any user.
        rustix::fs::chmod(&path, Mode::from_raw_mode(0o666))?;
        rustix::net::listen(&listener, BACKLOG)?;
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let timer = rustix::time::timerfd_create(
            TimerfdClockId::Monotonic,
            TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK,
        )?;
        watch(&epoll, timer.as_fd(), TIMER)?;
        watch(&epoll, listener.as_fd(), LISTENER)?;
        Ok(Self {
            epoll,
            timer,
            listener,
            path,
            world: World::new(settings, monotonic_ns()),
            sources: HashMap::new(),
            exits: HashMap::new(),
            next: NUMBERS,
            armed_ns: None,
        })
    }

    /// Is the device until `shutdown` can be read.
    pub fn run(mut self, shutdown: BorrowedFd<'_>) -> io::Result<()> {
        let _ = rustix::process::setpriority_process(None, NICENESS);
        // Each client is several files: a shell's thousand would turn the three hundredth away.
        let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
        let most = rustix::process::Rlimit { current: limit.maximum, ..limit };
        let _ = rustix::process::setrlimit(rustix::process::Resource::Nofile, most);
        watch(&self.epoll, shutdown, SHUTDOWN)?;
        let mut events = Vec::with_capacity(EVENTS_MAX);
        let mut awake_until_ns = 0;
        loop {
            self.arm()?;
            events.clear();
            let patience = (monotonic_ns() < awake_until_ns).then_some(&AT_ONCE);
            match epoll::wait(&self.epoll, rustix::buffer::spare_capacity(&mut events), patience) {
                Ok(0) if patience.is_some() && self.armed_ns.is_none_or(|at| monotonic_ns() < at) => {
                    let next_ns = monotonic_ns() + LOOK_NS;
                    while monotonic_ns() < next_ns {
                        std::hint::spin_loop();
                    }
                    continue;
                }
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
            awake_until_ns = monotonic_ns() + AWAKE_NS;
            self.world.advance(monotonic_ns());
            for event in &events {
                match event.data.u64() {
                    TIMER => drop(rustix::io::read(&self.timer, &mut [0; 8])),
                    LISTENER => self.accept(),
                    SHUTDOWN => return Ok(()),
                    number => self.serve(number),
                }
            }
            // What was just asked may already be done.
            self.world.advance(monotonic_ns());
            self.world.publish();
            self.send_replies();
        }
    }

    /// Lets in who waits. A process's first connection starts the watch for its exit.
    fn accept(&mut self) {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        while let Ok(socket) = rustix::net::accept_with(&self.listener, flags) {
            let Ok(peer) = socket_peercred(&socket) else { continue };
            let pid = peer.pid.as_raw_nonzero().get() as u32;
            let number = self.number();
            if watch(&self.epoll, socket.as_fd(), number).is_err() {
                continue;
            }
            self.watch_exit(peer.pid, pid);
            self.world.connect(number, pid);
            self.sources.insert(number, Source::Connection { socket, pid });
        }
    }

    /// The child of a process may hold its connections open beyond its exit: the exit itself is watched, too.
    fn watch_exit(&mut self, peer: Pid, pid: u32) {
        if self.exits.contains_key(&pid) {
            return;
        }
        let Ok(process) = rustix::process::pidfd_open(peer, PidfdFlags::empty()) else { return };
        let number = self.number();
        if watch(&self.epoll, process.as_fd(), number).is_ok() {
            self.exits.insert(pid, number);
            self.sources.insert(number, Source::Exit { _process: process, pid });
        }
    }

    fn serve(&mut self, number: u64) {
        match self.sources.get(&number) {
            Some(Source::Exit { pid, .. }) => {
                let pid = *pid;
                self.world.exited(pid);
                self.sources.remove(&number);
                self.exits.remove(&pid);
                self.sources.retain(
                    |_, source| !matches!(source, Source::Connection { pid: owner, .. } if *owner == pid),
                );
            }
            Some(Source::Connection { .. }) => self.read(number),
            None => {}
        }
    }

    /// Reads a few requests of one client. One that sends what is no request is sent away.
    fn read(&mut self, number: u64) {
        let mut buffer = [0; (REQUEST_WORDS_MAX + 1) * 8];
        for _ in 0..REQUESTS_AT_ONCE_MAX {
            let Some(Source::Connection { socket, .. }) = self.sources.get(&number) else { return };
            let request = match rustix::net::recv(socket, &mut buffer[..], RecvFlags::DONTWAIT) {
                Ok((0, _)) => None,
                Ok((length, _)) => Request::decode(&to_words(&buffer[..length])),
                Err(Errno::AGAIN | Errno::INTR) => return,
                Err(_) => None,
            };
            match request {
                Some(request) => {
                    if request.asks_about_work() {
                        self.read_siblings(number);
                    }
                    self.world.request(number, request);
                }
                None => return self.close(number),
            }
        }
    }

    /// Each thread has a connection of its own. What another thread submitted before this one asked must count.
    fn read_siblings(&mut self, number: u64) {
        let Some(Source::Connection { pid: asking, .. }) = self.sources.get(&number) else { return };
        for (sibling, source) in &self.sources {
            let Source::Connection { socket, pid } = source else { continue };
            if sibling == &number || pid != asking {
                continue;
            }
            let mut buffer = [0; REQUEST_WORDS_MAX * 8];
            // The end of a connection is left for its own turn: to look does not take it away.
            while let Ok((length @ 1.., _)) = rustix::net::recv(socket, &mut buffer[..], RecvFlags::DONTWAIT)
            {
                let Some(request) = Request::decode(&to_words(&buffer[..length])) else { break };
                self.world.request(*sibling, request);
            }
        }
    }

    fn close(&mut self, number: u64) {
        self.sources.remove(&number);
        self.world.disconnect(number);
    }

    /// A client has one question open at a time, so its socket has room for the answer; one that has none has
    /// broken the rules, and is sent away rather than waited for.
    fn send_replies(&mut self) {
        for (number, words) in self.world.take_replies() {
            let Some(Source::Connection { socket, .. }) = self.sources.get(&number) else { continue };
            let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
            if rustix::net::send(socket, &to_bytes(&words), flags).is_err() {
                self.close(number);
            }
        }
    }

    fn arm(&mut self) -> io::Result<()> {
        let wake_ns = self.world.next_wake_ns();
        if wake_ns == self.armed_ns {
            return Ok(());
        }
        let at = wake_ns.unwrap_or(0);
        let it_value = Timespec { tv_sec: (at / 1_000_000_000) as i64, tv_nsec: (at % 1_000_000_000) as i64 };
        let it_interval = Timespec { tv_sec: 0, tv_nsec: 0 };
        let setting = Itimerspec { it_interval, it_value };
        rustix::time::timerfd_settime(&self.timer, TimerfdTimerFlags::ABSTIME, &setting)?;
        self.armed_ns = wake_ns;
        Ok(())
    }

    fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

fn watch(epoll: &OwnedFd, source: BorrowedFd<'_>, number: u64) -> io::Result<()> {
    Ok(epoll::add(epoll, source, epoll::EventData::new_u64(number), epoll::EventFlags::IN)?)
}
