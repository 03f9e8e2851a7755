//! The one thread that owns what is known: news in; events, ledger, table and answers out.

use crate::actuator::Actuator;
use crate::clock;
use crate::facts::gpu::Poll;
use crate::facts::{Found, News, Told};
use crate::feed::Feed;
use crate::ledger::Ledger;
use crate::registry::Registry;
use crate::table::Table;
use crate::views;
use sched::{ContainerId, Event, Fact, GpuId, Instant, Mode, Scheduler, TaskId};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;
use wire::table::TableTask;

/// How much news is taken in before something is decided.
const BATCH_MAX: usize = 256;
/// How long to sleep where nothing is due.
const IDLE_WAIT: Duration = Duration::from_mins(1);

/// A GPU, as it was found.
#[derive(Clone, Debug, Default)]
pub(crate) struct KnownGpu {
    pub(crate) found: Found,
    pub(crate) lost: bool,
}

/// Everything the agent knows, and where it tells it.
pub(crate) struct Owner {
    pub(crate) node: String,
    pub(crate) policy: String,
    pub(crate) since_us: i64,
    pub(crate) scheduler: Scheduler,
    pub(crate) registry: Registry,
    pub(crate) gpus: BTreeMap<GpuId, KnownGpu>,
    /// How far behind NVML a start may be seen, while NVML answers.
    pub(crate) nvml: Option<Duration>,
    pub(crate) docker: bool,
    /// When each running task started, on the wall clock as it was then.
    pub(crate) starts_us: HashMap<TaskId, i64>,
    /// The latest finished task of each container.
    pub(crate) latest: BTreeMap<ContainerId, TableTask>,
    pub(crate) feed: Arc<Feed>,
    pub(crate) ledger: Ledger,
    pub(crate) table: Option<Table>,
    pub(crate) actuator: Box<dyn Actuator>,
    /// Ids that Docker is to be asked about.
    pub(crate) asks: tokio::sync::mpsc::Sender<String>,
    pub(crate) poll: Arc<Poll>,
}

impl Owner {
    /// Runs until told to stop, or until nobody is left to tell anything.
    pub(crate) fn run(mut self, news: &Receiver<News>) {
        loop {
            let wait = self.scheduler.wake().map_or(IDLE_WAIT, clock::until);
            let mut next = match news.recv_timeout(wait.min(IDLE_WAIT)) {
                Ok(first) => Some(first),
                Err(RecvTimeoutError::Timeout) => None,
                Err(RecvTimeoutError::Disconnected) => return,
            };
            let mut taken = 0;
            while let Some(News { at, told }) = next {
                if matches!(told, Told::Stop) {
                    return;
                }
                self.take(at, told);
                taken += 1;
                next = if taken < BATCH_MAX { news.try_recv().ok() } else { None };
            }
            self.decide();
            self.publish();
        }
    }

    fn take(&mut self, at: Instant, told: Told) {
        match told {
            Told::Docker(answers) => self.docker = answers,
            Told::Container(id, name, labels) => {
                let number = self.registry.meet(&id, name, labels);
                self.tell_terms(at, number);
            }
            Told::ContainerGone(id) => self.part(at, &id),
            Told::Containers(ids) => self.part_with_all_but(at, &ids),
            Told::Paused(id) => self.on_container(at, &id, Fact::ContainerPaused),
            Told::Resumed(id) => self.on_container(at, &id, Fact::ContainerResumed),
            Told::Started(id) => self.on_container(at, &id, Fact::ContainerStarted),
            Told::Stopping(id) => self.on_container(at, &id, Fact::ContainerStopping),
            Told::Deadlines(set) => {
                self.registry.set = set;
                self.tell_all_terms(at);
            }
            Told::Nvml(error) => {
                self.nvml = error;
                // What was read of them is old news; they are found anew when NVML is back.
                self.gpus.values_mut().for_each(|gpu| gpu.lost |= error.is_none());
            }
            Told::Gpu(gpu, found) => {
                self.gpus.insert(gpu, KnownGpu { found, lost: false });
            }
            Told::GpuLost(gpu) => self.gpus.entry(gpu).or_default().lost = true,
            Told::Reading(gpu, reading) => self.learn(at, Fact::Gpu { gpu, reading }),
            Told::Process(process, gpu, home, approximate) => {
                let (container, ask) = self.registry.home(home);
                if let Some(number) = container {
                    self.tell_terms(at, number);
                    self.ask_about(number, ask);
                }
                let fact = Fact::Process { process, container, gpu, launches_seen: false, approximate };
                self.learn(at, fact);
            }
            Told::ProcessGone(process) => {
                self.learn(at, Fact::ProcessGone(process));
                self.forget_the_idle(at);
            }
            Told::Memory(process, gpu, bytes) => self.learn(at, Fact::Memory { process, gpu, bytes }),
            Told::Core(process, gpu, permille) => self.learn(at, Fact::Core { process, gpu, permille }),
            Told::Config(config) => {
                self.registry.manage_all = config.manage_all;
                self.policy = config.policy;
                self.tell_all_terms(at);
            }
            Told::Ask(question) => views::answer(self, question),
            Told::Stop => {}
        }
    }

