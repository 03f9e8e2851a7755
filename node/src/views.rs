//! What is known, in the words and shapes that leave the process.

use crate::clock;
use crate::explain::explain;
use crate::ledger::Row;
use crate::owner::Owner;
use crate::terms;
use sched::node::{Float, report, residents};
use sched::task::Grip;
use sched::{ContainerId, Event, Finished, GpuId, Instant, Process, Reason, Span, Task, TaskId};
use std::collections::HashMap;
use tokio::sync::oneshot::Sender;
use wire::agent::{
    ContainerLine, EventLine, ExplainLine, GpuLine, GpuPolicy, Live, NodeLine, PolicyLine, State, TaskLine,
};
use wire::table::{TableTask, padded};

/// What somebody wants to know, and where the answer goes.
#[derive(Debug)]
pub enum Question {
    /// The tasks that run.
    Tasks(Sender<Vec<TaskLine>>),
    /// The containers.
    Containers(Sender<Vec<ContainerLine>>),
    /// The machine.
    Node(Sender<NodeLine>),
    /// Which policy runs.
    Policy(Sender<PolicyLine>),
    /// Why a container is, or is not, running; or that there is none.
    Explain(String, Sender<Result<ExplainLine, String>>),
}

/// Answers. Somebody who has gone away meanwhile needs none.
pub(crate) fn answer(owner: &Owner, question: Question) {
    match question {
        Question::Tasks(to) => drop(to.send(running(owner).iter().map(Row::line).collect())),
        Question::Containers(to) => drop(to.send(containers(owner))),
        Question::Node(to) => drop(to.send(node(owner))),
        Question::Policy(to) => drop(to.send(policy(owner))),
        Question::Explain(wanted, to) => drop(to.send(explain(owner, &wanted))),
    }
}

/// A finished task, as the ledger keeps it.
pub(crate) fn finished(owner: &Owner, finished: &Finished) -> Row {
    let known = finished.container.and_then(|number| owner.registry.get(number));
    let start_us = start_us(owner, finished.task, finished.start);
    Row {
        container: known.map(|known| known.id.clone()),
        name: known.map(|known| known.name.clone()),
        pid: finished.process.pid,
        gpu: finished.gpu.0,
        mode: known.and_then(|known| known.terms).map(|terms| terms::told(terms.mode)).unwrap_or_default(),
        start_us,
        end_us: Some(start_us + finished.end.since(finished.start).as_micros()),
        now_us: 0,
        deadline_us: finished.deadline.map(|deadline| deadline.span().as_micros()),
        held_us: finished.waited.as_micros(),
        held: false,
        gpu_memory_bytes: finished.memory_peak,
        core_permille: finished.core_permille,
        approximate: finished.approximate,
    }
}

fn running(owner: &Owner) -> Vec<Row> {
    let now = clock::now();
    owner.scheduler.tracker().tasks().filter(|task| !task.dormant).map(|task| row(owner, task, now)).collect()
}

fn row(owner: &Owner, task: &Task, now: Instant) -> Row {
    let known = task.container.and_then(|number| owner.registry.get(number));
    let start_us = start_us(owner, task.id, task.start);
    Row {
        container: known.map(|known| known.id.clone()),
        name: known.map(|known| known.name.clone()),
        pid: task.process.pid,
        gpu: task.gpu.0,
        mode: terms::told(task.mode),
        start_us,
        end_us: None,
        now_us: start_us + now.since(task.start).as_micros(),
        deadline_us: task.deadline.map(|deadline| deadline.span().as_micros()),
        held_us: task.waited(now).as_micros(),
        held: task.stopped_since.is_some(),
        gpu_memory_bytes: task.memory_peak,
        core_permille: task.core_permille,
        approximate: task.approximate,
    }
}

fn start_us(owner: &Owner, task: TaskId, start: Instant) -> i64 {
    owner.starts_us.get(&task).copied().unwrap_or_else(|| clock::wall_us(start))
}

/// When a task is due, on the wall clock as it was when it started.
fn due_us(owner: &Owner, task: &Task) -> Option<i64> {
    Some(start_us(owner, task.id, task.start) + task.deadline?.span().as_micros())
}

