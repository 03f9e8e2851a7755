//! A workload as a story: one line per task.
//!
//! ```text
//! # when  who    what
//!   0ms   train  work 400ms  due 900ms
//! 100ms   infer  work  50ms  due 200ms
//! ```
//!
//! `work` is time on the GPU, `due` the deadline, counted from the task's start. See [`WORDS`] for the
//! rest. A line `gpu memory 24GiB` gives the node one GPU of that size; without any, it has one large one.

use super::{GPU_MEMORY, Phases, TaskSpec, Workload};
use sched::{Mode, Span};

/// What may follow a task's name, each with one value.
const WORDS: &str = "work, due, expect, kernel, depth, memory, gpu, container, context, host, input, \
                         output, rounds, think, gap, task, managed";

/// How long a kernel takes where the story does not say: short enough that a task can be held soon.
const KERNEL: Span = Span::from_millis(10);

/// How long a task may take alone, all rounds together.
const LIFE_MAX: Span = Span::from_secs(24 * 60 * 60);

/// What is wrong with a story, and where.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {what}")]
pub struct StoryError {
    /// The line, counted from one.
    pub line: usize,
    /// Which value, and what is accepted.
    pub what: String,
}

/// Reads a story.
pub fn story(name: &str, text: &str) -> Result<Workload, StoryError> {
    let mut workload =
        Workload { name: format!("story {name}"), gpus: Vec::new(), tasks: Vec::new(), alpha: None };
    let mut lines = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let line = line.split('#').next().unwrap_or("");
        let words: Vec<&str> = line.split_whitespace().collect();
        let read = match words.as_slice() {
            [] => Ok(()),
            ["gpu", "memory", size] => {
                wire::bytes::parse(size).map(|bytes| workload.gpus.push(bytes)).map_err(|e| e.to_string())
            }
            [when, name, rest @ ..] => task(when, name, rest).and_then(|task| {
                agrees(&workload.tasks, &task)?;
                lines.push(index + 1);
                workload.tasks.push(task);
                Ok(())
            }),
            [word] => Err(format!("'{word}' stands alone: accepted is WHEN NAME work DURATION …")),
        };
        read.map_err(|what| StoryError { line: index + 1, what })?;
    }
    if workload.gpus.is_empty() {
        workload.gpus.push(GPU_MEMORY);
    }
    let gpus = workload.gpus.len();
    if let Some((task, line)) = workload.tasks.iter().zip(lines).find(|(task, _)| task.gpu >= gpus) {
        let what = format!("'{}' is no gpu of this story: accepted are 0 to {}", task.gpu, gpus - 1);
        return Err(StoryError { line, what });
    }
    if workload.tasks.is_empty() {
        let what = "there is no task: accepted is WHEN NAME work DURATION …".to_owned();
        return Err(StoryError { line: text.lines().count().max(1), what });
    }
    workload.tasks.sort_by_key(|task| task.arrives);
    Ok(workload)
}

fn task(when: &str, name: &str, rest: &[&str]) -> Result<TaskSpec, String> {
    let mut spec = TaskSpec {
        name: name.to_owned(),
        container: name.to_owned(),
        gpu: 0,
        arrives: moment(when)?,
        deadline: None,
        expect: None,
        mode: Mode::Process,
        managed: true,
        memory_declared: true,
        memory: 0,
        phases: Phases::kernels_of(Span::ZERO, KERNEL),
    };
    let (mut work, mut kernel) = (None, KERNEL);
    let mut words = rest.iter();
    while let Some(word) = words.next() {
        let value = words.next().ok_or_else(|| format!("'{word}' lacks its value"))?;
        match *word {
            "work" => work = Some(span(value)?),
            "kernel" => kernel = span(value)?,
            _ => set(&mut spec, word, value)?,
        }
    }
    let work = work.ok_or_else(|| format!("task {name} has no work: accepted is work DURATION"))?;
    let kernels = Phases::kernels_of(work, kernel);
    spec.phases = Phases { kernels: kernels.kernels, kernel: kernels.kernel, ..spec.phases };
    if spec.phases.solo() > LIFE_MAX {
        return Err(format!("task {name} would take {} alone: accepted is at most 24h", spec.phases.solo()));
    }
    Ok(spec)
}

