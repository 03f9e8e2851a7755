//! Curves as a picture: points, lines between them, and the spread of repeated runs as whiskers.

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

/// One curve.
pub(in super::super) struct Series {
    name: String,
    pub(super) points: Vec<(f64, f64)>,
    /// At each place, the least and the most that were measured.
    whiskers: Vec<(f64, f64, f64)>,
}

impl Series {
    pub(in super::super) fn line(name: impl Into<String>, points: Vec<(f64, f64)>) -> Self {
        Self { name: name.into(), points, whiskers: Vec::new() }
    }

    /// With the place, least and most of what was measured.
    pub(in super::super) fn with_whiskers(mut self, whiskers: Vec<(f64, f64, f64)>) -> Self {
        self.whiskers = whiskers;
        self
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
    let x = plot.range(plot.x.1, |series| series.points.iter().map(|point| point.0).collect());
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
        let mut chart = ChartBuilder::on(&area)
            .caption(&plot.title, (FONT, 18))
            .margin(14)
            .x_label_area_size(44)
            .y_label_area_size(64)
            .build_cartesian_2d(x, y)
            .map_err(|error| wrong(&error))?;
        let mut mesh = chart.configure_mesh();
        mesh.x_desc(&plot.x.0).y_desc(&plot.y.0).axis_desc_style((FONT, 14)).label_style((FONT, 12));
        let text = |value: &f64| label(*value);
        mesh.x_label_formatter(&text).y_label_formatter(&text).light_line_style(WHITE);
        mesh.draw().map_err(|error| wrong(&error))?;
        for (series, colour) in plot.series.iter().zip(COLOURS.iter().cycle()) {
            let line = LineSeries::new(series.points.iter().copied(), colour.stroke_width(2)).point_size(3);
            let key = |(x, y)| PathElement::new(vec![(x, y), (x + 18, y)], colour.stroke_width(2));
            let drawn = chart.draw_series(line).map_err(|error| wrong(&error))?;
            drawn.label(&series.name).legend(key);
            let whisker = |&(at, least, most): &(f64, f64, f64)| {
                PathElement::new(vec![(at, least), (at, most)], colour.stroke_width(1))
            };
            chart.draw_series(series.whiskers.iter().map(whisker)).map_err(|error| wrong(&error))?;
        }
        let mut keys = chart.configure_series_labels();
        keys.position(SeriesLabelPosition::UpperLeft).background_style(WHITE.mix(0.8));
        keys.border_style(RGBColor(0xcc, 0xcc, 0xcc)).label_font((FONT, 12));
        keys.draw().map_err(|error| wrong(&error))?;
        area.present().map_err(|error| wrong(&error))?;
    }
    Ok(text)
}

/// A number on an axis, no longer than it must be.
fn label(value: f64) -> String {
    match value.abs() {
        size if size >= 10_000.0 => format!("{:.0}k", value / 1_000.0),
        size if size >= 10.0 || value == 0.0 => format!("{value:.0}"),
        size if size >= 1.0 => format!("{value:.1}"),
        _ => format!("{value:.2e}"),
    }
}