/// The table: what runs, then the latest finished task of each container.
pub(crate) fn table(owner: &Owner) -> Vec<TableTask> {
    let running = running(owner);
    running.iter().map(in_table).chain(owner.latest.values().copied()).collect()
}

/// A task as the table has it. What changes all the time, its float, is the reader's to compute.
pub(crate) fn in_table(row: &Row) -> TableTask {
    TableTask {
        container: padded(row.container.as_deref().unwrap_or_default()),
        name: padded(row.name.as_deref().unwrap_or_default()),
        pid: row.pid,
        gpu: row.gpu,
        mode: row.mode,
        approximate: row.approximate,
        held: row.held,
        hit: row.hit(),
        start_us: row.start_us,
        end_us: row.end_us,
        deadline_us: row.deadline_us,
        // While it stands, this would change with every look.
        held_us: if row.held { 0 } else { row.held_us },
        gpu_memory_bytes: row.gpu_memory_bytes,
        core_permille: row.core_permille,
    }
}

fn containers(owner: &Owner) -> Vec<ContainerLine> {
    let now = clock::now();
    let tracker = owner.scheduler.tracker();
    let mut by_container: HashMap<ContainerId, Vec<&Task>> = HashMap::new();
    for task in tracker.tasks().filter(|task| !task.dormant) {
        if let Some(container) = task.container {
            by_container.entry(container).or_default().push(task);
        }
    }
    let line = |known: &crate::registry::Known| {
        let tasks = by_container.get(&known.number).map_or(&[][..], Vec::as_slice);
        let about = tracker.container(known.number);
        let state = match () {
            () if about.is_some_and(|about| about.paused) => State::Frozen,
            () if owner.actuator.has_swapped(known.number) => State::Swapped,
            () if owner.actuator.has_frozen(known.number) => State::Frozen,
            () if tasks.is_empty() => State::Idle,
            () if tasks.iter().all(|task| matches!(task.grip, Grip::Held(_))) => State::Held,
            () => State::Running,
        };
        let least = tasks.iter().filter_map(|task| task.float(now)).min();
        let float = if tasks.is_empty() { about.and_then(|about| about.latest_float) } else { least };
        let live = Live {
            gpu: about.and_then(|about| about.gpu).map(|gpu| gpu.0),
            state,
            float_us: float.map(Span::as_micros),
            hits: about.map_or(0, |about| about.hits),
            misses: about.map_or(0, |about| about.misses),
        };
        let terms = known.terms.unwrap_or(sched::Terms::UNMANAGED);
        let stands = matches!(live.state, State::Held | State::Frozen);
        let waits = tasks.iter().filter(|_| stands).find_map(|task| task.reason);
        ContainerLine {
            id: known.id.clone(),
            name: known.name.clone(),
            image: known.image.clone(),
            namespace: known.namespace().map(str::to_owned),
            pod: known.pod().map(str::to_owned),
            deadline_us: terms.deadline.map(|deadline| deadline.span().as_micros()),
            mode: terms::told(terms.mode),
            managed: terms.managed,
            tasks: tasks.len(),
            due: tasks.iter().filter_map(|task| due_us(owner, task)).min().map(clock::rfc3339),
            reason: waits.map(|reason| reason.words(|id| task_name(owner, id))),
            // A tenant chose these numbers: no sum of them may overflow.
            gpu_memory_bytes: tasks.iter().fold(0, |sum, task| sum.saturating_add(task.memory)),
            gpu_core_ratio: tasks.iter().map(|task| owner.notes.core_ratio((task.process, task.gpu))).sum(),
            live,
        }
    };
    owner.registry.all().map(line).collect()
}