/// Tasks of one container have the same terms, as its labels do.
fn agrees(tasks: &[TaskSpec], task: &TaskSpec) -> Result<(), String> {
    let terms = |task: &TaskSpec| (task.deadline, task.expect, task.mode, task.managed);
    let differs = |other: &&TaskSpec| other.container == task.container && terms(other) != terms(task);
    match tasks.iter().find(differs) {
        None => Ok(()),
        Some(other) => Err(format!(
            "task {} shares container {} with {}, but not its due, expect, task or managed",
            task.name, task.container, other.name
        )),
    }
}

fn set(spec: &mut TaskSpec, word: &str, value: &str) -> Result<(), String> {
    let phases = &mut spec.phases;
    match word {
        "due" => spec.deadline = Some(span(value)?),
        "expect" => spec.expect = Some(span(value)?),
        "depth" => phases.depth = count(value)?,
        "rounds" => phases.rounds = count(value)?,
        "memory" => spec.memory = wire::bytes::parse(value).map_err(|error| error.to_string())?,
        "gpu" => {
            spec.gpu = value.parse().map_err(|_| format!("'{value}' is no gpu: accepted are 0, 1, 2, …"))?;
        }
        "container" => value.clone_into(&mut spec.container),
        "context" => phases.context = span(value)?,
        "host" => phases.host = span(value)?,
        "input" => phases.input = span(value)?,
        "output" => phases.output = span(value)?,
        "think" => phases.think = span(value)?,
        "gap" => phases.gap = span(value)?,
        "task" => spec.mode = mode(value)?,
        "managed" => spec.managed = yes(value)?,
        _ => return Err(format!("'{word}' is no word for a task: accepted are {WORDS}")),
    }
    Ok(())
}

fn span(text: &str) -> Result<Span, String> {
    let duration = wire::duration::parse(text).map_err(|error| error.to_string())?;
    Ok(Span::from_micros(duration.as_micros() as i64))
}

/// A moment may be zero, a duration may not.
fn moment(text: &str) -> Result<Span, String> {
    if matches!(text, "0" | "0s" | "0ms") { Ok(Span::ZERO) } else { span(text) }
}

fn count(text: &str) -> Result<u32, String> {
    let number = text.parse().ok().filter(|number| (1..=1_000_000).contains(number));
    number.ok_or_else(|| format!("'{text}' is no count: accepted are 1 to 1000000"))
}

fn mode(text: &str) -> Result<Mode, String> {
    match text {
        "process" => Ok(Mode::Process),
        "memory" => Ok(Mode::Memory),
        "burst" => Ok(Mode::Burst),
        _ => Err(format!("'{text}' delimits no task: accepted are process, memory, burst")),
    }
}

fn yes(text: &str) -> Result<bool, String> {
    match text {
        "yes" => Ok(true),
        "no" => Ok(false),
        _ => Err(format!("'{text}' is neither yes nor no")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_story_says_who_does_what_when() {
        let read =
            story("test", "gpu memory 24GiB\n# pause\n100ms infer work 50ms due 200ms kernel 25ms depth 2");
        let workload = read.unwrap();
        let task = &workload.tasks[0];
        assert_eq!((workload.gpus[0], task.arrives), (24 << 30, Span::from_millis(100)));
        assert_eq!(task.deadline, Some(Span::from_millis(200)));
        assert_eq!((task.phases.kernels, task.phases.kernel), (2, Span::from_millis(25)));
    }

    #[test]
    fn an_error_names_its_line_and_what_is_accepted() {
        let wrong = |line: &str| {
            let text = format!("0ms a work 10ms\n\n{line}\n");
            story("test", &text).expect_err(line).to_string()
        };
        for (line, expected) in [
            ("0ms b", "line 3: task b has no work: accepted is work DURATION"),
            ("0ms b work 10ms due -5ms", "line 3: '-5ms' is not a duration"),
            ("0ms b wrok 10ms", "line 3: 'wrok' is no word for a task: accepted are work, due"),
            ("soon b work 10ms", "line 3: 'soon' is not a duration"),
            ("0ms b work", "line 3: 'work' lacks its value"),
            ("b", "line 3: 'b' stands alone"),
            ("0ms b work 1s depth 0", "line 3: '0' is no count"),
            (
                "0ms b work 1s gpu 1\n0ms c work 1s",
                "line 3: '1' is no gpu of this story: accepted are 0 to 0",
            ),
            ("0ms a work 1s due 2s", "line 3: task a shares container a with a, but not its due"),
            ("0ms b work 24h rounds 2", "line 3: task b would take 48h alone: accepted is at most 24h"),
            ("gpu memory 24GB", "line 3: '24GB' is not an amount of memory"),
        ] {
            assert!(wrong(line).starts_with(expected), "{}", wrong(line));
        }
    }
}
