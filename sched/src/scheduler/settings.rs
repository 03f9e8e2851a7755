//! The numbers that decisions go by, each with what it was measured or reasoned from.

use crate::time::Span;

/// The numbers that decisions go by.
#[derive(Clone, Debug)]
pub struct Settings {
    /// What one hold and release cost a task: a gate tenths of a millisecond, a pause through Docker 60 ms.
    pub hold_cost: Span,
    /// How much slower time slicing makes kernels, in thousandths (12–13 % on an H200, from two
    /// processes on).
    pub slicing_permille: i64,
    /// How long after a drain a task still counts as needing the GPU.
    pub linger: Span,
    /// How long one task without a deadline keeps the GPU while others of its kind wait.
    pub turn: Span,
    /// How long a task without a deadline to make waits for those that have one before it is given
    /// a while: the bound on starvation, once for every task that waits so.
    pub patience: Span,
    /// How long that while is. With `patience`, it is the share of the GPU that urgent work can lose.
    pub grant: Span,
    /// Slack below which nothing else may run.
    pub margin: Span,
    /// The same, as a share of the deadline, in thousandths. Slack is not only this task's: whoever
    /// arrives next lives on it too, so tasks whose deadline is but a few times their run time keep it.
    pub margin_permille: i64,
    /// The longest single hold, where the container does not say.
    pub hold_max: Span,
    /// How long an answer may take before the request is made again.
    pub answer_max: Span,
    /// How long a burst must stay drained before it is over.
    pub burst_gap: Span,
    /// What a context takes of the GPU's memory before its process allocates anything; zero where contexts cost nothing.
    pub context: u64,
    /// How long after a task was seen to give memory back others may have it.
    pub give_back: Span,
    /// What it takes to swap a GiB out and in again: 40 GiB took 29.5 s and 7.3 s on an H200.
    pub swap_per_gib: Span,
    /// How long a task without a deadline keeps its memory at least, in times of what it takes to swap it: the GPU's time lost to swapping is
    /// at most one over one more than that.
    pub swap_worth: i64,
    /// The least of that.
    pub swap_turn_min: Span,
    /// How long somebody lacks memory before another is swapped out: a process that exits gives its own back late.
    pub swap_after: Span,
    /// How long a swap may take before it is asked for again.
    pub swap_answer_max: Span,
    /// The thresholds of `fifo`.
    pub fifo: FifoSettings,
}

/// The paper's thresholds.
#[derive(Clone, Debug)]
pub struct FifoSettings {
    /// The core counts as full from here, in thousandths.
    pub core_permille: u16,
    /// The memory counts as nearly full above this, in thousandths.
    pub memory_permille: u64,
    /// How long after letting a task in a reading shows its effect: NVML's sampling window.
    pub fresh_after: Span,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            hold_cost: Span::from_micros(100),
            slicing_permille: 125,
            linger: Span::from_millis(1),
            turn: Span::from_secs(1),
            patience: Span::from_secs(5),
            grant: Span::from_millis(100),
            margin: Span::from_millis(20),
            margin_permille: 800,
            hold_max: Span::from_secs(300),
            answer_max: Span::from_secs(1),
            burst_gap: Span::ZERO,
            context: 0,
            give_back: Span::ZERO,
            swap_per_gib: Span::from_millis(920),
            swap_worth: 4,
            swap_turn_min: Span::from_secs(2),
            swap_after: Span::from_millis(300),
            swap_answer_max: Span::from_secs(600),
            fifo: FifoSettings {
                core_permille: 1000,
                memory_permille: 950,
                fresh_after: Span::from_millis(200),
            },
        }
    }
}

impl Settings {
    /// How long a task with so much memory keeps it before another without a deadline may have it.
    pub fn swap_turn(&self, memory: u64) -> Span {
        let mebibytes = (memory >> 20).min(1 << 40) as i64;
        self.swap_per_gib.scaled(mebibytes.saturating_mul(self.swap_worth), 1024).max(self.swap_turn_min)
    }

    /// The run time at which a hold costs what it saves.
    pub fn small_task(&self) -> Span {
        self.break_even(self.hold_cost)
    }

    /// The same with what a hold costs the GPU: it idles while the one before still counts as needing it.
    pub fn brief_task(&self) -> Span {
        self.break_even(self.hold_cost + self.linger)
    }

    fn break_even(&self, cost: Span) -> Span {
        cost.scaled(1000, self.slicing_permille.max(1))
    }
}