fn node(owner: &Owner) -> NodeLine {
    let tracker = owner.scheduler.tracker();
    let gpus = owner.gpus.iter().map(|(gpu, known)| {
        let reading = tracker.gpu(*gpu).and_then(|gpu| gpu.reading).map(|(_, reading)| reading);
        let told = reading.map(|reading| report(0, &reading, &residents(tracker, *gpu)));
        GpuLine {
            gpu: gpu.0,
            name: known.found.name.clone(),
            uuid: known.found.uuid.clone(),
            mig: known.found.mig.clone(),
            lost: known.lost,
            memory_total_bytes: reading.map_or(0, |reading| reading.memory_total),
            memory_used_bytes: reading.map_or(0, |reading| reading.memory_used),
            core_ratio: reading.map_or(0.0, |reading| f64::from(reading.core_permille) / 1000.0),
            provisionable: !known.lost && told.is_some_and(|told| told.state.provisionable_when_busy()),
            float_us: told.and_then(|told| match told.float_least {
                Float::Limited(span) => Some(span.as_micros()),
                Float::Unlimited => None,
            }),
            tasks: tracker.tasks_on(*gpu).filter(|task| !task.dormant).count(),
        }
    });
    NodeLine {
        node: owner.node.clone(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        since: clock::rfc3339(owner.since_us),
        tier: tier(owner).to_owned(),
        error_us: owner.nvml.map_or(0, |period| error_us(owner, period)),
        policy: owner.policy.clone(),
        docker: owner.docker,
        probe_events_dropped: owner
            .probed
            .launches
            .as_ref()
            .map_or(0, crate::facts::launches::Launches::dropped),
        gpus: gpus.collect(),
    }
}

fn tier(owner: &Owner) -> &'static str {
    match (&owner.nvml, &owner.probed.launches) {
        (None, _) => "none",
        (Some(_), None) => "polling",
        (Some(_), Some(_)) => "probes",
    }
}

/// How wrong a start or an end may be, at most.
fn error_us(owner: &Owner, period: std::time::Duration) -> i64 {
    const PROBES_ERROR_US: i64 = 1000;
    if owner.probed.launches.is_some() { PROBES_ERROR_US } else { period.as_micros() as i64 }
}

/// Which policy runs.
pub(crate) fn policy(owner: &Owner) -> PolicyLine {
    let of =
        |gpu: &sched::GpuId| GpuPolicy { gpu: gpu.0, policy: owner.scheduler.policy(*gpu).name().to_owned() };
    PolicyLine { policy: owner.policy.clone(), gpus: owner.gpus.keys().map(of).collect() }
}

/// What a container is called by people; a task that is in none, by its number.
pub(crate) fn task_name(owner: &Owner, id: TaskId) -> String {
    let container = owner.scheduler.tracker().task(id).and_then(|task| task.container);
    let known = container.and_then(|number| owner.registry.get(number));
    known.map_or_else(|| format!("task {}", id.0), |known| known.name.clone())
}

/// A container was frozen or thawed, for the reason one of its tasks is held or let go.
pub(crate) fn container_event(
    owner: &Owner,
    at: Instant,
    container: ContainerId,
    what: &str,
) -> Option<(i64, EventLine)> {
    let known = owner.registry.get(container)?;
    let tasks = owner.scheduler.tracker().tasks();
    let reasons = tasks.filter(|task| task.container == Some(container)).filter_map(|task| task.reason);
    let reason = reasons.last().map(|reason| reason.words(|id| task_name(owner, id)));
    let at_us = clock::wall_us(at);
    let line = EventLine {
        time: clock::rfc3339(at_us),
        event: what.to_owned(),
        container: Some(known.id.clone()),
        name: Some(known.name.clone()),
        node: owner.node.clone(),
        reason: reason.unwrap_or_else(|| "no task of it is held any more".to_owned()),
        pid: None,
        gpu: None,
    };
    Some((at_us, line))
}

/// A container cannot be swapped out.
pub(crate) fn unswappable(
    owner: &Owner,
    at: Instant,
    container: ContainerId,
    why: &str,
) -> Option<(i64, EventLine)> {
    let (at_us, line) = container_event(owner, at, container, "unswappable")?;
    Some((
        at_us,
        EventLine { reason: format!("it cannot be swapped out, and is held instead: {why}"), ..line },
    ))
}

/// A process went on that we had stopped.
pub(crate) fn leak(
    owner: &Owner,
    at: Instant,
    (process, gpu): (Process, GpuId),
    leaks: u32,
    frozen_from_now_on: bool,
) -> Option<(i64, EventLine)> {
    let task = owner.scheduler.tracker().tasks_on(gpu).find(|task| task.process == process)?;
    let known = owner.registry.get(task.container?)?;
    let times = if leaks == 1 { "time" } else { "times" };
    let then = if frozen_from_now_on {
        "; whenever it is held from now on, its container is frozen, too"
    } else {
        ""
    };
    let at_us = clock::wall_us(at);
    let line = EventLine {
        time: clock::rfc3339(at_us),
        event: "leaked".to_owned(),
        container: Some(known.id.clone()),
        name: Some(known.name.clone()),
        node: owner.node.clone(),
        reason: format!("somebody else resumed it at its gate, {leaks} {times} so far{then}"),
        pid: Some(process.pid),
        gpu: Some(gpu.0),
    };
    Some((at_us, line))
}

