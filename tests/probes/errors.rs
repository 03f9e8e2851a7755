//! How far what was told is from what was so, and one test at a time: these are about microseconds.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// At p99, on a machine with other work to do: a program may lose its processor between the time it writes down and the call
/// it means. On a quiet one it is below 1 ms.
const ERROR_S_MAX: f64 = 0.05;
/// At the median. Most are not interrupted.
const ERROR_S_USUAL: f64 = 0.001;

/// Waits for the other tests.
pub(crate) fn alone() -> MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    ONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Prints the errors' quantiles, and fails if they are too large.
pub(crate) fn check(what: &str, mut errors_s: Vec<f64>) {
    errors_s.sort_by(f64::total_cmp);
    let at = |percent: usize| errors_s[(errors_s.len() * percent).div_ceil(100) - 1];
    let (p50, p99, worst) = (at(50), at(99), at(100));
    eprintln!(
        "{what}: p50 {:.0} us, p99 {:.0} us, at worst {:.0} us, of {}",
        p50 * 1e6,
        p99 * 1e6,
        worst * 1e6,
        errors_s.len()
    );
    assert!(p50 < ERROR_S_USUAL && p99 < ERROR_S_MAX, "{what}: p50 {p50} s, p99 {p99} s");
}

/// How far a moment is outside of a span; 0 inside.
pub(crate) fn outside(moment: f64, from: f64, to: f64) -> f64 {
    (from - moment).max(moment - to).max(0.0)
}
