//! A node small enough to tell in a line: facts go in by short names, news and orders come out in words.
//!
//! Every process is named by its pid, starts at 1 in the kernel's unit and uses GPU 0, unless a story says
//! otherwise. Moments are milliseconds.

use crate::action::Action;
use crate::fact::{ContainerId, Fact, GpuId, Outcome, Process, Reading, RequestId, Terms};
use crate::policy::{self, Policy};
use crate::scheduler::{Scheduler, Settings};
use crate::task::{Deadline, Mode, Task, TaskId};
use crate::time::{Instant, Span};
use crate::tracker::{Event, Tracker};
use alloc::boxed::Box;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

pub(crate) const GPU: GpuId = GpuId(0);
pub(crate) const GIB: u64 = 1 << 30;

pub(crate) const fn at(millis: u64) -> Instant {
    Instant::from_micros(millis * 1_000)
}

pub(crate) const fn ms(millis: i64) -> Span {
    Span::from_millis(millis)
}

pub(crate) const fn process(pid: u32) -> Process {
    Process { pid, started: 1 }
}

/// Terms of a container that is ours; a deadline of 0 is none.
pub(crate) fn terms(mode: Mode, deadline_ms: i64) -> Terms {
    Terms { mode, deadline: Deadline::new(ms(deadline_ms)), managed: true, ..Terms::UNMANAGED }
}

/// A container exists on these terms.
pub(crate) fn on_terms(container: u32, terms: Terms) -> Fact {
    Fact::Container { container: ContainerId(container), terms, paused: false }
}

/// A process of a container uses the GPU; what it launches is seen.
pub(crate) fn arrives(pid: u32, container: u32) -> Fact {
    arrives_on(pid, container, GPU)
}

pub(crate) fn arrives_on(pid: u32, container: u32, gpu: GpuId) -> Fact {
    let container = Some(ContainerId(container));
    Fact::Process { process: process(pid), container, gpu, launches_seen: true, approximate: false }
}

/// The same by polling: nobody sees what it launches.
pub(crate) fn polled(pid: u32, container: u32) -> Fact {
    let container = Some(ContainerId(container));
    Fact::Process { process: process(pid), container, gpu: GPU, launches_seen: false, approximate: false }
}

pub(crate) fn exits(pid: u32) -> Fact {
    Fact::ProcessGone(process(pid))
}

pub(crate) fn copies(pid: u32) -> Fact {
    Fact::Copying { process: process(pid), gpu: GPU }
}

pub(crate) fn submits(pid: u32) -> Fact {
    Fact::Submitted { process: process(pid), gpu: GPU }
}

pub(crate) fn drains(pid: u32) -> Fact {
    Fact::Drained { process: process(pid), gpu: GPU }
}

/// It stands at its shut gate, about to launch.
pub(crate) fn stands(pid: u32) -> Fact {
    Fact::AtLaunch { process: process(pid), gpu: GPU }
}

/// Its container was frozen.
pub(crate) fn stopped(pid: u32) -> Fact {
    Fact::Stopped { process: process(pid), gpu: GPU }
}

/// Its container was thawed for another.
pub(crate) fn resumed(pid: u32) -> Fact {
    Fact::Resumed { process: process(pid), gpu: GPU }
}

/// Somebody else ended its hold.
pub(crate) fn let_go(pid: u32) -> Fact {
    Fact::LetGo { process: process(pid), gpu: GPU }
}

/// It stands at its shut gate, about to allocate.
pub(crate) fn asks(pid: u32, bytes: u64) -> Fact {
    Fact::AtAllocation { process: process(pid), gpu: GPU, bytes }
}

pub(crate) fn has(pid: u32, bytes: u64) -> Fact {
    Fact::Memory { process: process(pid), gpu: GPU, bytes }
}

pub(crate) fn answers(request: u64, outcome: Outcome) -> Fact {
    Fact::Answer { request: RequestId(request), outcome }
}

/// A look at the GPU of 10 GiB: how much of its memory is used.
pub(crate) fn reads(memory_used: u64) -> Fact {
    let reading = Reading { core_permille: 500, memory_used, memory_total: 10 * GIB };
    Fact::Gpu { gpu: GPU, reading }
}

/// A tracker, and what it says.
pub(crate) struct Watch {
    pub(crate) tracker: Tracker,
}

impl Watch {
    /// Bursts are over at once, and slicing costs an eighth.
    pub(crate) fn new() -> Watch {
        Watch { tracker: Tracker::new(Span::ZERO, 125) }
    }

    pub(crate) fn hears(&mut self, millis: u64, fact: Fact) -> String {
        in_words(&self.tracker.learn(at(millis), fact))
    }

    pub(crate) fn waits(&mut self, until_ms: u64) -> String {
        in_words(&self.tracker.advance(at(until_ms)))
    }