/// An event, as people are told. What was no task after all is not worth a word.
pub(crate) fn event(owner: &Owner, event: &Event) -> Option<(i64, EventLine)> {
    let tracker = owner.scheduler.tracker();
    let why = |because: &Option<Reason>| {
        let words = |reason: Reason| reason.words(|id| task_name(owner, id));
        because.map_or_else(|| "urgent work makes it wait".to_owned(), words)
    };
    let (what, id, at, reason) = match event {
        Event::Started { task, at } => {
            let task_known = tracker.task(*task);
            let gpu = task_known.map_or_else(String::new, |task| format!(" on GPU {}", task.gpu.0));
            let seen = task_known.is_some_and(|task| task.approximate);
            let words = if seen { "a task was found running" } else { "a task started" };
            ("started", *task, *at, format!("{words}{gpu}"))
        }
        Event::Missed { task, at } => {
            let deadline = tracker.task(*task).and_then(|task| task.deadline);
            let words = deadline.map_or_else(String::new, |deadline| format!(" of {}", deadline.span()));
            ("missed", *task, *at, format!("its deadline{words} passed"))
        }
        Event::Held { task, at, because } => ("held", *task, *at, why(because)),
        Event::Released { task, at, because, .. } => {
            let expired = matches!(because, Some(Reason::HoldExpired(_)));
            (if expired { "hold-expired" } else { "released" }, *task, *at, why(because))
        }
        Event::SwappedOut { task, at, because, bytes } => {
            let left = "an earlier agent left it so";
            let because = because.map_or_else(|| left.to_owned(), |because| why(&Some(because)));
            ("swapped-out", *task, *at, format!("{because}; {} MiB left the GPU", bytes >> 20))
        }
        Event::SwappedIn { task, at, because, away } => {
            let words = format!("{}; it was out for {away}", why(because));
            ("swapped-in", *task, *at, words)
        }
        Event::Finished(finished) => ("finished", finished.task, finished.end, outcome(finished)),
        Event::Suggested { task, at, gaps } => {
            ("suggested", *task, *at, suggestion(tracker.task(*task), *at, *gaps))
        }
        Event::Forgotten { .. } => return None,
    };
    let (container, process, gpu) = match event {
        Event::Finished(finished) => (finished.container, Some(finished.process), Some(finished.gpu)),
        _ => {
            let task = tracker.task(id);
            (task.and_then(|task| task.container), task.map(|task| task.process), task.map(|task| task.gpu))
        }
    };
    let known = container.and_then(|number| owner.registry.get(number));
    let at_us = clock::wall_us(at);
    let line = EventLine {
        time: clock::rfc3339(at_us),
        event: what.to_owned(),
        container: known.map(|known| known.id.clone()),
        name: known.map(|known| known.name.clone()),
        node: owner.node.clone(),
        reason,
        pid: process.map(|process| process.pid),
        gpu: gpu.map(|gpu| gpu.0),
    };
    Some((at_us, line))
}

/// Why a container's tasks should perhaps be delimited otherwise.
fn suggestion(task: Option<&Task>, at: Instant, gaps: u32) -> String {
    let deadline = task.and_then(|task| Some((at.since(task.start), task.deadline?.span())));
    let outlived = deadline.map_or_else(String::new, |(age, deadline)| {
        format!(" has outlived {} deadlines of {deadline} and", age.as_micros() / deadline.as_micros())
    });
    format!(
        "its process{outlived} came back to the GPU {gaps} times: if it serves requests, --task burst gives each its own deadline"
    )
}

/// How a task went, as a sentence.
fn outcome(finished: &Finished) -> String {
    let took = finished.end.since(finished.start);
    match finished.float {
        None => format!("it took {took}; it has no deadline"),
        Some(float) if float >= Span::ZERO => format!("it took {took}, {float} before its deadline"),
        Some(float) => format!("it took {took}, {} after its deadline", -float),
    }
}
