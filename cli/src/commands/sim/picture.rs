//! Each task's life as a picture: one panel per policy, one bar per task.

use sched::{Instant, Span};
use sim::outcome::{Outcome, StretchKind, TaskOutcome};
use sim::workload::Workload;
use svg::Document;
use svg::node::element::{Group, Line, Rectangle, Style, Text, Title};

const WIDTH: f64 = 1200.0;
const NAMES: f64 = 140.0;
const ROW: f64 = 16.0;
const HEADING: f64 = 34.0;
const MARGIN: f64 = 12.0;

const STYLE: &str = "
text { font: 11px system-ui, sans-serif; fill: #222 }
.heading { font-weight: 600; font-size: 14px }
.prepares { fill: #d9dde3 } .copies { fill: #a9c4e8 } .runs { fill: #2f855a }
.shares { fill: #d69e2e } .waits { fill: #fff; stroke: #999; stroke-dasharray: 2 2; stroke-width: .7 }
.deadline { stroke: #222; stroke-width: 1.4 } .missed { stroke: #c53030 }
@media (prefers-color-scheme: dark) {
  svg { background: #16181d } text { fill: #ddd } .deadline { stroke: #eee } .waits { fill: #16181d }
}";

pub(super) fn draw(workload: &Workload, outcomes: &[(&str, Outcome)]) -> String {
    let panel_height = HEADING + ROW * workload.tasks.len() as f64;
    let height = MARGIN * 2.0 + panel_height * outcomes.len() as f64 + ROW * 2.0;
    let longest = outcomes.iter().map(|(_, outcome)| outcome.makespan()).max().unwrap_or_default();
    let mut document = Document::new()
        .set("viewBox", (0, 0, WIDTH, height))
        .set("role", "img")
        .add(Title::new(workload.name.as_str()))
        .add(Style::new(STYLE));
    for (index, (policy, outcome)) in outcomes.iter().enumerate() {
        let top = MARGIN + panel_height * index as f64;
        document = document.add(panel(policy, outcome, longest, top));
    }
    document.add(legend(height - ROW)).to_string()
}

fn panel(policy: &str, outcome: &Outcome, longest: Span, top: f64) -> Group {
    let first = outcome.tasks.iter().map(|task| task.arrived).min().unwrap_or_default();
    let x = |moment: Instant| {
        let share = moment.since(first).as_micros() as f64 / longest.as_micros().max(1) as f64;
        NAMES + share * (WIDTH - NAMES - MARGIN)
    };
    let hits = outcome.hit_rate().map_or(String::new(), |rate| format!(", {:.1} % in time", rate * 100.0));
    let heading = Text::new(format!("{policy}: {}{hits}", outcome.makespan()));
    let mut group = Group::new().add(heading.set("x", MARGIN).set("y", top + 18.0).set("class", "heading"));
    for (index, task) in outcome.tasks.iter().enumerate() {
        let y = top + HEADING + ROW * index as f64;
        group = group.add(Text::new(task.name.as_str()).set("x", MARGIN).set("y", y + 11.0));
        for stretch in outcome.stretches.iter().filter(|stretch| stretch.task == index) {
            let (class, words) = kind(stretch.kind);
            let length = stretch.until.since(stretch.from);
            let bar = Rectangle::new()
                .set("x", x(stretch.from))
                .set("y", y + 2.0)
                .set("width", (x(stretch.until) - x(stretch.from)).max(0.1))
                .set("height", ROW - 4.0)
                .set("class", class)
                .add(Title::new(format!("{} {words} for {length}", task.name)));
            group = group.add(bar);
        }
        if let Some(mark) = deadline(task, &x, y) {
            group = group.add(mark);
        }
    }
    group
}

fn deadline(task: &TaskOutcome, x: &impl Fn(Instant) -> f64, y: f64) -> Option<Line> {
    // A server's deadline is each request's, and no moment of its whole life.
    let due = task.arrived + task.deadline.filter(|_| task.requests_missed.is_none())?;
    let class = if task.hit() == Some(true) { "deadline" } else { "deadline missed" };
    let at = x(due).min(WIDTH - 1.0);
    Some(
        Line::new()
            .set("x1", at)
            .set("x2", at)
            .set("y1", y)
            .set("y2", y + ROW)
            .set("class", class)
            .add(Title::new(format!("{} is due", task.name))),
    )
}

fn kind(kind: StretchKind) -> (&'static str, &'static str) {
    match kind {
        StretchKind::Prepares => ("prepares", "prepares on the host"),
        StretchKind::Copies => ("copies", "copies"),
        StretchKind::Runs => ("runs", "has the GPU to itself"),
        StretchKind::Shares => ("shares", "shares the GPU"),
        StretchKind::Waits => ("waits", "is held"),
    }
}

fn legend(y: f64) -> Group {
    let kinds = [
        StretchKind::Prepares,
        StretchKind::Copies,
        StretchKind::Runs,
        StretchKind::Shares,
        StretchKind::Waits,
    ];
    kinds.into_iter().enumerate().fold(Group::new(), |group, (index, which)| {
        let (class, words) = kind(which);
        let x = NAMES + 190.0 * index as f64;
        let swatch = Rectangle::new().set("x", x).set("y", y - 9.0).set("width", 16).set("height", 10);
        group.add(swatch.set("class", class)).add(Text::new(words).set("x", x + 22.0).set("y", y))
    })
}
