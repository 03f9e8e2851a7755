//! When a process exits, to the moment: a pidfd becomes readable as it does.
//!
//! A thread sleeps on all of them at once. The GPU's poller asks here whether a pid is still the process it knew.

use super::{Teller, Told, process};
use crate::clock;
use crate::run::or_abort;
use rustix::event::epoll;
use rustix::fd::OwnedFd;
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use sched::Process;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// How many exits are taken at one wake.
const EXITS_AT_ONCE: usize = 64;

/// By pid: the process, the number of the watch for it, and what becomes readable at its exit.
type Watched = HashMap<u32, (Process, u32, OwnedFd)>;

/// The processes whose exit is waited for.
#[derive(Clone)]
pub struct Exits {
    epoll: Arc<OwnedFd>,
    watched: Arc<Mutex<Watched>>,
    seen: Arc<AtomicU64>,
    teller: Teller,
}

impl Exits {
    /// Starts the thread that waits.
    pub fn start(teller: Teller) -> std::io::Result<Self> {
        let epoll = Arc::new(epoll::create(epoll::CreateFlags::CLOEXEC)?);
        let exits = Self { epoll, watched: Arc::default(), seen: Arc::default(), teller };
        let waiter = exits.clone();
        std::thread::Builder::new().name("exits".to_owned()).spawn(move || or_abort(|| waiter.wait()))?;
        Ok(exits)
    }

    /// The process a pid stands for, if it is watched: it has then not exited, or not been seen to yet.
    pub fn known(&self, pid: u32) -> Option<Process> {
        self.watched().get(&pid).map(|(process, ..)| *process)
    }

    /// How many exits were seen. While this stays the same, so does what is `known` of any pid.
    pub fn seen(&self) -> u64 {
        self.seen.load(Ordering::Acquire)
    }

    /// Waits for a process's exit from now on. False if it is gone already.
    pub fn watch(&self, process: Process) -> bool {
        let Some(pid) = Pid::from_raw(process.pid.cast_signed()) else { return false };
        let Ok(pidfd) = pidfd_open(pid, PidfdFlags::empty()) else { return false };
        // Between the look and the open the pid may have gone to another process.
        if !process::is_still(process) {
            return false;
        }
        let mut watched = self.watched();
        // Probes and NVML meet the same process at the same time.
        if watched.get(&process.pid).is_some_and(|(known, ..)| *known == process) {
            return true;
        }
        // Numbered, because a pid that is used again may be watched anew before word of the first exit is taken in.
        let number = watched.get(&process.pid).map_or(0, |(_, number, _)| number.wrapping_add(1));
        let data = epoll::EventData::new_u64(u64::from(number) << 32 | u64::from(process.pid));
        if epoll::add(&self.epoll, &pidfd, data, epoll::EventFlags::IN).is_err() {
            return false;
        }
        let before = watched.insert(process.pid, (process, number, pidfd));
        drop(watched);
        before.is_none_or(|(before, ..)| self.teller.tell(Told::ProcessGone(before)))
    }

    fn wait(&self) {
        let mut events = Vec::with_capacity(EXITS_AT_ONCE);
        loop {
            events.clear();
            match epoll::wait(&self.epoll, rustix::buffer::spare_capacity(&mut events), None) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(error) => {
                    // No end would be seen any more.
                    eprintln!("error: could not wait for the ends of processes: {error}");
                    std::process::abort();
                }
            }
            let at = clock::now();
            for event in &events {
                let (pid, number) = (event.data.u64() as u32, (event.data.u64() >> 32) as u32);
                let mut watched = self.watched();
                if watched.get(&pid).is_none_or(|(_, watching, _)| *watching != number) {
                    continue;
                }
                // Dropping the pidfd takes it off the list.
                let gone = watched.remove(&pid);
                drop(watched);
                self.seen.fetch_add(1, Ordering::Release);
                if let Some((process, ..)) = gone
                    && !self.teller.tell_at(at, Told::ProcessGone(process))
                {
                    return;
                }
            }
        }
    }

    fn watched(&self) -> std::sync::MutexGuard<'_, Watched> {
        self.watched.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn an_exit_is_told_when_it_happens() {
        let (sender, receiver) = std::sync::mpsc::sync_channel(8);
        let exits = Exits::start(Teller(sender)).unwrap();
        let mut child = std::process::Command::new("sleep").arg("0.2").spawn().unwrap();
        let (process, _) = process::look(child.id()).unwrap();
        assert!(exits.watch(process) && exits.watch(process), "twice is as good as once");
        assert_eq!(exits.known(child.id()), Some(process));
        child.wait().unwrap();
        let seen = clock::now();
        let news = receiver.recv_timeout(Duration::from_secs(5)).unwrap();
        assert!(matches!(news.told, Told::ProcessGone(gone) if gone == process));
        assert!(seen.since(news.at).as_micros().abs() < 100_000);
        assert_eq!(exits.known(process.pid), None);
        assert!(!exits.watch(process), "it is gone");
        assert_eq!(exits.seen(), 1);
    }

    #[test]
    fn a_pid_that_is_used_again_before_its_exit_is_taken_in_is_two_processes() {
        let (sender, receiver) = std::sync::mpsc::sync_channel(8);
        let exits = Exits::start(Teller(sender)).unwrap();
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let (process, _) = process::look(child.id()).unwrap();
        // An earlier process with its pid, whose exit nobody has taken in.
        let before = Process { started: process.started - 1, ..process };
        let never = rustix::event::eventfd(0, rustix::event::EventfdFlags::CLOEXEC).unwrap();
        exits.watched().insert(process.pid, (before, 7, never));
        assert!(exits.watch(process));
        let gone = || receiver.recv_timeout(Duration::from_secs(30)).unwrap().told;
        assert!(matches!(gone(), Told::ProcessGone(first) if first == before));
        assert_eq!(exits.known(process.pid), Some(process));
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(matches!(gone(), Told::ProcessGone(second) if second == process));
    }
}
