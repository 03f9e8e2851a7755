//! How far a benchmark is, and what is left: on stderr, and only where somebody watches.

use indicatif::{ProgressBar, ProgressState, ProgressStyle};
use std::fmt::Write;
use std::sync::{Arc, Mutex, PoisonError};
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
        let bar = drawn((seconds * 1e3) as u64, "{wide_bar} {msg}, {left} left", seconds);
        bar.set_message("everything is set up");
        Self(bar)
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

/// A bar that is there from the start. How long all of it takes is what was expected until a run is done, and then what those that are done tell:
/// judged at the end of each, so that what is left becomes less until the next.
fn drawn(steps: u64, template: &str, seconds: f64) -> ProgressBar {
    let judged = Arc::new(Mutex::new((0, seconds)));
    let left = move |state: &ProgressState, text: &mut dyn Write| {
        let elapsed = state.elapsed().as_secs_f64();
        let mut judged = judged.lock().unwrap_or_else(PoisonError::into_inner);
        if state.pos() != judged.0 {
            *judged = (state.pos(), elapsed * steps as f64 / state.pos() as f64);
        }
        let _ = write!(text, "{:.0} s", (judged.1 - elapsed).max(0.0));
    };
    let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
    let bar = ProgressBar::new(steps).with_style(style.with_key("left", left));
    bar.enable_steady_tick(DRAWN_EVERY);
    bar
}
