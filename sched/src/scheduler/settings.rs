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
            fifo: FifoSettings {
                core_permille: 1000,
                memory_permille: 950,
                fresh_after: Span::from_millis(200),
            },
        }
    }
}

impl Settings {
    /// The run time at which a hold costs what it saves.
    pub fn small_task(&self) -> Span {
        self.hold_cost.scaled(1000, self.slicing_permille.max(1))
    }
}
