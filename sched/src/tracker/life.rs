//! The life of a task: what begins it and what ends it, in each mode.

use super::{Event, Finished, GONE_REMEMBERED, Tracker, Usage};
use crate::fact::{GpuId, Process};
use crate::task::{Deadline, Demand, Gate, Grip, Mode, Task, TaskId};
use crate::time::Instant;
use alloc::vec::Vec;

type Key = (Process, GpuId);

impl Tracker {
    /// A process uses a GPU. Pollers say so again and again.
    pub(super) fn on_process(&mut self, key: Key, usage: Usage, events: &mut Vec<Event>) {
        match self.usages.get_mut(&key) {
            Some(known) => {
                if usage.launches_seen && !known.launches_seen {
                    known.launches_seen = true;
                    self.on_task(key, |task| {
                        if task.demand == Demand::Unknown {
                            task.demand = Demand::Host;
                        }
                    });
                }
            }
            None if self.gone.contains(&key.0) => {}
            None => {
                self.usages.insert(key, usage);
                self.gpus.entry(key.1).or_default();
                self.begin_if_started(key, events);
            }
        }
    }

    pub(super) fn on_process_gone(&mut self, at: Instant, process: Process, events: &mut Vec<Event>) {
        if self.gone.len() == GONE_REMEMBERED {
            self.gone.pop_front();
        }
        self.gone.push_back(process);
        let keys: Vec<Key> = self
            .usages
            .range((process, GpuId(0))..=(process, GpuId(u16::MAX)))
            .map(|(key, _)| *key)
            .collect();
        for key in keys {
            let task = self.usages.get(&key).and_then(|usage| usage.task);
            // A burst that had drained ended then, not now.
            let drained = task.and_then(|id| self.tasks.get(&id)).and_then(|task| match task.demand {
                Demand::Drained(since) if task.mode == Mode::Burst => Some(since),
                _ => None,
            });
            self.usages.remove(&key);
            if let Some(task) = task {
                self.end(drained.unwrap_or(at), task, events);
            }
            // With the process, its gate is gone, and so are the tasks that were only waiting for it.
            let leftovers: Vec<TaskId> = self
                .tasks_on(key.1)
                .filter(|task| task.over && task.process == process)
                .map(|task| task.id)
                .collect();
            leftovers.into_iter().for_each(|id| self.forget(id));
        }
    }

    pub(super) fn on_memory(&mut self, at: Instant, key: Key, bytes: u64, events: &mut Vec<Event>) {
        let Some(usage) = self.usages.get_mut(&key) else { return };
        usage.memory = bytes;
        let usage = *usage;
        let task = match (usage.task, self.mode_of(&usage)) {
            (None, Mode::Memory) if bytes > 0 => Some(self.begin(at, key, events)),
            (Some(task), Mode::Memory) if bytes == 0 => {
                self.end(at, task, events);
                None
            }
            (task, _) => task,
        };
        if let Some(task) = task.and_then(|id| self.tasks.get_mut(&id)) {
            task.memory = bytes;
            task.memory_peak = task.memory_peak.max(bytes);
            // What has memory was let in, by us or by nobody.
            task.admitted |= bytes > 0;
            if matches!(task.demand, Demand::AtAllocation(_)) {
                task.demand = Demand::Host;
            }
        }
        self.changed.insert(key.1);
    }

    pub(super) fn on_demand(&mut self, at: Instant, key: Key, demand: Demand, events: &mut Vec<Event>) {
        let Some(usage) = self.usages.get_mut(&key) else { return };
        usage.launches_seen = true;
        let usage = *usage;
        let mode = self.mode_of(&usage);
        let begins = matches!(demand, Demand::Busy | Demand::AtLaunch) && mode == Mode::Burst;
        let id = match usage.task {
            Some(id) => id,
            None if begins => self.begin(at, key, events),
            None => return,
        };
        let Some(task) = self.tasks.get_mut(&id) else { return };
        if let Demand::Drained(since) = task.demand {
            self.drains.remove(&(since + self.burst_gap, id));
        }
        task.demand = demand;
        task.launched |= demand == Demand::Busy;
        if let Demand::AtAllocation(bytes) = demand {
            task.memory_asked = task.memory_asked.max(task.memory + bytes);
        }
        self.changed.insert(key.1);
        if demand != Demand::Busy {
            self.becomes_idle(at, id);
        }
        match demand {
            Demand::Busy => {
                self.becomes_busy(at, id);
                self.go_on(at, id, events);
            }
            Demand::Drained(since) if mode == Mode::Burst => {
                self.drains.insert((since + self.burst_gap, id));
                events.extend(self.advance(at));
            }
            Demand::AtLaunch => self.come_to_a_stand(at, id, Gate::Launches, events),
            Demand::AtAllocation(_) => self.come_to_a_stand(at, id, Gate::Allocations, events),
            Demand::Drained(_) | Demand::Host | Demand::Unknown => {}
        }
    }

