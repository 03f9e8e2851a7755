//! From a launch at a shut gate to the process stopped, seen from outside.
//!
//! The kernel writes down when a process launched at its gate, and the agent's journal has that. Whether the process stands is asked of
//! the kernel as any parent may ask it, with no help of the agent's: these are our own children.

use super::hold::{Measured, curve};
use super::recording;
use crate::stage::Player;
use anyhow::Result;
use rustix::io::Errno;
use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use serde_json::json;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::thread::JoinHandle;
use wire::journal::{FactLine, Line};

/// When which process was seen to stand: its pid, and microseconds since boot.
type Stops = Vec<(u32, u64)>;

/// Those who watch our children, one each. They sleep until the kernel has something to say: one who asked again and again would take the
/// processor from the process that is about to stop.
pub(super) struct Watcher {
    threads: Vec<JoinHandle<Stops>>,
}

impl Watcher {
    pub(super) fn start(players: &[Player]) -> Self {
        let watch = |(number, player): (usize, &Player)| {
            let pid = player.pid();
            std::thread::spawn(move || {
                share_a_processor(number, pid);
                watch(pid)
            })
        };
        Self { threads: players.iter().enumerate().map(watch).collect() }
    }

    /// What was seen. Waits until the children have ended.
    pub(super) fn end(self) -> Stops {
        self.threads.into_iter().flat_map(|thread| thread.join().unwrap_or_default()).collect()
    }
}

fn watch(pid: u32) -> Stops {
    come_first();
    let mut stops = Vec::new();
    let Some(child) = Pid::from_raw(pid.cast_signed()) else { return stops };
    // The exit is left for whoever started it.
    let stopped_or_ended = WaitIdOptions::STOPPED | WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
    loop {
        match waitid(WaitId::Pid(child), stopped_or_ended) {
            Ok(Some(status)) if status.stopped() => {
                stops.push((pid, now_us()));
                let _ = waitid(WaitId::Pid(child), WaitIdOptions::STOPPED | WaitIdOptions::NOHANG);
            }
            Err(Errno::INTR) => {}
            _ => return stops,
        }
    }
}

/// Puts this thread and a child onto one processor, another for each: to wake a second processor takes longer than to stop.
fn share_a_processor(number: usize, child: u32) {
    let Ok(allowed) = sched_getaffinity(None) else { return };
    let allowed: Vec<usize> = (0..CpuSet::MAX_CPU).filter(|processor| allowed.is_set(*processor)).collect();
    let mut one = CpuSet::new();
    one.set(allowed[number % allowed.len()]);
    let _ = sched_setaffinity(None, &one);
    for thread in std::fs::read_dir(format!("/proc/{child}/task")).into_iter().flatten().flatten() {
        let thread = thread.file_name().to_str().and_then(|number| number.parse().ok());
        let _ = thread.and_then(Pid::from_raw).map(|thread| sched_setaffinity(Some(thread), &one));
    }
}

/// Puts this thread before all others: a watcher that waits for a processor sees a stop late. Who is not root stays as it is.
fn come_first() {
    let thread = rustix::thread::gettid().as_raw_nonzero().to_string();
    let _ = Command::new("chrt").args(["--fifo", "--pid", "1", &thread]).output();
}

fn now_us() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec.cast_unsigned() * 1_000_000 + now.tv_nsec.cast_unsigned() / 1_000
}

/// The time from each launch at a gate to the stop that was seen after it.
pub(super) fn result(folder: &Path, stops: &Stops) -> Result<Measured> {
    let launches = recording::lines(folder)?.into_iter().filter_map(|line| match line {
        Line::Fact { at, fact: FactLine::AtLaunch { process, .. } } => Some((process.0, at)),
        _ => None,
    });
    let mut took = between(launches, stops);
    took.sort_unstable();
    let at = |percent| crate::commands::tasks::quantile(&took, percent);
    let case = json!({
        "case": "from a launch at a shut gate to the process stopped",
        "stops": took.len(),
        "stop_us_p50": at(50),
        "stop_us_p99": at(99),
        "stop_us_max": took.last(),
        "load": super::detect::load(),
    });
    Ok(Measured { case, curves: vec![curve("stopped at a shut gate", &took)] })
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
