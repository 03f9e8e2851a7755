//! From a launch at a shut gate to the process stopped, seen from outside.
//!
//! The kernel writes down when a process launched at its gate, and the agent's journal has that. Whether the process stands is asked of
//! the kernel as any parent may ask it, with no help of the agent's: these are our own children.

use super::recording;
use crate::stage::Player;
use anyhow::Result;
use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;
use wire::journal::{FactLine, Line};

/// How often each is asked for.
const LOOK_EVERY: Duration = Duration::from_micros(20);

/// When which process was seen to stand: its pid, and microseconds since boot.
type Stops = Vec<(u32, u64)>;

/// Somebody who watches our children.
pub(super) struct Watcher {
    end: Arc<AtomicBool>,
    thread: JoinHandle<Stops>,
}

impl Watcher {
    pub(super) fn start(players: &[Player]) -> Self {
        let pids: Vec<u32> = players.iter().map(Player::pid).collect();
        let end = Arc::new(AtomicBool::new(false));
        let ends = Arc::clone(&end);
        let thread = std::thread::spawn(move || {
            come_first();
            let mut stops = Vec::new();
            while !ends.load(Ordering::Relaxed) {
                stops.extend(pids.iter().filter(|pid| has_stopped(**pid)).map(|pid| (*pid, now_us())));
                std::thread::sleep(LOOK_EVERY);
            }
            stops
        });
        Self { end, thread }
    }

    /// What was seen.
    pub(super) fn end(self) -> Stops {
        self.end.store(true, Ordering::Relaxed);
        self.thread.join().unwrap_or_default()
    }
}

/// Puts this thread before all others: a watcher that waits for a processor sees a stop late. Who is not root stays as it is.
fn come_first() {
    let thread = rustix::thread::gettid().as_raw_nonzero().to_string();
    let _ = Command::new("chrt").args(["--fifo", "--pid", "1", &thread]).output();
    let _ = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1));
}

/// Whether a child has stopped since this was last asked.
fn has_stopped(pid: u32) -> bool {
    let Some(pid) = Pid::from_raw(pid.cast_signed()) else { return false };
    let asked = waitid(WaitId::Pid(pid), WaitIdOptions::STOPPED | WaitIdOptions::NOHANG);
    matches!(asked, Ok(Some(status)) if status.stopped())
}

fn now_us() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec.cast_unsigned() * 1_000_000 + now.tv_nsec.cast_unsigned() / 1_000
}

/// The time from each launch at a gate to the stop that was seen after it.
pub(super) fn result(folder: &Path, stops: &Stops) -> Result<Value> {
    let launches = recording::lines(folder)?.into_iter().filter_map(|line| match line {
        Line::Fact { at, fact: FactLine::AtLaunch { process, .. } } => Some((process.0, at)),
        _ => None,
    });
    let mut took = between(launches, stops);
    took.sort_unstable();
    let at = |percent| crate::commands::tasks::quantile(&took, percent);
    Ok(json!({
        "case": "from a launch at a shut gate to the process stopped",
        "stops": took.len(),
        "stop_us_p50": at(50),
        "stop_us_p99": at(99),
        "stop_us_max": took.last(),
        "load": super::detect::load(),
    }))
}

/// Each stop belongs to the last launch of its process before it, and a launch has one stop.
fn between(launches: impl Iterator<Item = (u32, u64)>, stops: &Stops) -> Vec<i64> {
    let mut of: BTreeMap<u32, Vec<u64>> = BTreeMap::new();
    launches.for_each(|(pid, at)| of.entry(pid).or_default().push(at));
    of.values_mut().for_each(|moments| moments.sort_unstable());
    let took = stops.iter().filter_map(|(pid, seen)| {
        let moments = of.get_mut(pid)?;
        let before = moments.partition_point(|at| at <= seen);
        let at = *moments.get(before.checked_sub(1)?)?;
        moments.drain(..before);
        Some(seen.saturating_sub(at).cast_signed())
    });
    took.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_stop_belongs_to_the_last_launch_before_it() {
        let launches = [(1, 100), (2, 105), (1, 200), (1, 300)];
        let stops = vec![(2, 110), (1, 220), (1, 230), (3, 400), (1, 301)];
        assert_eq!(between(launches.into_iter(), &stops), [5, 20, 1]);
    }
}