    /// Docker may not have said yet that a container exists whose process is already on the GPU.
    fn ask_about(&self, number: ContainerId, ask: bool) {
        if ask && let Some(known) = self.registry.get(number) {
            // Docker that does not answer, or is asked too much, will list the container later.
            let _ = self.asks.try_send(known.id.clone());
        }
    }

    fn tell_terms(&mut self, at: Instant, number: ContainerId) {
        if let Some(terms) = self.registry.new_terms(number) {
            let known = self.scheduler.tracker().container(number);
            let paused = known.is_some_and(|container| container.paused);
            self.learn(at, Fact::Container { container: number, terms, paused });
        }
    }

    fn tell_all_terms(&mut self, at: Instant) {
        let numbers: Vec<ContainerId> = self.registry.all().map(|known| known.number).collect();
        numbers.into_iter().for_each(|number| self.tell_terms(at, number));
    }

    fn on_container(&mut self, at: Instant, id: &str, fact: impl FnOnce(ContainerId) -> Fact) {
        if let Some(number) = self.registry.by_id(id) {
            self.learn(at, fact(number));
        }
    }

    fn part(&mut self, at: Instant, id: &str) {
        if let Some(number) = self.registry.by_id(id) {
            self.learn(at, Fact::ContainerGone(number));
            self.registry.forget(number);
            self.latest.remove(&number);
        }
    }

    /// Docker tells when a container is removed. Of others nobody does, so they are forgotten when they are many and idle.
    fn forget_the_idle(&mut self, at: Instant) {
        for number in self.registry.forgettable() {
            let busy = self.scheduler.tracker().tasks().any(|task| task.container == Some(number));
            if let Some(known) = self.registry.get(number).filter(|_| !busy) {
                let id = known.id.clone();
                self.part(at, &id);
            }
        }
    }

    /// After Docker was away, what it does not list is gone. Plain cgroups, named by their path, are none of its business.
    fn part_with_all_but(&mut self, at: Instant, ids: &[String]) {
        let is_gone = |id: &String| !id.starts_with('/') && !ids.contains(id);
        let confirmed = self.registry.all().filter(|known| known.confirmed).map(|known| known.id.clone());
        let gone: Vec<String> = confirmed.filter(is_gone).collect();
        gone.iter().for_each(|id| self.part(at, id));
    }

    fn learn(&mut self, at: Instant, fact: Fact) {
        let events = self.scheduler.learn(at, fact);
        self.tell(&events);
    }

    fn decide(&mut self) {
        let (events, actions) = self.scheduler.decide(clock::now());
        self.tell(&events);
        for action in actions {
            let (sched::Action::Hold { task, .. } | sched::Action::Release { task, .. }) = action;
            if let Some(task) = self.scheduler.tracker().task(task) {
                self.actuator.act(action, task);
            }
        }
    }

    fn tell(&mut self, events: &[Event]) {
        for event in events {
            match event {
                Event::Started { task, at } => {
                    self.starts_us.insert(*task, clock::wall_us(*at));
                }
                Event::Finished(finished) => {
                    let row = views::finished(self, finished);
                    if let Some(container) = finished.container {
                        self.latest.insert(container, views::in_table(&row));
                    }
                    self.ledger.keep(row);
                }
                _ => {}
            }
            if let Some((at_us, line)) = views::event(self, event) {
                self.feed.tell(at_us, line);
            }
            match event {
                Event::Finished(finished) => self.starts_us.remove(&finished.task),
                Event::Forgotten { task } => self.starts_us.remove(task),
                _ => None,
            };
        }
    }

    fn publish(&mut self) {
        let by_memory = self.scheduler.tracker().tasks().any(|task| task.mode == Mode::Memory);
        self.poll.finely.store(by_memory, Ordering::Relaxed);
        if self.table.is_some() {
            let tasks = views::table(self);
            if let Some(table) = &mut self.table {
                table.publish(&tasks);
            }
        }
    }
}
