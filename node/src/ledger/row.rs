//! A task as it is kept, shown and sent.

use crate::clock;
use wire::agent::TaskLine;
use wire::labels::Mode;

/// One task, with wall-clock times in microseconds since 1970.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// The container's full id.
    pub container: Option<String>,
    /// The container's name.
    pub name: Option<String>,
    /// The process.
    pub pid: u32,
    /// The GPU.
    pub gpu: u16,
    /// What delimits it.
    pub mode: Mode,
    /// When it started.
    pub start_us: i64,
    /// When it ended; none while it runs.
    pub end_us: Option<i64>,
    /// When it was looked at, while it runs.
    pub now_us: i64,
    /// How long it may take.
    pub deadline_us: Option<i64>,
    /// How long holds kept it standing.
    pub held_us: i64,
    /// It stands because of a hold.
    pub held: bool,
    /// The most GPU memory it had.
    pub gpu_memory_bytes: u64,
    /// The most of the core it used, in thousandths.
    pub core_permille: u16,
    /// Its start was not seen.
    pub approximate: bool,
}

impl Row {
    /// How long it took, or has taken.
    pub fn run_us(&self) -> i64 {
        self.end_us.unwrap_or(self.now_us) - self.start_us
    }

    /// What is or was left of its deadline.
    pub fn float_us(&self) -> Option<i64> {
        Some(self.deadline_us? - self.run_us())
    }

    /// Whether it made its deadline; none while that is open, and without one.
    pub fn hit(&self) -> Option<bool> {
        let made = self.float_us()? >= 0;
        (self.end_us.is_some() || !made).then_some(made)
    }

    /// The task as JSON has it.
    pub fn line(&self) -> TaskLine {
        TaskLine {
            container: self.container.clone(),
            name: self.name.clone(),
            pid: self.pid,
            gpu: self.gpu,
            mode: self.mode,
            start: clock::rfc3339(self.start_us),
            end: self.end_us.map(clock::rfc3339),
            run_us: self.run_us(),
            deadline_us: self.deadline_us,
            float_us: self.float_us(),
            hit: self.hit(),
            held_us: self.held_us,
            held: self.held,
            gpu_memory_bytes: self.gpu_memory_bytes,
            gpu_core_ratio: f64::from(self.core_permille) / 1000.0,
            approximate: self.approximate,
        }
    }
}
