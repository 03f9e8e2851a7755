//! The timeline as a picture: a lane for each container, a bar for each task, marks where deadlines are.

use super::in_words;
use crate::timeline::{Bar, Doing, Timeline};
use svg::Document;
use svg::node::element::{Group, Line, Rectangle, Style, Text, Title};

const WIDTH: f64 = 1200.0;
const NAMES: f64 = 150.0;
const ROW: f64 = 22.0;
const MARGIN: f64 = 14.0;
const AXIS: f64 = 26.0;
/// A stretch that is shorter than this would not be seen.
const BAR_WIDTH_MIN: f64 = 0.6;
/// About so many marks on the axis.
const MARKS: i64 = 8;

const STYLE: &str = "
text { font: 11px system-ui, sans-serif; fill: #1f2328 } .axis { fill: #6e7781 } .grid { stroke: #d8dee4; stroke-width: .6 }
.stripe { fill: #f6f8fa }
.runs { fill: #3b82c4 } .held { fill: #d9a521; opacity: .75 } .late { fill: #cf3a36 } .held-late { fill: #cf3a36; opacity: .45 }
.due { stroke: #1f2328; stroke-width: 1.4 } .missed { stroke: #cf3a36 }
@media (prefers-color-scheme: dark) {
  svg { background: #0f1318 } text { fill: #d5dae0 } .axis { fill: #8b949e } .grid { stroke: #262c34 } .stripe { fill: #151a21 }
  .due { stroke: #e6edf3 } .missed { stroke: #ff6b64 } .runs { fill: #4a94d8 }
}";

/// From moments to places.
struct Scale {
    from_us: i64,
    until_us: i64,
}

impl Scale {
    fn x(&self, moment_us: i64) -> f64 {
        let share = (moment_us - self.from_us) as f64 / (self.until_us - self.from_us) as f64;
        NAMES + share.clamp(0.0, 1.0) * (WIDTH - NAMES - MARGIN)
    }
}

pub(super) fn draw(timeline: &Timeline, now_us: i64) -> String {
    let (from_us, until_us) = timeline.extent(now_us).unwrap_or((now_us - 1_000_000, now_us));
    let scale = Scale { from_us, until_us };
    let bottom = MARGIN + ROW * timeline.lanes.len() as f64;
    let mut document = Document::new()
        .set("viewBox", (0, 0, WIDTH, bottom + AXIS * 2.0))
        .set("role", "img")
        .add(Title::new("Tasks, holds and deadlines by container"))
        .add(Style::new(STYLE));
    for (index, _) in timeline.lanes.iter().enumerate().filter(|(index, _)| index % 2 == 1) {
        let y = MARGIN + ROW * index as f64;
        let stripe = Rectangle::new().set("x", 0).set("y", y).set("width", WIDTH).set("height", ROW);
        document = document.add(stripe.set("class", "stripe"));
    }
    document = document.add(axis(&scale, bottom));
    for (index, lane) in timeline.lanes.iter().enumerate() {
        let y = MARGIN + ROW * index as f64;
        let mut group = Group::new().add(Text::new(lane.name.as_str()).set("x", MARGIN).set("y", y + 15.0));
        for bar in &lane.bars {
            group = group.add(drawn(bar, &lane.name, &scale, y, now_us));
        }
        document = document.add(group);
    }
    document.add(legend(bottom + AXIS * 1.7)).to_string()
}

fn drawn(bar: &Bar, name: &str, scale: &Scale, y: f64, now_us: i64) -> Group {
    let mut group = Group::new();
    for (from_us, until_us, doing) in bar.stretches(now_us) {
        let (class, words) = kind(doing);
        let hold = bar.holds.iter().rfind(|hold| hold.from_us <= from_us);
        let why = hold.filter(|_| matches!(doing, Doing::Held | Doing::HeldLate));
        let why = why.map_or_else(String::new, |hold| format!(": {}", hold.reason));
        let length = in_words(until_us - from_us);
        let stretch = Rectangle::new()
            .set("x", scale.x(from_us))
            .set("y", y + 4.0)
            .set("width", (scale.x(until_us) - scale.x(from_us)).max(BAR_WIDTH_MIN))
            .set("height", ROW - 8.0)
            .set("class", class);
        group = group.add(stretch.add(Title::new(format!("{name} {words} for {length}{why}"))));
    }
    let shown = |due_us: &i64| (scale.from_us..=scale.until_us).contains(due_us);
    if let Some(due_us) = bar.due_us.filter(shown) {
        let class = if bar.hit(now_us) == Some(false) { "due missed" } else { "due" };
        let x = scale.x(due_us);
        let mark = Line::new().set("x1", x).set("x2", x).set("y1", y + 1.0).set("y2", y + ROW - 1.0);
        group = group.add(mark.set("class", class).add(Title::new(format!("{name} is due"))));
    }
    group
}

fn axis(scale: &Scale, bottom: f64) -> Group {
    let mut group = Group::new();
    let step_us = step(scale.until_us - scale.from_us);
    let mut at_us = 0;
    while scale.from_us + at_us <= scale.until_us {
        let x = scale.x(scale.from_us + at_us);
        let line = Line::new().set("x1", x).set("x2", x).set("y1", MARGIN).set("y2", bottom);
        let words = Text::new(format!("+{}", in_words(at_us))).set("x", x + 2.0).set("y", bottom + 14.0);
        group = group.add(line.set("class", "grid")).add(words.set("class", "axis"));
        at_us += step_us;
    }
    group
}

/// A round number of microseconds that divides a length into about so many parts.
pub(crate) fn step(length_us: i64) -> i64 {
    let least = (length_us / MARKS).max(1);
    let mut ten = 1;
    while ten * 10 <= least {
        ten *= 10;
    }
    // Seconds and minutes are read in sixties.
    let steps = [ten, 2 * ten, 5 * ten, 10 * ten];
    let minutes =
        [15_000_000, 30_000_000, 60_000_000, 300_000_000, 600_000_000, 1_800_000_000, 3_600_000_000];
    let fitting = |steps: &[i64]| steps.iter().copied().find(|step| *step >= least);
    let round = if least > 10_000_000 { fitting(&minutes) } else { None };
    round.or_else(|| fitting(&steps)).unwrap_or(least)
}

fn kind(doing: Doing) -> (&'static str, &'static str) {
    match doing {
        Doing::Runs => ("runs", "runs"),
        Doing::Held => ("held", "is held"),
        Doing::Late => ("late", "runs late"),
        Doing::HeldLate => ("held-late", "is held, late"),
    }
}

fn legend(y: f64) -> Group {
    let kinds = [Doing::Runs, Doing::Held, Doing::Late, Doing::HeldLate];
    let group = kinds.into_iter().enumerate().fold(Group::new(), |group, (index, which)| {
        let (class, words) = kind(which);
        let x = NAMES + 130.0 * index as f64;
        let swatch = Rectangle::new().set("x", x).set("y", y - 9.0).set("width", 16).set("height", 10);
        group.add(swatch.set("class", class)).add(Text::new(words).set("x", x + 22.0).set("y", y))
    });
    let x = NAMES + 130.0 * 4.0;
    let mark = Line::new().set("x1", x + 8.0).set("x2", x + 8.0).set("y1", y - 11.0).set("y2", y + 2.0);
    group.add(mark.set("class", "due")).add(Text::new("deadline").set("x", x + 16.0).set("y", y))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::timeline::tests::{event, task, us};

    #[test]
    fn a_hold_says_why_and_a_miss_is_marked() {
        let events = [event("held", "a", 1, 20, "b came first"), event("released", "a", 1, 40, "its turn")];
        let tasks = vec![task("a", 1, 0, Some(100), Some(50)), task("b", 2, 0, Some(90), Some(95))];
        let text = draw(&Timeline::of(tasks, &events), us(200));
        for words in [
            "a is held for 20ms: b came first",
            "a runs late for 50ms",
            "due missed",
            "class=\"due\"",
            "b is due",
        ] {
            assert!(text.contains(words), "{words}: {text}");
        }
    }

    #[test]
    fn the_axis_has_round_numbers() {
        for (length_us, step_us) in
            [(1_000_000, 200_000), (60_000_000, 10_000_000), (150_000_000, 30_000_000), (7, 1)]
        {
            assert_eq!(step(length_us), step_us, "{length_us}");
        }
    }
}
