//! The curves as a picture: how long placements and reports take, by the number of nodes.

use super::Measured;
use anyhow::{Context, Result};
use std::path::Path;
use svg::Document;
use svg::node::element::{Circle, Line, Polyline, Rectangle, Text};

const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 400.0;
const LEFT: f64 = 80.0;
const RIGHT: f64 = 170.0;
const TOP: f64 = 40.0;
const BOTTOM: f64 = 50.0;
/// The powers of ten that the axis of times spans: 0.1 ms to 1 s, in microseconds.
const TIMES: std::ops::RangeInclusive<i32> = 2..=6;

/// One curve: what it is called, its colour, and its values in microseconds.
type Curve = (&'static str, &'static str, fn(&Measured) -> u64);

const CURVES: [Curve; 3] = [
    ("placement p99", "#b3261e", |one| one.placement_p99_us),
    ("placement p50", "#1e6fb3", |one| one.placement_p50_us),
    ("report lag p99", "#5b7f1e", |one| one.report_lag_p99_us),
];

/// Draws them, both axes by powers of ten.
pub(super) fn draw(all: &[Measured], file: &Path) -> Result<()> {
    let most = all.iter().map(|one| one.nodes).max().unwrap_or(10).max(10);
    let nodes_span = (most as f64).log10().ceil().max(2.0) - 1.0;
    let x = |nodes: usize| LEFT + ((nodes.max(1) as f64).log10() - 1.0) / nodes_span * (WIDTH - LEFT - RIGHT);
    let mut picture = Document::new()
        .set("viewBox", (0, 0, WIDTH, HEIGHT))
        .set("font-family", "sans-serif")
        .set("font-size", 12)
        .add(Rectangle::new().set("width", WIDTH).set("height", HEIGHT).set("fill", "white"))
        .add(text(LEFT, 22.0, "start", "One master: time by the number of nodes that report"));
    for power in TIMES {
        let at = y(10_f64.powi(power));
        let label = if power < 6 { format!("{} ms", 10_f64.powi(power - 3)) } else { "1 s".to_owned() };
        picture =
            picture.add(line((LEFT, at), (WIDTH - RIGHT, at))).add(text(LEFT - 8.0, at + 4.0, "end", &label));
    }
    for one in all {
        let at = x(one.nodes);
        let bottom = HEIGHT - BOTTOM;
        picture = picture.add(line((at, TOP), (at, bottom))).add(text(
            at,
            bottom + 20.0,
            "middle",
            &one.nodes.to_string(),
        ));
    }
    for (name, colour, value) in CURVES {
        let points: Vec<(f64, f64)> = all.iter().map(|one| (x(one.nodes), y(value(one) as f64))).collect();
        let told: Vec<String> = points.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
        let curve = Polyline::new().set("points", told.join(" ")).set("fill", "none");
        picture = picture.add(curve.set("stroke", colour).set("stroke-width", 2));
        for (x, y) in &points {
            picture = picture.add(Circle::new().set("cx", *x).set("cy", *y).set("r", 3).set("fill", colour));
        }
        if let Some((x, y)) = points.last() {
            picture = picture.add(text(x + 10.0, y + 4.0, "start", name).set("fill", colour));
        }
    }
    svg::save(file, &picture).with_context(|| format!("could not write {}", file.display()))
}

fn y(us: f64) -> f64 {
    let (least, most) = (f64::from(*TIMES.start()), f64::from(*TIMES.end()));
    let share = (us.max(10_f64.powf(least)).log10() - least) / (most - least);
    HEIGHT - BOTTOM - share * (HEIGHT - TOP - BOTTOM)
}

fn text(x: f64, y: f64, anchor: &str, words: &str) -> Text {
    Text::new(words).set("x", x).set("y", y).set("text-anchor", anchor)
}

fn line(from: (f64, f64), to: (f64, f64)) -> Line {
    let line = Line::new().set("x1", from.0).set("y1", from.1).set("x2", to.0).set("y2", to.1);
    line.set("stroke", "#dddddd")
}
