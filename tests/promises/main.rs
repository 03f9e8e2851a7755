//! What `PROMISES.md` promises, proved on every change: ratios and rates, never absolute times.

#[path = "../docker/daemon.rs"]
#[expect(dead_code, reason = "the Docker tests use more of it")]
mod daemon;

mod benches;
mod hit_rate;
mod interruptions;
mod judged;
mod others;
mod playing;
mod refusals;
mod scripts;

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Two benchmarks at once would measure each other.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}
