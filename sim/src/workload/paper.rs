//! The experiment of paper 001, Fig. 8: ten 13,312² matrix products started together on one GPU.
//!
//! Phases as measured on an H200 (one task alone: context 0.22 s, host data until 0.62 s, allocation
//! until 0.63 s, input copied at 0.91 s, kernel done at 1.76 s, output at 1.84 s). The deadlines are
//! staggered so that they hold one after another, and cannot hold time-sliced.

use super::{GPU_MEMORY, Phases, TaskSpec, Workload};
use sched::{Mode, Span};

/// How many tasks start together.
const TASKS: i64 = 10;

/// Two inputs and one output of 13,312² single-precision numbers.
const MEMORY: u64 = 3 * 13_312 * 13_312 * 4;

/// One task alone, on an H200.
pub(super) const MATMUL: Phases = Phases {
    context: Span::from_millis(220),
    host: Span::from_millis(410),
    input: Span::from_millis(280),
    kernels: 1,
    kernel: Span::from_millis(850),
    depth: 1,
    gap: Span::ZERO,
    output: Span::from_millis(80),
    rounds: 1,
    think: Span::ZERO,
};

/// Ten 13,312² matmuls with staggered deadlines.
pub fn paper() -> Workload {
    let tasks = (1..=TASKS).map(|place| {
        // Input copies of ten processes share the link, hence the second copy; 5 % on top of each
        // kernel keeps the plan feasible for a scheduler that is not clairvoyant.
        let ready = MATMUL.before() + MATMUL.input;
        let in_turn = MATMUL.kernel.scaled(105 * place, 100);
        TaskSpec {
            name: format!("matmul-{place}"),
            container: format!("matmul-{place}"),
            gpu: 0,
            arrives: Span::ZERO,
            deadline: Some(ready + in_turn + MATMUL.output),
            expect: None,
            mode: Mode::Process,
            managed: true,
            memory_declared: true,
            memory: MEMORY,
            phases: MATMUL,
        }
    });
    Workload {
        name: "paper 001, Fig. 8: 10 × 13312² matmul, started together".to_owned(),
        gpus: vec![GPU_MEMORY],
        tasks: tasks.collect(),
        alpha: None,
    }
}
