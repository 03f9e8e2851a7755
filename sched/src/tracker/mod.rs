//! Facts become tasks: which container uses which GPU, since when, until when it may, and whether it made it.
//!
//! This is the monitor of both papers (000 Algorithm 1, 001 Algorithm 1) as a state machine. A fact
//! about a task that has left is old news, and changes nothing: Docker, the kernel and the driver
//! each report at their own pace, so facts cross on the way.

mod container;
mod event;
mod gaps;
mod grip;
mod life;
mod share;
mod sound;
#[cfg(test)]
mod stories;
mod swap;

pub use container::{Container, Latest};
pub use event::{Event, Finished};

use crate::fact::{ContainerId, Fact, GpuId, Process, Reading, RequestId, Terms};
use crate::task::{Demand, Mode, Task, TaskId};
use crate::time::{Instant, Span};
use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec::Vec;

/// How many processes that exited are remembered.
const GONE_REMEMBERED: usize = 1024;

/// How long it is remembered what was allocated and given back.
const CHANGES_REMEMBERED: Span = Span::from_secs(1);

/// A process on a GPU. Tasks come and go on it; this stays until it exits.
#[derive(Clone, Copy, Debug)]
struct Usage {
    container: Option<ContainerId>,
    launches_seen: bool,
    approximate: bool,
    since: Instant,
    /// The task it is in, or the one it will be in next.
    task: TaskId,
    gaps: gaps::Gaps,
}

/// A GPU: what was last read from it, and who is on it.
#[derive(Clone, Debug, Default)]
pub struct Gpu {
    /// The last reading, and when it was taken.
    pub reading: Option<(Instant, Reading)>,
    /// What was used then and was no task's own: contexts, other users, processes not seen yet. What tasks allocated since does not change
    /// that.
    pub unexplained: u64,
    /// What was a task's own, and left with it: by swapping, or with its process. No reading was taken since. The last one may be from while it
    /// left, when it hid as much of what nobody explains; and the GPU gives memory back a while after its owner is gone.
    pub departed: u64,
    /// What tasks allocated lately, and when.
    pub allocated: VecDeque<(Instant, u64)>,
    /// What tasks gave back lately, and when: it is seen as it is asked for, and done a little later.
    pub given_back: VecDeque<(Instant, u64)>,
    /// When a policy last let a task in.
    pub let_in_at: Option<Instant>,
    /// When a task that had waited long was last given a while, whatever the policy said.
    pub granted_at: Option<Instant>,
    /// When somebody's memory last came or went as a whole, by swapping or with its process: a reading from before shows what was.
    pub moved_at: Option<Instant>,
    tasks: BTreeSet<TaskId>,
    share: share::Share,
}

impl Gpu {
    /// Somebody looked at it at that moment; `known` is what tasks have now.
    fn read(&mut self, at: Instant, reading: Reading, known: u64) {
        self.reading = Some((at, reading));
        // What was allocated since is not in the reading: it would hide as much of what nobody explains.
        let since = self.allocated.iter().filter(|(since, _)| *since > at);
        let known_then = since.fold(known, |known, (_, bytes)| known.saturating_sub(*bytes));
        self.unexplained = reading.memory_used.saturating_sub(known_then);
        if self.moved_at.is_none_or(|moved| at > moved) {
            self.departed = 0;
        }
    }

    /// A task that had so much has so much now.
    fn has_changed(&mut self, at: Instant, from: u64, to: u64) {
        let changes = if from < to { &mut self.allocated } else { &mut self.given_back };
        while changes.front().is_some_and(|(since, _)| at.since(*since) >= CHANGES_REMEMBERED) {
            changes.pop_front();
        }
        changes.extend((from != to).then_some((at, from.abs_diff(to))));
    }

    /// A task's memory left with it.
    fn departs(&mut self, at: Instant, bytes: u64) {
        if bytes > 0 {
            self.departed = self.departed.saturating_add(bytes);
            self.moved_at = self.moved_at.max(Some(at));
        }
    }
}

