//! A container: its terms, its history, and how its tasks fared.

use super::{Event, Finished, Tracker};
use crate::fact::{ContainerId, GpuId, Terms};
use crate::forecast::{Forecast, History};
use crate::task::{Grip, Mode, Task, TaskId};
use crate::time::{Instant, Span};
use alloc::vec::Vec;

/// How a container's latest task with a deadline fared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Latest {
    /// Which task that is.
    pub task: TaskId,
    /// It missed.
    pub missed: bool,
    /// What was left of its deadline when it finished; none while it runs.
    pub float: Option<Span>,
}

/// One container.
#[derive(Clone, Debug)]
pub struct Container {
    /// What the operator asked for.
    pub terms: Terms,
    /// Docker or a person paused it.
    pub paused: bool,
    /// It was told to stop.
    pub stopping: bool,
    /// Finished tasks that made their deadline.
    pub hits: u64,
    /// Finished tasks that did not.
    pub misses: u64,
    /// Its latest task with a deadline, running or finished. A miss lasts until the next task starts.
    pub latest: Option<Latest>,
    /// The GPU its latest task used.
    pub gpu: Option<GpuId>,
    /// The float of its latest finished task.
    pub latest_float: Option<Span>,
    history: History,
}

impl Container {
    fn new(terms: Terms) -> Container {
        Container {
            terms,
            paused: false,
            stopping: false,
            hits: 0,
            misses: 0,
            latest: None,
            gpu: None,
            latest_float: None,
            history: History::default(),
        }
    }

    /// What its next task will be like.
    pub fn forecast(&self) -> Forecast {
        self.history.forecast(&self.terms)
    }

    /// Whether it may be touched now.
    pub fn is_ours(&self) -> bool {
        self.terms.managed && !self.paused && !self.stopping
    }

    pub(super) fn note_start(&mut self, task: TaskId, gpu: GpuId) {
        self.latest = Some(Latest { task, missed: false, float: None });
        self.gpu = Some(gpu);
    }

    /// A task that is given more time has not missed, or will be said to have.
    pub(super) fn note_new_deadline(&mut self, task: TaskId) {
        if let Some(latest) = self.latest.as_mut().filter(|latest| latest.task == task) {
            latest.missed = false;
        }
    }

    pub(super) fn remember(&mut self, finished: &Finished) {
        match finished.hit() {
            Some(true) => self.hits += 1,
            Some(false) => self.misses += 1,
            None => {}
        }
        if let Some(float) = finished.float {
            // An older task that ends after a newer one has begun is not the latest.
            if self.latest.is_none_or(|latest| latest.task <= finished.task) {
                let missed = float < Span::ZERO;
                self.latest = Some(Latest { task: finished.task, missed, float: Some(float) });
            }
            self.latest_float = Some(float);
        }
        // A task whose start was not seen, or that was cut short, says nothing about the next one.
        if !finished.approximate && !self.stopping {
            self.history.remember(finished.served, finished.memory_peak);
        }
    }
}

impl Tracker {
    pub(super) fn on_container(&mut self, container: ContainerId, change: impl FnOnce(&mut Container)) {
        if let Some(known) = self.containers.get_mut(&container) {
            change(known);
            self.touch_container(container);
        }
    }

    /// Docker or a person paused it, or resumed it. Who is paused with work on the GPU has soon none, and shares it with nobody.
    pub(super) fn on_paused(&mut self, at: Instant, container: ContainerId, paused: bool) {
        self.on_container(container, |known| known.paused = paused);
        let theirs = |task: &&Task| task.container == Some(container) && task.is_in_flight();
        let busy: Vec<TaskId> = self.tasks.values().filter(theirs).map(|task| task.id).collect();
        for id in busy {
            if paused {
                self.becomes_idle(at, id);
            } else {
                self.becomes_busy(at, id);
            }
        }
    }

    /// New terms, also for the tasks that run already: `leeway deadline set` and Docker's word of a
    /// container both may come after its task has started.
    pub(super) fn on_terms(
        &mut self,
        at: Instant,
        container: ContainerId,
        terms: Terms,
        events: &mut Vec<Event>,
    ) {
        let latest = self.tasks_of(container).into_iter().max().and_then(|id| self.tasks.get(&id));
        let gpu = latest.map(|task| task.gpu);
        let known = self.containers.entry(container).or_insert_with(|| Container::new(terms));
        known.terms = terms;
        // A task that began before its container was known had nobody to tell which GPU it is on.
        known.gpu = known.gpu.or(gpu);
        self.touch_container(container);
        for id in self.tasks_of(container) {
            let Some(task) = self.tasks.get(&id).copied() else { continue };
            if let Some(known) = self.containers.get_mut(&container).filter(|_| !task.dormant) {
                known.gpu = known.gpu.or(Some(task.gpu));
            }
            if task.mode != terms.mode && task.grip == Grip::Free {
                self.take_on_mode(at, &task, terms.mode, events);
            } else if task.deadline != terms.deadline {
                self.set_deadline(id, terms.deadline);
            }
        }
    }

    /// Only now it is known what delimits the tasks of a process: what was under way was none.
    fn take_on_mode(&mut self, at: Instant, task: &Task, mode: Mode, events: &mut Vec<Event>) {
        if !task.dormant {
            events.push(Event::Forgotten { task: task.id });
            self.drop_unfinished(task.id);
        }
        let key = (task.process, task.gpu);
        self.on_task(key, |task| task.mode = mode);
        let Some(usage) = self.usages.get(&key).copied() else { return };
        let since = if mode == Mode::Process { usage.since } else { at };
        let begun = self.begin_if_due(since, usage.task, events);
        // What was under way when its mode became known began before.
        if let Some(task) = self.tasks.get_mut(&begun).filter(|_| mode != Mode::Process) {
            task.approximate = !task.dormant;
        }
    }

    /// A container that was told to stop and has a process again was started again.
    pub(super) fn starts_again(&mut self, container: Option<ContainerId>) {
        let Some(container) = container else { return };
        if self.tasks_of(container).is_empty() {
            self.on_container(container, |known| known.stopping = false);
        }
    }

    pub(super) fn on_container_gone(&mut self, at: Instant, container: ContainerId, events: &mut Vec<Event>) {
        let processes: Vec<_> = self
            .usages
            .iter()
            .filter(|(_, usage)| usage.container == Some(container))
            .map(|(k, _)| k.0)
            .collect();
        for process in processes {
            self.on_process_gone(at, process, events);
        }
        self.containers.remove(&container);
    }

    pub(super) fn note_miss(&mut self, id: TaskId) {
        let container = self.tasks.get(&id).and_then(|task| task.container);
        let known = container.and_then(|container| self.containers.get_mut(&container));
        let is_latest = |known: &&mut Container| known.latest.is_none_or(|latest| latest.task <= id);
        if let Some(known) = known.filter(is_latest) {
            known.latest = Some(Latest { task: id, missed: true, float: None });
        }
    }

    /// The running tasks of one container.
    fn tasks_of(&self, container: ContainerId) -> Vec<TaskId> {
        let of = self.usages.values().filter(|usage| usage.container == Some(container));
        of.map(|usage| usage.task).collect()
    }

    fn touch_container(&mut self, container: ContainerId) {
        let of = self.usages.iter().filter(|(_, usage)| usage.container == Some(container));
        self.changed.extend(of.map(|((_, gpu), _)| *gpu));
    }
}
