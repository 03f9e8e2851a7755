//! What the world tells the agent, and the one channel it comes through.

pub mod cgroup;
pub mod containers;
pub mod exits;
pub mod gpu;
pub mod launches;
mod meter;
pub mod overrides;
mod pace;
pub mod process;

use crate::clock;
use sched::{GpuId, Instant, Process, Reading};
use std::collections::BTreeMap;
use std::sync::mpsc::{SyncSender, TrySendError};
use std::time::Duration;

/// How many pieces of news may wait for the owner. Senders wait beyond that: what they would drop is lost for good.
pub const FACTS_QUEUED_MAX: usize = 4096;

/// How long an asynchronous sender lets the owner catch up before it tries again.
const FULL_WAIT: Duration = Duration::from_millis(1);

/// A container's labels, or what stands in for them.
pub type Labels = BTreeMap<String, String>;

/// Where a process runs, as far as its cgroups say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Home {
    /// In a container with one of these ids, the innermost first; Docker knows which.
    Containers(Vec<String>),
    /// In a plain cgroup that has labels of ours.
    Cgroup(String, Labels),
    /// In neither.
    Nowhere,
}

/// A GPU that was found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// The vendor's name for it.
    pub name: String,
    /// The vendor's id of it.
    pub uuid: String,
    /// The ids of its MIG devices.
    pub mig: Vec<String>,
}

/// One piece of news.
#[derive(Debug)]
pub enum Told {
    /// Docker answers, or does no more.
    Docker(bool),
    /// A container exists: its id, name, labels, and the image it was made from.
    Container(String, String, Labels, Option<String>),
    /// A container was removed.
    ContainerGone(String),
    /// These are all the containers there are.
    Containers(Vec<String>),
    /// Somebody paused a container.
    Paused(String),
    /// Somebody resumed it.
    Resumed(String),
    /// It was started.
    Started(String),
    /// A container was told to stop.
    Stopping(String),
    /// What `leeway deadline set` wrote, by container id.
    Deadlines(BTreeMap<String, String>),
    /// NVML answers, or does no more; how far behind it a start may be seen.
    Nvml(Option<Duration>),
    /// A GPU was found.
    Gpu(GpuId, Found),
    /// A GPU does not answer any more.
    GpuLost(GpuId),
    /// A look at a GPU.
    Reading(GpuId, Reading),
    /// A process uses a GPU; whether it was there before we looked.
    Process(Process, GpuId, Home, bool),
    /// What probes saw.
    Probes(launches::Seen),
    /// A process exited.
    ProcessGone(Process),
    /// GPU memory a process has, its context not counted.
    Memory(Process, GpuId, u64),
    /// Share of the core a process used, in thousandths.
    Core(Process, GpuId, u16),
    /// What came of freezing or thawing a container.
    Done(crate::actuator::Done),
    /// What came of moving a process's GPU memory.
    Moved(crate::actuator::Moved),
    /// A guard watches, or does no more.
    Guard(bool),
    /// The guard let everything go: we had been silent too long.
    LetGo,
    /// How long a container's health check bears that it does not answer.
    Health(String, Duration),
    /// Somebody wants something done.
    Command(crate::commands::Command),
    /// The configuration was read anew.
    Config(Box<crate::Config>),
    /// Somebody wants to know something.
    Ask(crate::views::Question),
    /// The agent is to stop.
    Stop,
}

/// One piece of news, and when it became true.
#[derive(Debug)]
pub struct News {
    /// When.
    pub at: Instant,
    /// What.
    pub told: Told,
}

/// The sending end of the channel.
#[derive(Clone, Debug)]
pub struct Teller(pub(crate) SyncSender<News>);

impl Teller {
    /// Tells something that is true now. False once nobody listens.
    pub fn tell(&self, told: Told) -> bool {
        self.tell_at(clock::now(), told)
    }

    /// Tells something that became true at that moment.
    pub fn tell_at(&self, at: Instant, told: Told) -> bool {
        self.0.send(News { at, told }).is_ok()
    }

    /// The same from asynchronous code, which must not block its thread.
    pub async fn tell_soon(&self, told: Told) -> bool {
        let mut news = News { at: clock::now(), told };
        loop {
            match self.0.try_send(news) {
                Ok(()) => return true,
                Err(TrySendError::Disconnected(_)) => return false,
                Err(TrySendError::Full(back)) => news = back,
            }
            tokio::time::sleep(FULL_WAIT).await;
        }
    }
}