/// Everything known, and nothing else.
#[derive(Clone, Debug, Default)]
pub struct Tracker {
    /// How long a burst must stay drained before it counts as over.
    burst_gap: Span,
    /// How much slower time slicing makes kernels, in thousandths.
    slicing_permille: i64,
    containers: BTreeMap<ContainerId, Container>,
    usages: BTreeMap<(Process, GpuId), Usage>,
    tasks: BTreeMap<TaskId, Task>,
    gpus: BTreeMap<GpuId, Gpu>,
    /// Who is due when, of those that have not missed.
    dues: BTreeSet<(Instant, TaskId)>,
    /// Bursts that drained, and when they are over unless they launch again.
    drains: BTreeSet<(Instant, TaskId)>,
    /// Processes that exited lately, the oldest first: word of a process can come after word of its end.
    gone: VecDeque<Process>,
    /// Requests not answered yet.
    asked: BTreeMap<RequestId, TaskId>,
    /// GPUs about which something changed since the last decision.
    changed: BTreeSet<GpuId>,
    tasks_seen: u64,
    dormant_seen: u64,
    clock: Instant,
    /// How far the probes have told what they saw; none where they tell at once.
    heard: Option<Instant>,
}

impl Tracker {
    /// A tracker that knows nothing. A burst is over once it stayed drained for `burst_gap`; kernels of
    /// several processes are slower by `slicing_permille`.
    pub fn new(burst_gap: Span, slicing_permille: i64) -> Tracker {
        Tracker { burst_gap, slicing_permille, ..Tracker::default() }
    }

    /// Takes in one fact, true since `at`, and says what follows from it.
    pub fn learn(&mut self, at: Instant, fact: Fact) -> Vec<Event> {
        if fact == Fact::Heard {
            self.heard = self.heard.max(Some(at));
        }
        let mut events = self.advance(at);
        match fact {
            Fact::Container { container, terms, paused } => {
                self.on_terms(at, container, terms, &mut events);
                self.on_container(container, |c| c.paused = paused);
            }
            Fact::ContainerGone(container) => self.on_container_gone(at, container, &mut events),
            Fact::ContainerPaused(container) => self.on_paused(at, container, true),
            Fact::ContainerResumed(container) => self.on_paused(at, container, false),
            Fact::ContainerStopping(container) => self.on_container(container, |c| c.stopping = true),
            Fact::ContainerStarted(container) => {
                self.on_container(container, |c| (c.paused, c.stopping) = (false, false));
            }
            Fact::Process { process, container, gpu, launches_seen, approximate } => {
                let task = TaskId::dormant(0);
                let gaps = gaps::Gaps::default();
                let usage = Usage { container, launches_seen, approximate, since: at, task, gaps };
                self.on_process((process, gpu), usage, &mut events);
            }
            Fact::ProcessGone(process) => self.on_process_gone(at, process, &mut events),
            Fact::Memory { process, gpu, bytes } => self.on_memory(at, (process, gpu), bytes, &mut events),
            Fact::Core { process, gpu, permille } => {
                self.on_task((process, gpu), |task| task.core_permille = task.core_permille.max(permille));
                self.note_work(at, (process, gpu), permille > 0, &mut events);
            }
            Fact::Copying { process, gpu } => self.on_copying(at, (process, gpu), &mut events),
            Fact::Submitted { process, gpu } => {
                self.on_demand(at, (process, gpu), Demand::Busy, &mut events);
            }
            Fact::Drained { process, gpu } => {
                self.on_demand(at, (process, gpu), Demand::Drained(at), &mut events);
            }
            Fact::AtLaunch { process, gpu } => {
                self.on_demand(at, (process, gpu), Demand::AtLaunch, &mut events);
            }
            Fact::AtAllocation { process, gpu, bytes } => {
                self.on_demand(at, (process, gpu), Demand::AtAllocation(bytes), &mut events);
            }
            Fact::Stopped { process, gpu } => self.on_stopped(at, (process, gpu), &mut events),
            Fact::Resumed { process, gpu } => self.on_resumed(at, (process, gpu), &mut events),
            Fact::LetGo { process, gpu } => self.on_let_go(at, (process, gpu), &mut events),
            Fact::SwappedOut { process, gpu, bytes } => {
                self.on_swapped_out(at, (process, gpu), bytes, &mut events);
            }
            Fact::SwappedIn { process, gpu, asks } => {
                self.on_swapped_in(at, (process, gpu), asks, &mut events);
            }
            Fact::Heard => {}
            Fact::Gpu { gpu, reading } => {
                let known = self.memory_on(gpu);
                self.gpus.entry(gpu).or_default().read(at, reading, known);
                self.changed.insert(gpu);
            }
            Fact::Answer { request, outcome } => self.on_answer(at, request, outcome, &mut events),
        }
        events
    }

