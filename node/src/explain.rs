//! Why a container is, or is not, running now.

use crate::clock;
use crate::owner::Owner;
use crate::views::task_name;
use sched::forecast::Source;
use sched::task::Grip;
use sched::{ContainerId, Instant, Span, Task};
use wire::agent::{AheadLine, ExplainLine, ExplainedTask, State};

/// Everything that is known of a container and of each of its tasks, and the same in sentences.
pub(crate) fn explain(owner: &Owner, wanted: &str) -> Result<ExplainLine, String> {
    let number = owner.registry.find(wanted)?;
    let known = owner.registry.get(number).ok_or_else(|| format!("there is no container '{wanted}'"))?;
    let now = clock::now();
    let tracker = owner.scheduler.tracker();
    let container = tracker.container(number);
    let forecast = container.map(sched::tracker::Container::forecast).filter(|forecast| forecast.is_known());
    let tasks: Vec<ExplainedTask> = tracker
        .tasks()
        .filter(|task| task.container == Some(number) && !task.dormant)
        .map(|task| explained(owner, task, now))
        .collect();
    let terms = known.terms.unwrap_or(sched::Terms::UNMANAGED);
    let mut line = ExplainLine {
        container: known.id.clone(),
        name: known.name.clone(),
        managed: terms.managed,
        paused: container.is_some_and(|container| container.paused),
        stopping: container.is_some_and(|container| container.stopping),
        deadline_us: terms.deadline.map(|deadline| deadline.span().as_micros()),
        forecast_us: forecast.map(|forecast| forecast.typical.as_micros()),
        forecast_from: forecast.map(|forecast| match forecast.source {
            Source::Measured(1) => "1 run".to_owned(),
            Source::Measured(runs) => format!("{runs} runs"),
            Source::Declared | Source::Assumed => "what was declared".to_owned(),
        }),
        tasks,
        sentences: Vec::new(),
    };
    line.sentences = sentences(&line);
    Ok(line)
}

fn explained(owner: &Owner, task: &Task, now: Instant) -> ExplainedTask {
    let tracker = owner.scheduler.tracker();
    let frozen = task.container.is_some_and(|container| owner.actuator.has_frozen(container));
    let state = match () {
        () if task.is_away() => State::Swapped,
        () if frozen => State::Frozen,
        () if matches!(task.grip, Grip::Held(_)) => State::Held,
        () => State::Running,
    };
    let waits = state != State::Running;
    let since = if waits { task.stopped_since.or(task.held_at) } else { Some(task.free_since) };
    let ahead: Vec<&Task> =
        tracker.tasks_on(task.gpu).filter(|other| waits && is_ahead(owner, other, task)).collect();
    let left = |task: &Task| {
        let forecast = tracker.container_of(task)?.forecast();
        forecast.is_known().then(|| forecast.left(tracker.served(task, now)))
    };
    // Who is ahead runs one after another. What nobody can forecast has no sum.
    let runs_in = ahead.iter().map(|task| left(task)).sum::<Option<Span>>().filter(|_| waits);
    let words = |reason: sched::Reason| reason.words(|id| task_name(owner, id));
    ExplainedTask {
        pid: task.process.pid,
        gpu: task.gpu.0,
        policy: owner.scheduler.policy(task.gpu).name().to_owned(),
        state,
        since: clock::rfc3339(clock::wall_us(since.unwrap_or(task.start))),
        since_us: now.since(since.unwrap_or(task.start)).as_micros(),
        reason: task.reason.filter(|_| waits).map(words),
        ahead: ahead
            .iter()
            .map(|task| AheadLine {
                name: task_name(owner, task.id),
                pid: task.process.pid,
                running: !task.is_gripped() && !task.is_away(),
                float_us: task.float(now).map(Span::as_micros),
                left_us: left(task).map(Span::as_micros),
            })
            .collect(),
        float_us: task.float(now).map(Span::as_micros),
        left_us: left(task).map(Span::as_micros),
        held_us: task.waited(now).as_micros(),
        runs_in_us: runs_in.map(Span::as_micros),
    }
}

/// Whoever runs, and of those that wait, whoever the policy will let run sooner.
fn is_ahead(owner: &Owner, other: &Task, task: &Task) -> bool {
    if other.id == task.id || other.dormant {
        return false;
    }
    let due = |task: &Task| task.due().filter(|_| !task.missed);
    let sooner = match owner.scheduler.policy(task.gpu).name() {
        "fifo" => other.id < task.id,
        _ => (due(other).is_none(), due(other), other.id) < (due(task).is_none(), due(task), task.id),
    };
    let ours = |number: ContainerId| owner.scheduler.tracker().container(number).is_some_and(|c| c.is_ours());
    if other.is_gripped() || other.is_away() { sooner && other.container.is_some_and(ours) } else { true }
}

/// Spans as people read them.
fn words(us: i64) -> String {
    let step = if us.abs() >= 1_000_000 { 100_000 } else { 1_000 };
    Span::from_micros(us / step * step).to_string()
}

fn sentences(line: &ExplainLine) -> Vec<String> {
    let name = &line.name;
    let mut sentences = Vec::new();
    if line.paused {
        sentences.push(format!("{name} was paused by Docker or a person, and is not touched."));
    }
    if line.stopping {
        sentences.push(format!("{name} was told to stop, and is not held."));
    }
    if !line.managed {
        sentences.push(format!("{name} has no label of ours, and is never held."));
    }
    if line.tasks.is_empty() {
        sentences.push(format!("{name} has no task on a GPU."));
    }
    for task in &line.tasks {
        let since = words(task.since_us);
        let place = format!("process {} on GPU {} under {}", task.pid, task.gpu, task.policy);
        sentences.push(match &task.reason {
            Some(reason) => {
                format!("{name} is {} for {since} ({place}), because {reason}.", task.state.name())
            }
            None => format!("{name} runs for {since} ({place})."),
        });
        let told = task.ahead.iter().map(|ahead| {
            let does = if ahead.running { "runs" } else { "waits, too" };
            let left = ahead.left_us.map_or_else(String::new, |us| format!(", about {} left", words(us)));
            format!("{} ({does}{left})", ahead.name)
        });
        let ahead = told.collect::<Vec<_>>().join(", ");
        if !ahead.is_empty() {
            sentences.push(format!("Ahead of it: {ahead}."));
        }
        if let Some(float_us) = task.float_us {
            let missed = if float_us < 0 { "; its deadline has passed" } else { "" };
            sentences.push(format!("Its float is {}{missed}.", words(float_us)));
        }
        if let Some(runs_in_us) = task.runs_in_us {
            sentences.push(format!("It should run in about {}.", words(runs_in_us)));
        }
    }
    if let (Some(us), Some(from)) = (line.forecast_us, &line.forecast_from) {
        sentences.push(format!("One of its tasks takes about {}, by {from}.", words(us)));
    }
    sentences
}
