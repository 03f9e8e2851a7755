//! The one thread that owns what is known: news in; events, ledger, table and answers out.

mod policies;

use crate::actuator::{Actuator, Happened, Moved, What};
use crate::clock;
use crate::commands;
use crate::coverage::Probed;
use crate::facts::gpu::Poll;
use crate::facts::launches::Launches;
use crate::facts::{Found, Home, News, Told, process};
use crate::guard::{Guard, RENEW_EVERY};
use crate::journal::Journal;
use crate::ledger::Ledger;
use crate::link::Outlook;
use crate::metrics::Notes;
use crate::registry::Registry;
use crate::table::Table;
use crate::views;
use sched::{ContainerId, Fact, GpuId, Instant, Scheduler, Span, TaskId};
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;
use web::Feed;
use wire::table::TableTask;

/// How much news is taken in before something is decided.
const BATCH_MAX: usize = 256;
/// How long to sleep where nothing is due.
const IDLE_WAIT: Duration = Duration::from_mins(1);
/// How many facts are kept, to be told if a decision fails.
const FACTS_KEPT: usize = 100;
/// How often in a row it is decided again because the answer came at once.
const ROUNDS_MAX: u32 = 8;

/// A GPU, as it was found.
#[derive(Clone, Debug, Default)]
pub(crate) struct KnownGpu {
    pub(crate) found: Found,
    pub(crate) lost: bool,
}

/// Everything the agent knows, and where it tells it.
pub(crate) struct Owner {
    pub(crate) node: String,
    /// The policy that runs where a GPU has none of its own.
    pub(crate) policy: String,
    /// The policy that the configuration named last.
    pub(crate) configured: String,
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
    pub(crate) notes: Notes,
    pub(crate) table: Option<Table>,
    pub(crate) probed: Probed,
    pub(crate) actuator: Actuator,
    /// None where nothing can be held.
    pub(crate) guard: Option<Guard>,
    /// Why nothing can be held here.
    pub(crate) cannot_hold: Option<&'static str>,
    /// The latest facts, the oldest first.
    pub(crate) facts: VecDeque<(Instant, Fact)>,
    /// None where it cannot be written.
    pub(crate) journal: Option<Journal>,
    /// How often deciding failed.
    pub(crate) failures: u32,
    /// Ids that Docker is to be asked about.
    pub(crate) asks: tokio::sync::mpsc::Sender<String>,
    pub(crate) poll: Arc<Poll>,
    /// What masters are told; none outside a cluster.
    pub(crate) outlook: Option<Outlook>,
}

impl Owner {
    /// Runs until told to stop, or until nobody is left to tell anything.
    pub(crate) fn run(mut self, news: Receiver<News>) {
        self.begin_hearing();
        while self.turn(&news) {
            self.decide();
            self.hear();
            self.order_probes(clock::now());
            self.publish();
            self.renew();
        }
        // Nobody may wait for us to hear them while we wait for them to end.
        drop(news);
        // From here on the kernel stops nobody: its word of that would find nobody.
        self.probed.launches.iter().for_each(Launches::let_all_go);
        self.actuator.finish();
        if let Some(guard) = self.guard.take() {
            guard.stop(self.actuator.has_somebody_out());
        }
        self.probed.launches.iter().for_each(Launches::take_all_out);
    }

    /// Waits for news and takes it in. False at the end.
    fn turn(&mut self, news: &Receiver<News>) -> bool {
        let patience = if self.stops_somebody() { RENEW_EVERY } else { IDLE_WAIT };
        let wait = self.scheduler.wake().map_or(IDLE_WAIT, clock::until);
        let mut next = match news.recv_timeout(wait.min(patience)) {
            Ok(first) => Some(first),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => return false,
        };
        let mut taken = 0;
        while let Some(News { at, told }) = next {
            if matches!(told, Told::Stop) {
                return false;
            }
            self.take(at, told);
            taken += 1;
            next = if taken < BATCH_MAX { news.try_recv().ok() } else { None };
        }
        true
    }

    /// Whether anybody stands because of us, or may: then the guard's patience counts.
    fn stops_somebody(&self) -> bool {
        let by_the_kernel = self.probed.launches.as_ref().is_some_and(Launches::may_stop_somebody);
        by_the_kernel || self.actuator.holds_anything()
    }

    /// Tells the guard that we live.
    fn renew(&mut self) {
        let holding = self.stops_somebody();
        if let Some(guard) = &mut self.guard {
            guard.renew(holding);
        }
    }

