//! A container: its terms, its history, and how its tasks fared.

use super::{Event, Finished, Tracker};
use crate::fact::{ContainerId, GpuId, Process, Terms};
use crate::forecast::{Forecast, History};
use crate::task::{Demand, Grip, TaskId};
use crate::time::{Instant, Span};
use alloc::vec::Vec;

/// How a container's latest task with a deadline fared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Latest {
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

    pub(super) fn remember(&mut self, finished: &Finished) {
        match finished.hit() {
            Some(true) => self.hits += 1,
            Some(false) => self.misses += 1,
            None => {}
        }
        if let Some(float) = finished.float {
            self.latest = Some(Latest { missed: float < Span::ZERO, float: Some(float) });
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
            if task.mode != terms.mode && task.grip == Grip::Free {
                self.forget(id);
                events.push(Event::Forgotten { task: id });
                self.restart(at, (task.process, task.gpu), task.demand, events);
            } else if task.deadline != terms.deadline {
                self.set_deadline(id, terms.deadline);
            }
        }
    }

    pub(super) fn on_container_gone(&mut self, at: Instant, container: ContainerId, events: &mut Vec<Event>) {
        if let Some(known) = self.containers.get_mut(&container) {
            known.stopping = true;
        }
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
        if let Some(known) = container.and_then(|container| self.containers.get_mut(&container)) {
            known.latest = Some(Latest { missed: true, float: None });
        }
    }

    /// The running tasks of one container.
    fn tasks_of(&self, container: ContainerId) -> Vec<TaskId> {
        let of = self.usages.values().filter(|usage| usage.container == Some(container));
        of.filter_map(|usage| usage.task).collect()
    }

    fn touch_container(&mut self, container: ContainerId) {
        let of = self.usages.iter().filter(|(_, usage)| usage.container == Some(container));
        self.changed.extend(of.map(|((_, gpu), _)| *gpu));
    }

    /// Starts over with a process whose container's mode became known only now.
    fn restart(&mut self, at: Instant, key: (Process, GpuId), demand: Demand, events: &mut Vec<Event>) {
        let Some(usage) = self.usages.get(&key).copied() else { return };
        self.usages.insert(key, super::Usage { task: None, ..usage });
        self.begin_if_started(key, events);
        if usage.memory > 0 {
            self.on_memory(at, key, usage.memory, events);
        }
        if matches!(demand, Demand::Busy | Demand::AtLaunch) {
            self.on_demand(at, key, demand, events);
        }
    }
}
