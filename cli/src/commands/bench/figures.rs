//! Figures of repeated runs: what is in the middle, and how far they spread.

use serde_json::{Value, json};
use std::fmt;

/// The median, the least and the most; or the bounds of the median.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Spread {
    pub(super) median: f64,
    pub(super) least: f64,
    pub(super) most: f64,
}

impl Spread {
    /// Of what was measured. Of nothing it is no number, which is told as null and as a dash: a zero would look like a figure.
    pub(super) fn of(figures: impl IntoIterator<Item = f64>) -> Self {
        let mut sorted: Vec<f64> = figures.into_iter().filter(|figure| figure.is_finite()).collect();
        sorted.sort_by(f64::total_cmp);
        let at = |index: usize| sorted.get(index).copied().unwrap_or(f64::NAN);
        let (low, high) = (sorted.len().saturating_sub(1) / 2, sorted.len() / 2);
        let median = f64::midpoint(at(low), at(high));
        Self { median, least: at(0), most: at(sorted.len().saturating_sub(1)) }
    }

    /// In another unit.
    pub(super) fn scaled(self, factor: f64) -> Self {
        Self { median: self.median * factor, least: self.least * factor, most: self.most * factor }
    }

    /// The median, and between which two figures that of ever more of them would lie, at least 19 times of 20 where there are six or more:
    /// whatever their distribution, each is above it or below as a coin falls.
    pub(super) fn of_median(figures: impl IntoIterator<Item = f64>) -> Self {
        let mut sorted: Vec<f64> = figures.into_iter().filter(|figure| figure.is_finite()).collect();
        sorted.sort_by(f64::total_cmp);
        let outside = outside_of_median(sorted.len());
        let inside = outside..sorted.len() - outside;
        Self { median: Self::of(sorted.iter().copied()).median, ..Self::of(sorted.drain(inside)) }
    }
}

/// How many figures at each end of so many can be left out, so that the median of all that there could be lies among the others 19 times of 20. It
/// does not where no more than that many coins fall on one of the two sides.
fn outside_of_median(count: usize) -> usize {
    const ON_ONE_SIDE: f64 = 0.05 / 2.0;
    // Exactly so many of them; as a logarithm, because after a thousand coins half of half of half is no number any more.
    let mut exactly = -(count as f64) * std::f64::consts::LN_2;
    let mut or_fewer = 0.0;
    for heads in 0..count {
        or_fewer += exactly.exp();
        if or_fewer > ON_ONE_SIDE {
            return heads.saturating_sub(1);
        }
        exactly += ((count - heads) as f64 / (heads + 1) as f64).ln();
    }
    0
}

/// `10.31`, or with a spread that shows `10.31 (10.25 to 10.50)`; as many places as the formatter asks for. Of nothing `-`.
impl fmt::Display for Spread {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.median.is_nan() {
            return formatter.write_str("-");
        }
        let places = formatter.precision().unwrap_or(2);
        let [median, least, most] =
            [self.median, self.least, self.most].map(|figure| format!("{figure:.places$}"));
        if least == most {
            return formatter.write_str(&median);
        }
        write!(formatter, "{median} ({least} to {most})")
    }
}

/// Writes it down for programs: the median under this name, and the spread that people see beside it.
pub(super) fn add(case: &mut Value, name: &str, spread: Spread) {
    case[name] = json!(round(spread.median));
    case[format!("{name}_least")] = json!(round(spread.least));
    case[format!("{name}_most")] = json!(round(spread.most));
}

/// What was written down so; without a spread, a single figure.
pub(super) fn read(case: &Value, name: &str) -> Spread {
    let median = case[name].as_f64().unwrap_or(f64::NAN);
    let end = |end: &str| case[format!("{name}_{end}")].as_f64().unwrap_or(median);
    Spread { median, least: end("least"), most: end("most") }
}

/// What a table's title says of its rounds.
pub(super) fn rounds_told(rounds: usize) -> String {
    if rounds == 1 {
        return "one round".to_owned();
    }
    format!("medians of {rounds} rounds, with the least and the most")
}

/// Of nothing it is no number.
pub(super) fn mean(figures: &[f64]) -> f64 {
    figures.iter().sum::<f64>() / figures.len() as f64
}

/// How far they are from their mean, as statisticians measure it.
pub(super) fn deviation(figures: &[f64]) -> f64 {
    let middle = mean(figures);
    let squares: Vec<f64> = figures.iter().map(|figure| (figure - middle).powi(2)).collect();
    mean(&squares).sqrt()
}

/// To four places after the point: no measurement here is better.
pub(super) fn round(figure: f64) -> f64 {
    (figure * 1e4).round() / 1e4
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_middle_of_runs_is_told_with_its_spread() {
        assert_eq!(Spread::of([3.0, 1.0, 2.0]), Spread { median: 2.0, least: 1.0, most: 3.0 });
        assert_eq!(format!("{:.1}", Spread::of([4.0, 1.0, 2.0, 3.0])), "2.5 (1.0 to 4.0)");
        assert_eq!(Spread::of([1.0, 1.004]).to_string(), "1.00");
        assert!((deviation(&[1.0, 3.0]) - 1.0).abs() < 1e-9);
    }

    #[test]
    fn of_nothing_nothing_is_told() {
        let nothing = Spread::of([1.0 / 0.0, f64::NAN]);
        assert_eq!(nothing.to_string(), "-");
        assert_eq!(Spread::of_median([]).to_string(), "-");
        let mut case = json!({});
        add(&mut case, "ratio", nothing);
        assert_eq!(case, json!({ "ratio": null, "ratio_least": null, "ratio_most": null }));
        assert_eq!(read(&case, "ratio").to_string(), "-");
    }

    #[test]
    fn the_more_figures_the_nearer_are_the_bounds_of_their_median() {
        let bounds = |count: u32| {
            let Spread { median, least, most } = Spread::of_median((0..count).rev().map(f64::from));
            (least, median, most)
        };
        assert_eq!(bounds(1), (0.0, 0.0, 0.0));
        assert_eq!(bounds(3), (0.0, 1.0, 2.0));
        assert_eq!(bounds(6), (0.0, 2.5, 5.0));
        assert_eq!(bounds(9), (1.0, 4.0, 7.0), "20 of 512 times the median is not among these");
        assert_eq!(bounds(10), (1.0, 4.5, 8.0));
        assert_eq!(bounds(100), (39.0, 49.5, 60.0));
        assert_eq!(bounds(10_000), (4901.0, 4999.5, 5098.0));
    }
}
