//! Curves and bars as a picture: points, lines between them, and the spread of repeated runs as whiskers.

use crate::commands::bench::figures::Spread;
use anyhow::{Result, anyhow};
use plotters::coord::ranged1d::{AsRangedCoord, ValueFormatter};
use plotters::prelude::*;

const SIZE: (u32, u32) = (900, 460);
const FONT: &str = "sans-serif";
/// Told apart by people who see colours differently, too.
const COLOURS: [RGBColor; 8] = [
    RGBColor(0xb3, 0x26, 0x1e),
    RGBColor(0x1e, 0x6f, 0xb3),
    RGBColor(0x2f, 0x85, 0x5a),
    RGBColor(0xd6, 0x8a, 0x1e),
    RGBColor(0x6b, 0x4f, 0xa0),
    RGBColor(0x22, 0x22, 0x22),
    RGBColor(0x0b, 0x8a, 0x8a),
    RGBColor(0xa8, 0x5b, 0x7a),
];

/// More points than this are a curve already, and are not marked one by one.
const MARKED_MAX: usize = 30;
/// Half the width of a bar; from one to the next it is one.
const BAR_HALF: f64 = 0.35;

/// Where the first key of a colour is, how much room each takes besides its name, and what a character of that takes, roughly.
const KEYS_AT: (i32, i32) = (78, 10);
const KEY_WIDTH: i32 = 44;
const KEY_HEIGHT: i32 = 18;
const CHARACTER_WIDTH: f64 = 6.3;

/// A part of the picture.
type Area<'a> = DrawingArea<SVGBackend<'a>, plotters::coord::Shift>;

/// How an axis grows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Scale {
    /// From zero.
    Linear,
    /// By powers of ten, of what is more than zero.
    Log,
}

/// One picture.
pub(in super::super) struct Plot {
    /// The end of its file's name.
    pub(super) name: String,
    title: String,
    x: (String, Scale),
    y: (String, Scale),
    pub(super) series: Vec<Series>,
}

/// One curve, or one bar.
pub(in super::super) struct Series {
    name: String,
    pub(super) points: Vec<(f64, f64)>,
    /// At each place, the least and the most that were measured.
    whiskers: Vec<(f64, f64, f64)>,
    /// Drawn from zero up, and named by its colour: there is nothing to read off the axis below.
    is_bar: bool,
}

impl Series {
    pub(in super::super) fn line(name: impl Into<String>, points: Vec<(f64, f64)>) -> Self {
        Self { name: name.into(), points, whiskers: Vec::new(), is_bar: false }
    }

    /// Which share of the figures is not above each of them.
    pub(in super::super) fn shares(name: impl Into<String>, figures: impl IntoIterator<Item = f64>) -> Self {
        let mut sorted: Vec<f64> = figures.into_iter().filter(|figure| figure.is_finite()).collect();
        sorted.sort_by(f64::total_cmp);
        let count = sorted.len() as f64;
        let points = sorted.into_iter().enumerate();
        Self::line(name, points.map(|(place, figure)| (figure, (place + 1) as f64 / count)).collect())
    }

    /// With the place, least and most of what was measured.
    pub(in super::super) fn with_whiskers(mut self, whiskers: Vec<(f64, f64, f64)>) -> Self {
        self.whiskers = whiskers;
        self
    }

    pub(super) fn leave_out_what_is_no_number(&mut self) {
        self.points.retain(|(across, up)| across.is_finite() && up.is_finite());
        self.whiskers.retain(|(at, least, most)| [at, least, most].iter().all(|value| value.is_finite()));
    }
}

impl Plot {
    pub(in super::super) fn new(
        name: impl Into<String>,
        title: impl Into<String>,
        x: (&str, Scale),
        y: (&str, Scale),
        series: Vec<Series>,
    ) -> Self {
        let own = |(label, scale): (&str, Scale)| (label.to_owned(), scale);
        Self { name: name.into(), title: title.into(), x: own(x), y: own(y), series }
    }

    /// A bar for each of these, with its spread.
    pub(in super::super) fn bars(name: &str, title: &str, y: &str, bars: Vec<(String, Spread)>) -> Self {
        let bar = |(place, (name, spread)): (usize, (String, Spread))| {
            let at = (place + 1) as f64;
            let bar = Series::line(name, vec![(at, spread.median)]);
            Series { is_bar: true, ..bar.with_whiskers(vec![(at, spread.least, spread.most)]) }
        };
        let series = bars.into_iter().enumerate().map(bar).collect();
        Self::new(name, title, ("", Scale::Linear), (y, Scale::Linear), series)
    }

    /// The least and the most on an axis, with some room above.
    fn range(&self, scale: Scale, of: impl Fn(&Series) -> Vec<f64>) -> (f64, f64) {
        let all: Vec<f64> = self.series.iter().flat_map(of).filter(|value| value.is_finite()).collect();
        let most = all.iter().copied().fold(f64::MIN, f64::max);
        match scale {
            Scale::Linear => {
                let least = all.iter().copied().fold(0.0, f64::min);
                (least * 1.05, (most * 1.05).max(least + 1e-6))
            }
            Scale::Log => {
                let positive = all.iter().copied().filter(|value| *value > 0.0);
                let least = positive.fold(f64::MAX, f64::min).min(most);
                (least * 0.8, most.max(least) * 1.25)
            }
        }
    }
}