    /// Hears several facts of one moment.
    pub(crate) fn hears_all<const N: usize>(&mut self, millis: u64, facts: [Fact; N]) {
        for fact in facts {
            self.hears(millis, fact);
        }
    }

    pub(crate) fn task(&self, id: u64) -> &Task {
        self.tracker.task(TaskId(id)).expect("the task is there")
    }

    pub(crate) fn container(&self, id: u32) -> &crate::tracker::Container {
        self.tracker.container(ContainerId(id)).expect("the container is there")
    }
}

/// A scheduler, and what it orders.
pub(crate) struct Desk {
    pub(crate) scheduler: Scheduler,
}

impl Desk {
    pub(crate) fn new(policy: &str) -> Desk {
        Desk::with(Settings::default(), policy::by_name(policy).expect("a policy of that name"))
    }

    pub(crate) fn with(settings: Settings, policy: Box<dyn Policy>) -> Desk {
        Desk { scheduler: Scheduler::new(settings, policy) }
    }

    /// Process 1 of container 1 is due in ten seconds, process 2 of container 2 in twenty; both are busy.
    pub(crate) fn with_two_deadlines(policy: &str) -> Desk {
        let mut desk = Desk::new(policy);
        for (number, deadline_ms) in [(1, 10_000), (2, 20_000)] {
            desk.hears(0, on_terms(number, terms(Mode::Process, deadline_ms)));
            desk.hears(0, arrives(number, number));
            desk.hears(0, submits(number));
        }
        desk
    }

    pub(crate) fn hears(&mut self, millis: u64, fact: Fact) -> String {
        in_words(&self.scheduler.learn(at(millis), fact))
    }

    /// The orders of one decision.
    pub(crate) fn decides(&mut self, millis: u64) -> String {
        let (_, actions) = self.scheduler.decide(at(millis));
        let orders: Vec<String> = actions.iter().map(order).collect();
        orders.join("; ")
    }

    pub(crate) fn task(&self, id: u64) -> &Task {
        self.scheduler.tracker().task(TaskId(id)).expect("the task is there")
    }

    /// When it wants to decide again, in milliseconds.
    pub(crate) fn wakes_at(&self) -> Option<Span> {
        self.scheduler.wake().map(|moment| moment.since(Instant::ZERO))
    }

    pub(crate) fn broken(&self, millis: u64) -> Option<String> {
        crate::check::broken(&self.scheduler, at(millis))
    }
}

/// Events in words, in the order they came.
pub(crate) fn in_words(events: &[Event]) -> String {
    let news: Vec<String> = events.iter().map(piece_of_news).collect();
    news.join("; ")
}

fn piece_of_news(event: &Event) -> String {
    match event {
        Event::Started { task, at } => format!("{} starts at {}", task.0, shown(*at)),
        Event::Missed { task, at } => format!("{} misses at {}", task.0, shown(*at)),
        Event::Held { task, at, because } => {
            let because = because.map_or("no reason".to_string(), |because| because.words(name));
            format!("{} stands at {}: {because}", task.0, shown(*at))
        }
        Event::Released { task, at, waited, .. } => {
            format!("{} goes on at {} after {waited}", task.0, shown(*at))
        }
        Event::SwappedOut { task, at, bytes, .. } => {
            format!("{} is out at {}, {} GiB", task.0, shown(*at), bytes >> 30)
        }
        Event::SwappedIn { task, at, away, .. } => {
            format!("{} is back at {} after {away}", task.0, shown(*at))
        }
        Event::Finished(finished) => {
            let float = finished.float.map_or("no".to_string(), |float| float.to_string());
            format!("{} ends at {}, {float} float", finished.task.0, shown(finished.end))
        }
        Event::Suggested { task, at, gaps } => {
            format!("{} looks like a server at {}, {gaps} gaps", task.0, shown(*at))
        }
        Event::Forgotten { task } => format!("{} is forgotten", task.0),
    }
}

/// One order in words, its number first.
fn order(action: &Action) -> String {
    match action {
        Action::Hold { request, task, gate, because } => {
            let gate = format!("{gate:?}").to_lowercase();
            format!("#{} hold {} at {gate}: {}", request.0, task.0, because.words(name))
        }
        Action::Release { request, task, because } => {
            format!("#{} release {}: {}", request.0, task.0, because.words(name))
        }
        Action::Pass { request, task, because } => {
            format!("#{} pass {}: {}", request.0, task.0, because.words(name))
        }
        Action::SwapOut { request, task, because } => {
            format!("#{} swap out {}: {}", request.0, task.0, because.words(name))
        }
        Action::SwapIn { request, task, asks, because } => {
            let asks = if *asks { ", to its next allocation" } else { "" };
            format!("#{} swap in {}{asks}: {}", request.0, task.0, because.words(name))
        }
    }
}

fn name(task: TaskId) -> String {
    task.0.to_string()
}

fn shown(moment: Instant) -> Span {
    moment.since(Instant::ZERO)
}
