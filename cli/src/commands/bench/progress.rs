//! How far a benchmark is, and what is left: on stderr, and only where somebody watches.

use indicatif::{ProgressBar, ProgressState, ProgressStyle};
use std::fmt::Write;
use std::time::Duration;

/// How often a bar is drawn while nothing is done: what is left becomes less meanwhile.
const DRAWN_EVERY: Duration = Duration::from_millis(500);

/// A progress bar of runs that take about the same time each: so many seconds, roughly.
pub(super) fn progress_bar(runs: u64, seconds: f64) -> ProgressBar {
    drawn(runs, "{wide_bar} {pos}/{len} runs, {left} left", runs as f64 * seconds)
}

/// A progress bar where runs take different times: it counts seconds that they are expected to take, so that what is left is about right.
pub(super) struct Progress(ProgressBar);

impl Progress {
    pub(super) fn new(seconds: f64) -> Self {
        Self(drawn((seconds * 1e3) as u64, "{wide_bar} {msg}, {left} left", seconds))
    }

    /// What is measured now.
    pub(super) fn now(&self, what: &str) {
        self.0.set_message(what.to_owned());
    }

    /// What was expected to take so long is done.
    pub(super) fn done(&self, seconds: f64) {
        self.0.inc((seconds * 1e3) as u64);
    }

    pub(super) fn end(&self) {
        self.0.finish_and_clear();
    }
}

/// A bar that is there from the start. Before anything is done nobody knows how fast it goes, but how long all of it is expected to take.
fn drawn(steps: u64, template: &str, seconds: f64) -> ProgressBar {
    let left = move |state: &ProgressState, text: &mut dyn Write| {
        let expected = || (seconds - state.elapsed().as_secs_f64()).max(0.0) as u64;
        let left = if state.pos() > 0 { state.eta().as_secs() } else { expected() };
        let _ = write!(text, "{left} s");
    };
    let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
    let bar = ProgressBar::new(steps).with_style(style.with_key("left", left));
    bar.enable_steady_tick(DRAWN_EVERY);
    bar
}