    /// In `process` mode, being on the GPU is enough.
    pub(super) fn begin_if_started(&mut self, key: Key, events: &mut Vec<Event>) {
        let Some(usage) = self.usages.get(&key).copied() else { return };
        if self.mode_of(&usage) == Mode::Process {
            self.begin(usage.since, key, events);
        }
    }

    fn begin(&mut self, at: Instant, key: Key, events: &mut Vec<Event>) -> TaskId {
        let usage = *self.usages.get(&key).expect("a task begins on a process that is known");
        self.tasks_seen += 1;
        let id = TaskId(self.tasks_seen);
        let mut task = Task::new(id, key.0, key.1, at);
        task.container = usage.container;
        // Only a task that spans the process can have begun before the process was seen.
        task.mode = self.mode_of(&usage);
        task.approximate = usage.approximate && task.mode != Mode::Burst;
        task.demand = if usage.launches_seen { Demand::Host } else { Demand::Unknown };
        task.memory = usage.memory;
        task.memory_peak = usage.memory;
        task.admitted = usage.memory > 0;
        self.tasks.insert(id, task);
        self.usages.insert(key, Usage { task: Some(id), ..usage });
        self.gpus.entry(key.1).or_default().tasks.insert(id);
        self.changed.insert(key.1);
        let container = usage.container.and_then(|container| self.containers.get_mut(&container));
        let deadline = container.and_then(|container| {
            container.latest = None;
            container.gpu = Some(key.1);
            container.terms.deadline
        });
        events.push(Event::Started { task: id, at });
        self.set_deadline(id, deadline);
        events.extend(self.advance(at));
        id
    }

    pub(super) fn end(&mut self, at: Instant, id: TaskId, events: &mut Vec<Event>) {
        self.becomes_idle(at, id);
        let Some(task) = self.tasks.get(&id).copied() else { return };
        // Facts cross: an end from before the start means a very short task, not a negative one.
        let end = at.max(task.start);
        let finished = Finished {
            task: id,
            process: task.process,
            container: task.container,
            gpu: task.gpu,
            start: task.start,
            end,
            approximate: task.approximate,
            deadline: task.deadline,
            float: task.float(end),
            waited: task.waited(end),
            served: self.served(&task, end),
            stops: task.stops,
            memory_peak: task.memory_peak,
            core_permille: task.core_permille,
        };
        if let Some(container) = task.container.and_then(|container| self.containers.get_mut(&container)) {
            container.remember(&finished);
        }
        events.push(Event::Finished(finished));
        let key = (task.process, task.gpu);
        let alive = self.usages.contains_key(&key);
        if let Some(usage) = self.usages.get_mut(&key) {
            usage.task = None;
        }
        if alive && task.grip != Grip::Free {
            self.leave(id);
        } else {
            self.forget(id);
        }
    }

    /// The task is over, but its gate is not open yet: without this, the next burst of the same
    /// process would stand at a gate that belongs to nobody.
    fn leave(&mut self, id: TaskId) {
        self.unlist(id);
        if let Some(task) = self.tasks.get_mut(&id) {
            task.over = true;
            self.changed.insert(task.gpu);
        }
    }

    pub(super) fn forget(&mut self, id: TaskId) {
        self.becomes_idle(self.clock, id);
        self.unlist(id);
        let Some(task) = self.tasks.remove(&id) else { return };
        if let Grip::Holding(ask, _) | Grip::Releasing(ask) = task.grip {
            self.asked.remove(&ask.request);
        }
        if let Some(gpu) = self.gpus.get_mut(&task.gpu) {
            gpu.tasks.remove(&id);
        }
        self.changed.insert(task.gpu);
    }

    /// Takes a task off the lists that time works on.
    fn unlist(&mut self, id: TaskId) {
        let Some(task) = self.tasks.get(&id) else { return };
        if let Some(due) = task.due() {
            self.dues.remove(&(due, id));
        }
        if let Demand::Drained(since) = task.demand {
            self.drains.remove(&(since + self.burst_gap, id));
        }
    }

    pub(super) fn set_deadline(&mut self, id: TaskId, deadline: Option<Deadline>) {
        let Some(task) = self.tasks.get_mut(&id) else { return };
        if let Some(due) = task.due() {
            self.dues.remove(&(due, id));
        }
        task.deadline = deadline;
        if let Some(due) = task.due() {
            self.dues.insert((due, id));
        }
        // Against a new deadline nothing is missed yet; if that one has passed too, time will tell.
        if core::mem::take(&mut task.missed)
            && let Some(known) = task.container.and_then(|container| self.containers.get_mut(&container))
        {
            known.latest = None;
        }
        self.changed.insert(task.gpu);
    }

    fn mode_of(&self, usage: &Usage) -> Mode {
        let running = usage.task.and_then(|id| self.tasks.get(&id)).map(|task| task.mode);
        let container = usage.container.and_then(|container| self.containers.get(&container));
        running.unwrap_or(container.map_or(Mode::Process, |container| container.terms.mode))
    }
}
