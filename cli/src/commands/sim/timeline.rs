//! Each task's life as a line in the terminal.

use sched::{Instant, Span};
use sim::outcome::{Outcome, StretchKind, TaskOutcome};
use sim::workload::Workload;
use std::io::IsTerminal;

/// How many tasks are drawn; a picture of more says nothing, and `--svg` draws them all.
const TASKS_DRAWN: usize = 60;
/// How wide a line is where there is no terminal.
const WIDTH: usize = 100;
const NAME_MAX: usize = 20;

pub(super) fn of(policy: &str, workload: &Workload, outcome: &Outcome) -> String {
    let names = || outcome.tasks.iter().take(TASKS_DRAWN).map(|task| task.name.chars().count());
    let name_width = names().max().unwrap_or(0).min(NAME_MAX);
    let width = terminal_width().saturating_sub(name_width + 16).max(20);
    let first = outcome.tasks.iter().map(|task| task.arrived).min().unwrap_or_default();
    let scale = Scale { first, length: outcome.makespan(), width };
    let mut text = format!("{policy}: 0 to {}\n", outcome.makespan());
    for (index, task) in outcome.tasks.iter().enumerate().take(TASKS_DRAWN) {
        let name: String = task.name.chars().take(NAME_MAX).collect();
        let line = line(index, task, outcome, &scale);
        text += &format!("{name:<name_width$} {line} {}\n", verdict(task));
    }
    let left_out = workload.tasks.len().saturating_sub(TASKS_DRAWN);
    if left_out > 0 {
        text += &format!("… and {left_out} more; --svg FILE draws them all\n");
    }
    text + "░ host  ▒ copy  █ GPU alone  ▓ GPU time-sliced  · held  | deadline\n"
}

/// From moments to columns.
struct Scale {
    first: Instant,
    length: Span,
    width: usize,
}

impl Scale {
    fn column(&self, moment: Instant) -> usize {
        let micros = moment.since(self.first).as_micros().max(0) as u128;
        (micros * self.width as u128 / self.length.as_micros().max(1) as u128) as usize
    }
}

fn line(index: usize, task: &TaskOutcome, outcome: &Outcome, scale: &Scale) -> String {
    let mut cells = vec![' '; scale.width];
    for stretch in outcome.stretches.iter().filter(|stretch| stretch.task == index) {
        let (from, until) = (scale.column(stretch.from), scale.column(stretch.until));
        for cell in cells.iter_mut().take(until.max(from + 1)).skip(from) {
            *cell = glyph(stretch.kind);
        }
    }
    // A server's deadline is each request's, and no moment of its whole life.
    let deadline = task.deadline.filter(|_| task.requests_missed.is_none());
    let due = deadline.map(|deadline| scale.column(task.arrived + deadline));
    if let Some(cell) = due.and_then(|due| cells.get_mut(due)) {
        *cell = '|';
    }
    cells.into_iter().collect()
}

fn glyph(kind: StretchKind) -> char {
    match kind {
        StretchKind::Prepares => '░',
        StretchKind::Copies => '▒',
        StretchKind::Runs => '█',
        StretchKind::Shares => '▓',
        StretchKind::Waits => '·',
    }
}

fn verdict(task: &TaskOutcome) -> String {
    let colour = std::io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    let painted = |code: u8, text: String| {
        if colour { format!("\u{1b}[{code}m{text}\u{1b}[0m") } else { text }
    };
    match task.deadline.map(|deadline| deadline - task.turnaround()) {
        _ if task.failed => painted(31, "failed".to_owned()),
        None => String::new(),
        Some(_) if task.requests_missed == Some(0) => painted(32, "every request in time".to_owned()),
        Some(_) if let Some(missed) = task.requests_missed => {
            painted(31, format!("{missed} requests missed"))
        }
        Some(float) if float < Span::ZERO => painted(31, format!("missed by {}", -float)),
        Some(float) => painted(32, format!("{float} float")),
    }
}

fn terminal_width() -> usize {
    terminal_size::terminal_size().map_or(WIDTH, |(width, _)| width.0 as usize)
}
