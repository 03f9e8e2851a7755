//! Containers that run one program after another all the time, and how many programs a second that is.
//!
//! Problem: to count the programs that end within a few seconds says little. Those that start together end together, so a whole wave of them is
//! in or out: ten that took 2.3 s each had 5.0 ends a second, where no more than 4.4 were possible, and took they a tenth longer it would have been 5.0, too.
//!
//! Approach: a program counts with the share of its time that lies in the span that is measured, also if it began before, or ends after it.
//! All containers go on until the last of these has ended: else whoever ends last would have had the GPU for itself.

use crate::commands::bench::Interruption;
use crate::commands::bench::cgroup::Cgroup;
use crate::commands::bench::program;
use crate::failure::Failure;
use crate::stage::Stage;
use anyhow::{Context, Result};
use std::ops::Range;
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How many programs each container has run before anything is counted.
const WARM_PROGRAMS: usize = 2;
/// How often to look how far they are; and to end what runs, when that is all.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// The containers, while they run.
pub(super) struct Loops<'a> {
    stage: &'a Stage,
    /// Rows and columns of the matrices.
    n: u32,
    interruption: &'a Interruption,
    start: Instant,
    /// What each container ran, in order.
    ran: Vec<Mutex<Vec<Ran>>>,
    /// No more programs, and those that run count for nothing.
    end: AtomicBool,
    /// One of them has failed.
    failed: AtomicBool,
}

/// One program: from its start until it had ended, in seconds since all began, and what it took by its own clock.
struct Ran {
    span: Range<f64>,
    task_s: f64,
}

/// What came of them in a span.
#[derive(Debug, PartialEq)]
pub(super) struct Counted {
    pub(super) tasks_per_second: f64,
    /// What a task took, on average.
    pub(super) task_s: f64,
}

impl<'a> Loops<'a> {
    /// Runs them for as long as somebody measures, and returns what was measured.
    pub(super) fn during<T>(
        stage: &'a Stage,
        cgroups: &'a [Cgroup],
        n: u32,
        interruption: &'a Interruption,
        measure: impl FnOnce(&Self) -> Result<T>,
    ) -> Result<T> {
        let loops = Self {
            stage,
            n,
            interruption,
            start: Instant::now(),
            ran: cgroups.iter().map(|_| Mutex::default()).collect(),
            end: AtomicBool::new(false),
            failed: AtomicBool::new(false),
        };
        std::thread::scope(|scope| {
            let loops = &loops;
            let run = |(cgroup, ran)| scope.spawn(move || loops.again_and_again(cgroup, ran));
            let threads: Vec<_> = cgroups.iter().zip(&loops.ran).map(run).collect();
            let measured = measure(loops);
            loops.end.store(true, Ordering::Relaxed);
            // Nobody waits for what is not counted. One more may have been about to start.
            while !threads.iter().all(|thread| thread.is_finished()) {
                cgroups.iter().for_each(Cgroup::kill);
                std::thread::sleep(LOOK_EVERY);
            }
            // Ctrl-C ends the programs, too, and then it is no failure of theirs. Else one that failed is why nothing was measured.
            interruption.check()?;
            for thread in threads {
                thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
            }
            measured
        })
    }

    /// Waits until all run as they will from now on.
    pub(super) fn warm(&self) -> Result<()> {
        self.wait_for(|ran| ran.len() >= WARM_PROGRAMS)
    }

    /// How long they have run, in seconds.
    pub(super) fn now(&self) -> f64 {
        self.start.elapsed().as_secs_f64()
    }

    /// What came of them in that span. Waits until whatever ran in it has ended.
    pub(super) fn counted(&self, span: &Range<f64>) -> Result<Counted> {
        self.wait_for(|ran| ran.last().is_some_and(|last| last.span.end >= span.end))?;
        Ok(counted(self.ran.iter().map(lock).flat_map(|mut ran| std::mem::take(&mut *ran)), span))
    }

    fn wait_for(&self, is_so: impl Fn(&[Ran]) -> bool) -> Result<()> {
        while !self.ran.iter().all(|ran| is_so(&lock(ran))) {
            self.interruption.check()?;
            if self.failed.load(Ordering::Relaxed) {
                return Err(Failure::new("a CUDA program failed").into());
            }
            std::thread::sleep(LOOK_EVERY);
        }
        Ok(())
    }

    /// One program after another, until the end.
    fn again_and_again(&self, cgroup: &Cgroup, ran: &Mutex<Vec<Ran>>) -> Result<()> {
        while !self.end.load(Ordering::Relaxed) {
            match self.once(cgroup) {
                Ok(one) => lock(ran).push(one),
                Err(_) if self.end.load(Ordering::Relaxed) => {}
                Err(error) => {
                    self.failed.store(true, Ordering::Relaxed);
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    fn once(&self, cgroup: &Cgroup) -> Result<Ran> {
        let from = self.now();
        let side = self.n.to_string();
        let mut work = cgroup.inside(&self.stage.work(&["matmul", "--n", &side, "--json"])?);
        let child = work.stdout(Stdio::piped()).spawn();
        let output =
            child.and_then(|child| child.wait_with_output()).context("could not run a CUDA program")?;
        let report = program::report(output.status, &String::from_utf8_lossy(&output.stdout))?;
        let time = |phase: &str| report[phase].as_f64().unwrap_or_default();
        Ok(Ran { span: from..self.now(), task_s: time("end") - time("init") })
    }
}

/// Nobody panics while he has it.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn counted(ran: impl Iterator<Item = Ran>, within: &Range<f64>) -> Counted {
    let (mut tasks, mut seconds) = (0.0, 0.0);
    for Ran { span, task_s } in ran {
        let inside = span.end.min(within.end) - span.start.max(within.start);
        let share = inside.max(0.0) / (span.end - span.start);
        tasks += share;
        seconds += share * task_s;
    }
    Counted { tasks_per_second: tasks / (within.end - within.start), task_s: seconds / tasks }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ten containers in step, whose programs take so long.
    fn in_step(task_s: f64) -> Counted {
        let each = (0..10).map(|number| f64::from(number) * task_s);
        let ran = each.map(|from| Ran { span: from..from + task_s, task_s });
        let all: Vec<Ran> = (0..10).flat_map(|_| ran.clone()).collect();
        counted(all.into_iter(), &(2.0..10.0))
    }

    #[test]
    fn waves_of_programs_count_for_what_they_took() {
        // The ends from second 2 to second 10 are 40 each time.
        for task_s in [2.1, 2.28, 2.5] {
            let Counted { tasks_per_second, task_s: told } = in_step(task_s);
            assert!((tasks_per_second - 10.0 / task_s).abs() < 1e-9, "{task_s}: {tasks_per_second}");
            assert!((told - task_s).abs() < 1e-9, "{told}");
        }
    }

    #[test]
    fn of_what_ran_outside_nothing_counts() {
        let ran = [(0.0, 1.0), (1.0, 3.0), (3.0, 4.0), (4.0, 8.0), (8.0, 9.0)];
        let ran = ran.map(|(from, until)| Ran { span: from..until, task_s: until - from });
        let found = counted(ran.into_iter(), &(2.0..6.0));
        // Half of the second, the third, and half of the fourth.
        assert_eq!(found, Counted { tasks_per_second: 0.5, task_s: 2.0 });
    }
}