    fn take(&mut self, at: Instant, told: Told) {
        match told {
            Told::Docker(answers) => {
                self.docker = answers;
                self.registry.listed |= answers;
                self.actuator.docker_is_back();
            }
            Told::Container(id, name, labels, image) => {
                let number = self.registry.meet(&id, name, labels);
                self.registry.set_image(number, image);
                self.tell_terms(at, number);
            }
            Told::ContainerGone(id) => self.part(at, &id),
            Told::Containers(ids) => self.part_with_all_but(at, &ids),
            Told::Paused(id) => self.on_paused(at, &id),
            Told::Resumed(id) => self.on_resumed(at, &id),
            Told::Started(id) => self.on_started(at, &id),
            Told::Stopping(id) => {
                self.registry.by_id(&id).into_iter().for_each(|number| self.let_in(number));
                self.on_container(at, &id, Fact::ContainerStopping);
            }
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
                let container = self.at_home(at, home);
                self.on_gpu(at, process, gpu, container, approximate);
            }
            Told::Probes(seen) => self.on_probes(at, seen),
            Told::ProcessGone(process) => {
                self.measure_exit(at, process);
                self.learn(at, Fact::ProcessGone(process));
                self.probed.forget(process);
                let happened = self.actuator.part(process);
                self.note(at, happened);
                self.forget_the_idle(at);
            }
            Told::Memory(process, gpu, bytes) => {
                if !self.scheduler.tracker().has_left(process) {
                    self.probed.looked_at.insert((process, gpu), bytes);
                }
                if !self.counts_allocations_of(process) {
                    self.learn(at, Fact::Memory { process, gpu, bytes });
                }
            }
            Told::Core(process, gpu, permille) => {
                self.measure_core(at, (process, gpu), permille);
                self.learn(at, Fact::Core { process, gpu, permille });
            }
            Told::Ask(question) => views::answer(self, question),
            Told::Stop => {}
            of_ours => self.take_ours(at, of_ours),
        }
    }

    /// News of our own doing: the actuator's, the guard's, an operator's.
    fn take_ours(&mut self, at: Instant, told: Told) {
        match told {
            Told::Done(done) => {
                let happened = self.actuator.done(done);
                self.note(at, happened);
            }
            Told::Moved(moved) => self.on_moved(at, moved),
            Told::Guard(watches) => {
                self.actuator.guarded = watches;
                self.probed.stale = true;
                if let Some(launches) = self.probed.launches.as_ref().filter(|_| !watches) {
                    launches.let_all_in();
                }
                if watches {
                    // Before we had a guard, that of an earlier agent may have been at it, and at the files that we share with it.
                    self.actuator.find_what_was_left();
                    self.probed.launches.iter().for_each(Launches::call_the_roll);
                }
                self.guard.iter_mut().for_each(Guard::renew_at_once);
            }
            Told::LetGo => {
                eprintln!("warning: the agent was silent too long, and its guard let everything go");
                let now = clock::now();
                let stand = commands::who_stands(self);
                let happened = self.actuator.let_go_who_stands(|_| true, &stand);
                self.note(now, happened);
                self.actuator.look_after_the_away();
            }
            Told::Health(id, healthy) => {
                if let Some(number) = self.registry.by_id(&id) {
                    self.registry.set_health(number, Span::from_micros(healthy.as_micros() as i64));
                    self.tell_terms(at, number);
                }
            }
            Told::Command(command) => commands::carry_out(self, command),
            Told::Config(config) => {
                self.registry.manage_all = config.manage_all;
                self.actuator.visible = config.visible;
                if self.configured != config.policy {
                    self.set_policy(&config.policy);
                    self.configured = config.policy;
                }
                self.tell_all_terms(at);
            }
            _ => {}
        }
    }

    /// The container a process is in.
    pub(crate) fn at_home(&mut self, at: Instant, home: Home) -> Option<ContainerId> {
        let (container, ask) = self.registry.home(home);
        if let Some(number) = container {
            self.tell_terms(at, number);
            let ask = self.registry.ask_once(number) || ask;
            self.ask_about(number, ask);
        }
        container
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
            self.probed.stale = true;
        }
    }

    fn tell_all_terms(&mut self, at: Instant) {
        let numbers: Vec<ContainerId> = self.registry.all().map(|known| known.number).collect();
        numbers.into_iter().for_each(|number| self.tell_terms(at, number));
    }

    fn on_container(&mut self, at: Instant, id: &str, fact: impl FnOnce(ContainerId) -> Fact) {
        if let Some(number) = self.registry.by_id(id) {
            self.learn(at, fact(number));
            self.probed.stale = true;
        }
    }

    /// What we paused ourselves is not somebody's wish.
    fn on_paused(&mut self, at: Instant, id: &str) {
        if self.registry.by_id(id).is_some_and(|number| self.actuator.paused(number)) {
            self.on_container(at, id, Fact::ContainerPaused);
        }
    }

    fn on_resumed(&mut self, at: Instant, id: &str) {
        self.on_container(at, id, Fact::ContainerResumed);
        let number = self.registry.by_id(id);
        let happened = number.map(|number| self.actuator.resumed(number)).unwrap_or_default();
        self.note(at, happened);
    }

    fn on_started(&mut self, at: Instant, id: &str) {
        self.on_container(at, id, Fact::ContainerStarted);
        if let Some(number) = self.registry.by_id(id) {
            self.actuator.started(number);
        }
    }

    fn part(&mut self, at: Instant, id: &str) {
        if let Some(number) = self.registry.by_id(id) {
            self.learn(at, Fact::ContainerGone(number));
            self.measure_no_more(number);
            self.registry.forget(number);
            self.actuator.forget(number);
            self.latest.remove(&number);
        }
    }

    /// Docker tells when a container is removed. Of others nobody does, so they are forgotten when they are many and idle.
    fn forget_the_idle(&mut self, at: Instant) {
        for number in self.registry.forgettable() {
            let known_on_gpus = self.scheduler.tracker().tasks().filter_map(|task| task.container);
            let busy = known_on_gpus.chain(self.probed.starting_in()).any(|container| container == number);
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

    /// Tells the actuator of a process that it may be asked to hold.
    pub(crate) fn meet(&mut self, at: Instant, key: (sched::Process, GpuId), container: Option<ContainerId>) {
        let known = container.and_then(|number| self.registry.get(number));
        let Some(known) = known.filter(|_| sched_knows(&self.scheduler, key)) else { return };
        let (number, id, name) = (known.number, known.id.clone(), known.name.clone());
        let happened = self.actuator.meet(key, number, &id, &name);
        self.note(at, happened);
    }

    pub(crate) fn learn(&mut self, at: Instant, fact: Fact) {
        if self.facts.len() == FACTS_KEPT {
            self.facts.pop_front();
        }
        self.facts.push_back((at, fact));
        if let Some(journal) = &mut self.journal {
            journal.fact(at, &fact);
        }
        match catch_unwind(AssertUnwindSafe(|| self.scheduler.learn(at, fact))) {
            Ok(events) => self.tell(&events),
            Err(_) => self.fall_back(None),
        }
    }

    /// Takes in what came of a deed.
    pub(crate) fn note(&mut self, at: Instant, happened: Vec<Happened>) {
        for one in happened {
            match one {
                Happened::Fact(fact) => self.learn(at, fact),
                Happened::Frozen(container) => {
                    self.probed.stale = true;
                    self.tell_of_container(at, container, "frozen");
                }
                Happened::Thawed(container) => {
                    self.probed.stale = true;
                    self.tell_of_container(at, container, "thawed");
                }
                Happened::Unswappable(container, why) => {
                    if let Some((at_us, line)) = views::unswappable(self, at, container, &why) {
                        self.feed.tell(at_us, line);
                    }
                }
            }
        }
    }

    /// A process's GPU memory moved, or could not be. One that an earlier agent left out is met first.
    fn on_moved(&mut self, at: Instant, moved: Moved) {
        let process = moved.process;
        let What::Found(line) = moved.what else {
            let happened = self.actuator.moved(moved);
            return self.note(at, happened);
        };
        let Some((_, home)) = process::look(process.pid).filter(|(found, _)| *found == process) else {
            return;
        };
        let container = self.at_home(at, home);
        for (gpu, _) in &line.rooms {
            self.on_gpu(at, process, GpuId(*gpu), container, true);
        }
        let happened = self.actuator.adopt(line);
        self.note(at, happened);
    }

    fn tell_of_container(&mut self, at: Instant, container: ContainerId, what: &str) {
        if let Some((at_us, line)) = views::container_event(self, at, container, what) {
            self.feed.tell(at_us, line);
        }
    }

    /// Decides until there is nothing more to be done at once.
    fn decide(&mut self) {
        for _ in 0..ROUNDS_MAX {
            let now = clock::now();
            let Ok((events, actions)) = catch_unwind(AssertUnwindSafe(|| self.scheduler.decide(now))) else {
                self.fall_back(self.scheduler.deciding());
                continue;
            };
            self.tell(&events);
            if let Some(journal) = &mut self.journal {
                journal.decided(now, &actions);
            }
            if actions.is_empty() {
                return;
            }
            // From the first hold on the guard's patience counts.
            if let Some(guard) = &mut self.guard {
                guard.renew(true);
            }
            for action in actions {
                if let Some(task) = self.scheduler.tracker().task(action.task()).copied() {
                    // Who is let go may stand again before we hear that it was let go: that is no old news. So a release counts
                    // from before the deed, and a hold from after it.
                    let before = clock::now();
                    let happened = self.actuator.act(action, &task);
                    let is_release =
                        matches!(action, sched::Action::Release { .. } | sched::Action::Pass { .. });
                    // Its probes may be about to leave, and would let it go.
                    self.probed.stale |= !is_release && !self.probed.is_seen(task.process);
                    self.note(if is_release { before } else { clock::now() }, happened);
                }
            }
        }
    }
}

/// Whether the scheduler took a process in: one whose exit was told before its start is old news.
fn sched_knows(scheduler: &Scheduler, (process, gpu): (sched::Process, GpuId)) -> bool {
    scheduler.tracker().tasks_on(gpu).any(|task| task.process == process)
}

mod telling;

#[cfg(test)]
mod stories;