    /// Lets time pass: a deadline that went by is a miss at that moment, and a burst that stayed
    /// drained is over.
    pub fn advance(&mut self, now: Instant) -> Vec<Event> {
        self.clock = self.clock.max(now);
        let mut events = Vec::new();
        // A launch may have been made in time, and be told late.
        let heard = self.heard.map_or(self.clock, |heard| heard.min(self.clock));
        while let Some(&(over_at, task)) = self.drains.first() {
            if over_at > heard {
                break;
            }
            self.drains.pop_first();
            self.end(over_at - self.burst_gap, task, &mut events);
        }
        // Nor has a burst missed before it is known that it did not drain in time.
        let known = |task: &Task| if task.mode == Mode::Burst { heard } else { self.clock };
        let passed = self.dues.iter().take_while(|(due, _)| *due < self.clock);
        let has_missed =
            |(due, id): &&(Instant, TaskId)| self.tasks.get(id).is_none_or(|task| *due < known(task));
        let missed: Vec<(Instant, TaskId)> = passed.filter(has_missed).copied().collect();
        for (due, id) in missed {
            self.dues.remove(&(due, id));
            if let Some(task) = self.tasks.get_mut(&id) {
                task.missed = true;
                self.changed.insert(task.gpu);
                self.note_miss(id);
                events.push(Event::Missed { task: id, at: due });
            }
        }
        events
    }

    /// When time alone will change something next.
    pub fn next_moment(&self) -> Option<Instant> {
        let dues = self.dues.iter().map(|(due, _)| *due + Span::from_micros(1));
        let drains = self.drains.iter().map(|(over_at, _)| *over_at);
        // What has come waits for word, not for time.
        let to_come = |moment: &Instant| *moment > self.clock;
        let (due, drain) = (dues.into_iter().find(to_come), drains.into_iter().find(to_come));
        due.into_iter().chain(drain).min()
    }

    /// Whether a process exited lately. Word of it that comes after word of its end is old news.
    pub fn has_left(&self, process: Process) -> bool {
        self.gone.contains(&process)
    }

    /// Whether a burst is over, or has missed, unless the probes saw more than they have told: `Fact::Heard` will tell.
    pub fn awaits_word(&self) -> bool {
        let drained = self.drains.first().is_some_and(|(over_at, _)| *over_at <= self.clock);
        drained || self.dues.first().is_some_and(|(due, _)| *due < self.clock)
    }

    /// The latest moment any fact spoke of.
    pub fn clock(&self) -> Instant {
        self.clock
    }

    /// One task, if it is still there.
    pub fn task(&self, id: TaskId) -> Option<&Task> {
        self.tasks.get(&id)
    }

    /// All tasks in the order they started, then the dormant ones.
    pub fn tasks(&self) -> impl Iterator<Item = &Task> {
        self.tasks.values()
    }

    /// The tasks on one GPU in the order they started, then the dormant ones.
    pub fn tasks_on(&self, gpu: GpuId) -> impl Iterator<Item = &Task> {
        self.gpus.get(&gpu).into_iter().flat_map(|gpu| &gpu.tasks).filter_map(|id| self.tasks.get(id))
    }

    /// GPU memory that known processes have on one GPU.
    pub fn memory_on(&self, gpu: GpuId) -> u64 {
        self.tasks_on(gpu).fold(0, |sum, task| sum.saturating_add(task.memory_here()))
    }

    /// One GPU.
    pub fn gpu(&self, gpu: GpuId) -> Option<&Gpu> {
        self.gpus.get(&gpu)
    }

    /// All GPUs seen so far.
    pub fn gpus(&self) -> impl Iterator<Item = GpuId> {
        self.gpus.keys().copied()
    }

    /// One container.
    pub fn container(&self, container: ContainerId) -> Option<&Container> {
        self.containers.get(&container)
    }

    /// All containers.
    pub fn containers(&self) -> impl Iterator<Item = (ContainerId, &Container)> {
        self.containers.iter().map(|(id, container)| (*id, container))
    }

    /// The container a task belongs to, if that is known.
    pub fn container_of(&self, task: &Task) -> Option<&Container> {
        self.containers.get(&task.container?)
    }

    /// On which terms a task runs.
    pub fn terms_of(&self, task: &Task) -> Terms {
        self.container_of(task).map_or(Terms::UNMANAGED, |container| container.terms)
    }

    /// The GPUs about which something changed since this was last asked.
    pub(crate) fn take_changed(&mut self) -> BTreeSet<GpuId> {
        core::mem::take(&mut self.changed)
    }

    fn on_task(&mut self, key: (Process, GpuId), change: impl FnOnce(&mut Task)) {
        let task = self.usages.get(&key).map(|usage| usage.task);
        if let Some(task) = task.and_then(|id| self.tasks.get_mut(&id)) {
            change(task);
            self.changed.insert(key.1);
        }
    }
}
