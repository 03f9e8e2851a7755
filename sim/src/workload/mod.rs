//! What is to be done: tasks with their phases, arrivals and deadlines.

mod arrivals;
mod generate;
mod paper;
mod story;

pub use arrivals::{ArrivalsError, arrivals};
pub use generate::{ALPHA_MAX, ALPHA_MIN, Generator};
pub use paper::paper;
pub use story::{StoryError, story};

use sched::{Mode, Span};

/// GPU memory where nobody says: an H200's, rounded.
pub const GPU_MEMORY: u64 = 140 << 30;

/// A set of tasks for one node.
#[derive(Clone, Debug)]
pub struct Workload {
    /// Where it came from, in words.
    pub name: String,
    /// The memory of each GPU.
    pub gpus: Vec<u64>,
    /// The tasks, in the order they arrive.
    pub tasks: Vec<TaskSpec>,
    /// Deadline over solo run time, least and most, if deadlines were made that way.
    pub alpha: Option<[f64; 2]>,
}

/// One process and its work.
#[derive(Clone, Debug, PartialEq)]
pub struct TaskSpec {
    /// What it is called.
    pub name: String,
    /// Its container. Tasks that share one share its history; the terms of the first count.
    pub container: String,
    /// The GPU it uses.
    pub gpu: usize,
    /// When it starts.
    pub arrives: Span,
    /// How long it may take.
    pub deadline: Option<Span>,
    /// How long it is said to take.
    pub expect: Option<Span>,
    /// What delimits a task of its container.
    pub mode: Mode,
    /// Whether Leeway may touch it.
    pub managed: bool,
    /// Whether its memory need is declared.
    pub memory_declared: bool,
    /// GPU memory it allocates.
    pub memory: u64,
    /// Its phases.
    pub phases: Phases,
}

/// What a process does, one after another. `input` to `output` repeat for every round.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Phases {
    /// Creating the CUDA context.
    pub context: Span,
    /// Work on the host before the first allocation.
    pub host: Span,
    /// Copying the input to the GPU.
    pub input: Span,
    /// How many kernels a round has.
    pub kernels: u32,
    /// How long one kernel takes alone.
    pub kernel: Span,
    /// How many kernels are queued before the process waits for them.
    pub depth: u32,
    /// Host time between waiting for kernels and launching the next ones.
    pub gap: Span,
    /// Copying the output back.
    pub output: Span,
    /// How often this repeats: requests of a server.
    pub rounds: u32,
    /// Host time between two rounds.
    pub think: Span,
}

impl Phases {
    /// Nothing but work on the GPU, in kernels of that length (the last one shorter).
    pub fn kernels_of(work: Span, kernel: Span) -> Phases {
        let kernels = (work.as_micros().max(1) as u64).div_ceil(kernel.as_micros().max(1) as u64);
        Phases {
            context: Span::ZERO,
            host: Span::ZERO,
            input: Span::ZERO,
            kernels: kernels as u32,
            kernel: work.scaled(1, kernels as i64),
            depth: 1,
            gap: Span::ZERO,
            output: Span::ZERO,
            rounds: 1,
            think: Span::ZERO,
        }
    }

    /// Work on the GPU, all rounds.
    pub fn work(&self) -> Span {
        self.kernel.scaled(i64::from(self.kernels) * i64::from(self.rounds), 1)
    }

    /// From start to first launch.
    pub fn before(&self) -> Span {
        self.context + self.host + self.input
    }

    /// How long it takes alone.
    pub fn solo(&self) -> Span {
        let rounds = i64::from(self.rounds);
        let batches = i64::from(self.kernels.div_ceil(self.depth.max(1)));
        let gaps = self.gap.scaled((batches - 1).max(0), 1);
        let round = self.input + self.kernel.scaled(i64::from(self.kernels), 1) + gaps + self.output;
        self.context + self.host + round.scaled(rounds, 1) + self.think.scaled(rounds - 1, 1)
    }
}
