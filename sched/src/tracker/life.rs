//! The life of a task: what begins it and what ends it, in each mode.
//!
//! A process on a GPU always has exactly one task. In `burst` and `memory` mode there are times when none
//! is under way; then the process's next one is *dormant*: nobody counts it or hears of it, but it has the
//! gate. So a server's next request can be held at its first launch, and a gate that was shut when a request
//! ended belongs to the next one, not to nobody.

use super::{Event, Finished, GONE_REMEMBERED, Tracker, Usage};
use crate::fact::{GpuId, Process};
use crate::task::{Deadline, Demand, Gate, Mode, Task, TaskId};
use crate::time::{Instant, Span};
use alloc::vec::Vec;

type Key = (Process, GpuId);

impl Tracker {
    /// A process uses a GPU. Pollers say so again and again.
    pub(super) fn on_process(&mut self, key: Key, usage: Usage, events: &mut Vec<Event>) {
        if let Some(known) = self.usages.get_mut(&key) {
            known.launches_seen |= usage.launches_seen;
            let found = usage.container.filter(|_| known.container.is_none());
            known.container = known.container.or(usage.container);
            self.on_task(key, |task| {
                if usage.launches_seen && task.demand == Demand::Unknown {
                    task.demand = Demand::Host;
                }
                task.container = task.container.or(usage.container);
            });
            let terms = found.and_then(|found| Some((found, self.containers.get(&found)?.terms)));
            if let Some((container, terms)) = terms {
                self.on_terms(self.clock, container, terms, events);
            }
            return;
        }
        if self.has_left(key.0) {
            return;
        }
        self.starts_again(usage.container);
        let id = self.new_id(true);
        let mut task = Task::new(id, key.0, key.1, usage.since);
        task.container = usage.container;
        task.mode = self.container_of(&task).map_or(Mode::Process, |container| container.terms.mode);
        task.demand = if usage.launches_seen { Demand::Host } else { Demand::Unknown };
        task.dormant = true;
        self.gpus.entry(key.1).or_default();
        self.usages.insert(key, Usage { task: id, ..usage });
        self.put(&task);
        self.begin_if_due(usage.since, id, events);
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
            let Some(usage) = self.usages.remove(&key) else { continue };
            let Some(task) = self.tasks.get(&usage.task) else { continue };
            // A burst that had drained ended then, not now.
            let end = match task.demand {
                Demand::Drained(since) if task.mode == Mode::Burst => since,
                _ => at,
            };
            self.finish(end, usage.task, events);
            self.forget(usage.task);
        }
    }

    pub(super) fn on_memory(&mut self, at: Instant, key: Key, bytes: u64, events: &mut Vec<Event>) {
        let Some(id) = self.usages.get(&key).map(|usage| usage.task) else { return };
        // What is said of memory on its way says nothing of what the task has.
        let Some(task) = self.tasks.get_mut(&id).filter(|task| !task.is_away()) else { return };
        if bytes != task.memory {
            // What it asked for it has: it moves on, and from here on what it has counts. Pollers say
            // the same figure again and again, which is no sign of that.
            task.memory_asked = None;
            if matches!(task.demand, Demand::AtAllocation(_)) {
                task.demand = Demand::Host;
            }
        }
        if bytes > 0 {
            task.context_at.get_or_insert(at);
        }
        let had = core::mem::replace(&mut task.memory, bytes);
        task.memory_peak = task.memory_peak.max(bytes);
        // What has memory was let in, by us or by nobody.
        task.admitted |= bytes > 0;
        if let Some(gpu) = self.gpus.get_mut(&key.1) {
            gpu.has_changed(at, had, bytes);
        }
        self.changed.insert(key.1);
        self.begin_if_due(at, id, events);
        let over = |task: &Task| task.mode == Mode::Memory && !task.dormant && bytes == 0;
        if self.tasks.get(&id).is_some_and(over) {
            self.end(at, id, events);
        }
    }

    /// What a process does on the GPU. Facts of several processors cross, so one from before the last that
    /// was taken in is old news.
    pub(super) fn on_demand(&mut self, at: Instant, key: Key, demand: Demand, events: &mut Vec<Event>) {
        let Some(usage) = self.usages.get_mut(&key) else { return };
        usage.launches_seen = true;
        let id = usage.task;
        let Some(task) = self.tasks.get_mut(&id) else { return };
        let stands = matches!(demand, Demand::AtLaunch | Demand::AtAllocation(_));
        if at < task.demand_at || (stands && at < task.free_since) {
            return;
        }
        let id = self.end_if_over(at, id, events);
        self.unlist(id);
        let Some(task) = self.tasks.get_mut(&id) else { return };
        task.demand_at = at;
        task.demand = demand;
        if stands || demand == Demand::Busy {
            task.context_at.get_or_insert(at);
        }
        task.launched |= demand == Demand::Busy;
        task.only_copies &= matches!(demand, Demand::Drained(_));
        task.memory_asked = match demand {
            Demand::AtAllocation(bytes) => Some(task.memory.saturating_add(bytes)),
            _ => None,
        };
        self.list(id);
        self.changed.insert(key.1);
        let id = self.begin_if_due(at, id, events);
        self.note_demand(at, key, demand, events);
        if demand != Demand::Busy {
            self.becomes_idle(at, id);
        }
        match demand {
            // It waits inside the driver, with all it asked for.
            Demand::Busy if self.tasks.get(&id).is_some_and(Task::is_away) => {}
            // Told late: it was frozen since, and stands.
            Demand::Busy if self.tasks.get(&id).is_some_and(|task| task.stopped_since > Some(at)) => {}
            Demand::Busy => {
                self.becomes_busy(at, id);
                self.slips_through(at, id);
                self.go_on(at, id, events);
            }
            Demand::Drained(_) => events.extend(self.advance(at)),
            Demand::AtLaunch => self.come_to_a_stand(at, id, Gate::Launches, events),
            Demand::AtAllocation(_) => self.come_to_a_stand(at, id, Gate::Allocations, events),
            Demand::Host | Demand::Unknown => {}
        }
    }

    /// What a process does next tells that nothing came before it. The number of its task, which is new if the one before is over.
    fn end_if_over(&mut self, at: Instant, id: TaskId, events: &mut Vec<Event>) -> TaskId {
        let Some(task) = self.tasks.get(&id).copied() else { return id };
        match task.demand {
            Demand::Drained(since) if task.mode == Mode::Burst && since + self.burst_gap <= at => {
                self.end(since, id, events);
                self.usages.get(&(task.process, task.gpu)).map_or(id, |usage| usage.task)
            }
            _ => id,
        }
    }

    /// Input on its way to the GPU is the beginning of a burst, but nothing to keep others waiting for.
    pub(super) fn on_copying(&mut self, at: Instant, key: Key, events: &mut Vec<Event>) {
        self.on_demand(at, key, Demand::Host, events);
        self.on_task(key, |task| task.only_copies = task.demand_at == at && task.demand == Demand::Host);
        let task = self.usages.get(&key).and_then(|usage| self.tasks.get(&usage.task));
        if let Some(id) =
            task.filter(|task| task.mode == Mode::Burst && task.demand_at == at).map(|task| task.id)
        {
            self.begin(at, id, events);
        }
    }

    /// Begins a dormant task if what delimits it has come. Its number, which is new if it began.
    pub(super) fn begin_if_due(&mut self, at: Instant, id: TaskId, events: &mut Vec<Event>) -> TaskId {
        let Some(task) = self.tasks.get(&id).copied().filter(|task| task.dormant) else { return id };
        let due = match task.mode {
            Mode::Process => true,
            Mode::Memory => task.memory > 0,
            Mode::Burst => matches!(task.demand, Demand::Busy | Demand::AtLaunch),
        };
        if due { self.begin(at, id, events) } else { id }
    }

    /// Begins a dormant task. Its new number.
    fn begin(&mut self, at: Instant, id: TaskId, events: &mut Vec<Event>) -> TaskId {
        let Some(task) = self.tasks.get(&id).copied().filter(|task| task.dormant) else { return id };
        let usage = self.usages.get(&(task.process, task.gpu)).copied();
        let begun = self.renew(id, |task| {
            task.dormant = false;
            task.start = at;
            // Only a task that spans the process can have begun before the process was seen.
            task.approximate = task.mode != Mode::Burst && usage.is_some_and(|usage| usage.approximate);
            task.memory_peak = task.memory;
        });
        let container = task.container.and_then(|container| self.containers.get_mut(&container));
        let deadline = container.and_then(|container| {
            container.note_start(begun, task.gpu);
            container.terms.deadline
        });
        events.push(Event::Started { task: begun, at });
        self.set_deadline(begun, deadline);
        events.extend(self.advance(at));
        begun
    }

    /// The task is over; the process stays, and its next task is dormant.
    pub(super) fn end(&mut self, at: Instant, id: TaskId, events: &mut Vec<Event>) {
        self.finish(at, id, events);
        self.unlist(id);
        let next = self.renew(id, |task| *task = task.next(at));
        // In `memory` mode the next one must be let in anew.
        if let Some(task) = self.tasks.get_mut(&next) {
            task.admitted = task.memory > 0;
        }
    }

    /// What was under way was no task after all.
    pub(super) fn drop_unfinished(&mut self, id: TaskId) {
        self.unlist(id);
        self.renew(id, |task| {
            *task = Task { busy_since: task.busy_since, ..task.next(task.start) };
        });
    }

    /// Tells of a task's end.
    fn finish(&mut self, at: Instant, id: TaskId, events: &mut Vec<Event>) {
        self.becomes_idle(at, id);
        let Some(task) = self.tasks.get(&id).copied().filter(|task| !task.dormant) else { return };
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
    }

    /// Gives a task another number, and with it another life; its gate and all requests go along.
    fn renew(&mut self, id: TaskId, change: impl FnOnce(&mut Task)) -> TaskId {
        let Some(mut task) = self.take(id) else { return id };
        change(&mut task);
        task.id = self.new_id(task.dormant);
        self.asked.extend(task.asks().map(|ask| (ask.request, task.id)));
        if let Some(usage) = self.usages.get_mut(&(task.process, task.gpu)) {
            usage.task = task.id;
        }
        self.put(&task);
        task.id
    }

    pub(super) fn forget(&mut self, id: TaskId) {
        self.becomes_idle(self.clock, id);
        self.unlist(id);
        let Some(task) = self.take(id) else { return };
        if let Some(gpu) = self.gpus.get_mut(&task.gpu) {
            gpu.departs(self.clock, task.memory_here());
        }
    }

    fn put(&mut self, task: &Task) {
        self.tasks.insert(task.id, *task);
        self.gpus.entry(task.gpu).or_default().tasks.insert(task.id);
        self.changed.insert(task.gpu);
    }

    fn take(&mut self, id: TaskId) -> Option<Task> {
        let task = self.tasks.remove(&id)?;
        for ask in task.asks() {
            self.asked.remove(&ask.request);
        }
        if let Some(gpu) = self.gpus.get_mut(&task.gpu) {
            gpu.tasks.remove(&id);
        }
        self.changed.insert(task.gpu);
        Some(task)
    }

    /// Tasks are numbered in the order they start; dormant ones come after all of those.
    fn new_id(&mut self, dormant: bool) -> TaskId {
        self.tasks_seen += 1;
        if dormant {
            self.dormant_seen += 1;
            self.tasks_seen -= 1;
            TaskId::dormant(self.dormant_seen)
        } else {
            TaskId(self.tasks_seen)
        }
    }

    /// Puts a task on the lists that time works on.
    fn list(&mut self, id: TaskId) {
        let Some(task) = self.tasks.get(&id) else { return };
        match task.demand {
            Demand::Drained(since) if task.mode == Mode::Burst => {
                self.drains.insert((since + self.burst_gap, id));
            }
            _ => {}
        }
        let can_miss = !task.dormant && !task.missed && !task.is_done_in_time();
        if let Some(due) = task.due().filter(|_| can_miss) {
            self.dues.insert((due, id));
        }
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
        if self.tasks.get(&id).is_none_or(|task| task.dormant) {
            return;
        }
        self.unlist(id);
        let Some(task) = self.tasks.get_mut(&id) else { return };
        task.deadline = deadline;
        task.missed = false;
        let (gpu, container) = (task.gpu, task.container);
        self.list(id);
        self.changed.insert(gpu);
        if let Some(container) = container.and_then(|container| self.containers.get_mut(&container)) {
            container.note_new_deadline(id);
        }
    }
}

impl Task {
    /// The next task of the same process: it has the gate, the memory and what the process does, no more.
    fn next(&self, now: Instant) -> Task {
        Task {
            container: self.container,
            mode: self.mode,
            dormant: true,
            demand: self.demand,
            demand_at: self.demand_at,
            memory: self.memory,
            memory_peak: self.memory,
            launched: self.launched,
            context_at: self.context_at,
            swap: self.swap,
            swap_at: self.swap_at,
            unswappable: self.unswappable,
            swap_retry: self.swap_retry,
            stopped_since: self.stopped_since.map(|_| now),
            let_in: self.let_in,
            grip: self.grip,
            reason: self.reason,
            held_since: self.held_since,
            held_at: self.held_at,
            free_since: self.free_since,
            unholdable_until: self.unholdable_until,
            ..Task::new(self.id, self.process, self.gpu, now)
        }
        .at_rest()
    }

    /// Drained counts as host time for whoever comes next: the gap between two bursts is nobody's launch.
    fn at_rest(mut self) -> Task {
        if matches!(self.demand, Demand::Drained(_)) {
            self.demand = Demand::Host;
        }
        self.lost = Span::ZERO;
        self
    }
}