/// The picture's text.
pub(in super::super) fn svg(plot: &Plot) -> Result<String> {
    let x = plot.range(plot.x.1, |series| {
        let beside = if series.is_bar { BAR_HALF } else { 0.0 };
        series.points.iter().map(|point| point.0 + beside).collect()
    });
    let y = plot.range(plot.y.1, |series| {
        let ends = series.whiskers.iter().flat_map(|(_, least, most)| [*least, *most]);
        series.points.iter().map(|point| point.1).chain(ends).collect()
    });
    let (across, up) = (x.0..x.1, y.0..y.1);
    match (plot.x.1, plot.y.1) {
        (Scale::Linear, Scale::Linear) => draw(plot, across, up),
        (Scale::Linear, Scale::Log) => draw(plot, across, up.log_scale()),
        (Scale::Log, Scale::Linear) => draw(plot, across.log_scale(), up),
        (Scale::Log, Scale::Log) => draw(plot, across.log_scale(), up.log_scale()),
    }
}

fn draw<X, Y>(plot: &Plot, x: X, y: Y) -> Result<String>
where
    X: AsRangedCoord<Value = f64>,
    Y: AsRangedCoord<Value = f64>,
    X::CoordDescType: ValueFormatter<f64>,
    Y::CoordDescType: ValueFormatter<f64>,
{
    let wrong = |error: &dyn std::fmt::Display| anyhow!("could not draw {}: {error}", plot.name);
    let mut text = String::new();
    {
        let area = SVGBackend::with_string(&mut text, SIZE).into_drawing_area();
        area.fill(&WHITE).map_err(|error| wrong(&error))?;
        let below = area.titled(&plot.title, (FONT, 18)).map_err(|error| wrong(&error))?;
        let below = keys(&below, &plot.series).map_err(|error| wrong(&error))?;
        let mut chart = ChartBuilder::on(&below)
            .margin(14)
            .x_label_area_size(44)
            .y_label_area_size(64)
            .build_cartesian_2d(x, y)
            .map_err(|error| wrong(&error))?;
        let mut mesh = chart.configure_mesh();
        if plot.series.iter().any(|series| series.is_bar) {
            mesh.disable_x_mesh().x_labels(0);
        }
        mesh.x_desc(&plot.x.0).y_desc(&plot.y.0).axis_desc_style((FONT, 14)).label_style((FONT, 12));
        let text = |value: &f64| label(*value);
        mesh.x_label_formatter(&text).y_label_formatter(&text).light_line_style(WHITE);
        mesh.draw().map_err(|error| wrong(&error))?;
        for (series, colour) in plot.series.iter().zip(COLOURS.iter().cycle()) {
            let marks = if series.points.len() > MARKED_MAX { 0 } else { 3 };
            let line = LineSeries::new(series.points.iter().copied(), colour.stroke_width(2));
            chart.draw_series(line.point_size(marks)).map_err(|error| wrong(&error))?;
            let bar = |&(at, up): &(f64, f64)| {
                Rectangle::new([(at - BAR_HALF, 0.0), (at + BAR_HALF, up)], colour.mix(0.6).filled())
            };
            let bars = series.points.iter().filter(|_| series.is_bar).map(bar);
            chart.draw_series(bars).map_err(|error| wrong(&error))?;
            let whisker = |&(at, least, most): &(f64, f64, f64)| {
                PathElement::new(vec![(at, least), (at, most)], colour.stroke_width(1))
            };
            chart.draw_series(series.whiskers.iter().map(whisker)).map_err(|error| wrong(&error))?;
        }
        area.present().map_err(|error| wrong(&error))?;
    }
    Ok(text)
}

/// Which colour is what, in lines above the curves, where it covers none of them; and the room below.
fn keys<'a>(area: &Area<'a>, series: &[Series]) -> Result<Area<'a>, Box<dyn std::error::Error>> {
    let (mut across, mut down) = KEYS_AT;
    for (series, colour) in series.iter().zip(COLOURS.iter().cycle()) {
        let width = KEY_WIDTH + (series.name.chars().count() as f64 * CHARACTER_WIDTH) as i32;
        if across > KEYS_AT.0 && across + width > SIZE.0 as i32 {
            (across, down) = (KEYS_AT.0, down + KEY_HEIGHT);
        }
        let ends = vec![(across, down), (across + 18, down)];
        area.draw(&PathElement::new(ends, colour.stroke_width(if series.is_bar { 8 } else { 2 })))?;
        area.draw(&Text::new(series.name.clone(), (across + 24, down - 6), (FONT, 12)))?;
        across += width;
    }
    Ok(area.split_vertically(down + KEY_HEIGHT / 2).1)
}

/// A number on an axis, no longer than it must be.
fn label(value: f64) -> String {
    match value.abs() {
        size if size >= 10_000.0 => format!("{:.0}k", value / 1_000.0),
        size if size >= 10.0 || value == 0.0 => format!("{value:.0}"),
        size if size >= 1.0 => format!("{value:.1}"),
        size if size >= 0.001 => format!("{value:.3}").trim_end_matches('0').trim_end_matches('.').to_owned(),
        _ => format!("{value:.2e}"),
    }
}
