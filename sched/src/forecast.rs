//! How long a container's next task will take, and how much GPU memory it will need, from its history.
//!
//! Problem: run times have outliers (a cold cache, a neighbour) and histories are short. A mean is
//! ruined by one bad run, and a maximum never forgets it.
//!
//! Approach: keep the last [`RUNS_KEPT`] runs; the typical run is their median, the upper one a high
//! quantile. With few runs the quantile is not in sight yet, so the longest run is stretched, the
//! more the fewer there are. What the operator declared counts until the first run was measured:
//! a claim is never worth more than a measurement.

use crate::fact::Terms;
use crate::time::Span;
use alloc::vec::Vec;

/// How many runs are remembered: enough for a quantile, few enough to follow a container that changes.
pub const RUNS_KEPT: usize = 32;

/// The upper forecast covers nine runs in ten.
const UPPER_TENTHS: usize = 9;

/// Where a forecast comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// From that many runs of this container.
    Measured(usize),
    /// From what the operator declared.
    Declared,
    /// From nothing: the deadline stands in for the run time, so that the task is taken to need all
    /// of it. It says nothing about whether the task can make it.
    Assumed,
}

/// The next task of one container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Forecast {
    /// As long as it usually takes.
    pub typical: Span,
    /// As long as it takes nine times in ten, or less.
    pub upper: Span,
    /// Where these come from.
    pub source: Source,
    /// GPU memory it will need, if known.
    pub memory: Option<u64>,
}

impl Forecast {
    /// Whether it may be believed that a task cannot make its deadline.
    pub fn is_known(&self) -> bool {
        self.source != Source::Assumed
    }

    /// Of the typical run, what is left after it ran for `served`.
    pub fn left(&self, served: Span) -> Span {
        (self.typical - served).or_zero()
    }

    /// Of the upper run, what is left after it ran for `served`.
    pub fn left_upper(&self, served: Span) -> Span {
        (self.upper - served).or_zero()
    }
}

/// What is remembered of one container's finished tasks.
#[derive(Clone, Debug, Default)]
pub struct History {
    /// Run times in the order they came, the oldest overwritten first.
    runs: Vec<Span>,
    /// Where the next run goes.
    next: usize,
    /// Median and upper quantile of `runs`, kept ready because every decision asks for them.
    measured: Option<(Span, Span)>,
    /// The most GPU memory a task had.
    memory_peak: u64,
}

impl History {
    /// Remembers one finished task.
    pub fn remember(&mut self, run: Span, memory_peak: u64) {
        if self.runs.len() < RUNS_KEPT {
            self.runs.push(run);
        } else {
            self.runs[self.next] = run;
        }
        self.next = (self.next + 1) % RUNS_KEPT;
        self.memory_peak = self.memory_peak.max(memory_peak);
        self.measured = Some(quantiles(&self.runs));
    }

    /// What the next task will be like, on these terms.
    pub fn forecast(&self, terms: &Terms) -> Forecast {
        let memory = if self.memory_peak > 0 { Some(self.memory_peak) } else { terms.memory };
        let (typical, upper, source) = match (self.measured, terms.expect) {
            (Some((typical, upper)), _) => (typical, upper, Source::Measured(self.runs.len())),
            (None, Some(expect)) => (expect, expect, Source::Declared),
            (None, None) => {
                let whole = terms.deadline.map_or(Span::ZERO, |deadline| deadline.span());
                (whole, whole, Source::Assumed)
            }
        };
        Forecast { typical, upper, source, memory }
    }
}

/// The median and the upper quantile.
fn quantiles(runs: &[Span]) -> (Span, Span) {
    let mut sorted = runs.to_vec();
    sorted.sort_unstable();
    let count = sorted.len();
    let upper_rank = ((count + 1) * UPPER_TENTHS).div_ceil(10);
    let upper = if upper_rank <= count {
        sorted[upper_rank - 1]
    } else {
        // Not enough runs to see the quantile: the longest, stretched by half over their number.
        let longest = sorted[count - 1];
        longest + longest.scaled(1, 2 * count as i64)
    };
    (sorted[count / 2], upper)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::task::Deadline;

    fn millis(history: &[i64], terms: &Terms) -> (i64, i64, Source) {
        let mut kept = History::default();
        history.iter().for_each(|run| kept.remember(Span::from_millis(*run), 0));
        let forecast = kept.forecast(terms);
        (forecast.typical.as_micros() / 1_000, forecast.upper.as_micros() / 1_000, forecast.source)
    }

    #[test]
    fn one_bad_run_does_not_move_the_typical_one() {
        let mut runs = [100; 20];
        runs[7] = 9_000;
        assert_eq!(millis(&runs, &Terms::UNMANAGED), (100, 100, Source::Measured(20)));
    }

    #[test]
    fn few_runs_stretch_the_upper_forecast() {
        assert_eq!(millis(&[100], &Terms::UNMANAGED), (100, 150, Source::Measured(1)));
        assert_eq!(millis(&[100, 100], &Terms::UNMANAGED).1, 125);
        assert_eq!(millis(&[100; 5], &Terms::UNMANAGED).1, 110);
    }

    #[test]
    fn the_upper_forecast_covers_nine_runs_in_ten() {
        let runs: Vec<i64> = (1..=20).map(|i| i * 10).collect();
        assert_eq!(millis(&runs, &Terms::UNMANAGED), (110, 190, Source::Measured(20)));
    }

    #[test]
    fn old_runs_are_forgotten() {
        let mut runs = alloc::vec![900; RUNS_KEPT];
        runs.extend([50; RUNS_KEPT]);
        assert_eq!(millis(&runs, &Terms::UNMANAGED).0, 50);
    }

    #[test]
    fn a_claim_counts_until_a_run_was_measured() {
        let claims = Terms { expect: Some(Span::from_millis(10)), ..Terms::UNMANAGED };
        assert_eq!(millis(&[], &claims), (10, 10, Source::Declared));
        assert_eq!(millis(&[300], &claims).0, 300);
    }

    #[test]
    fn with_nothing_known_the_deadline_stands_in() {
        let terms = Terms { deadline: Deadline::new(Span::from_secs(2)), ..Terms::UNMANAGED };
        assert_eq!(millis(&[], &terms), (2_000, 2_000, Source::Assumed));
    }
}
