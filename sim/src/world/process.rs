//! A process of the made-up world: what it does next, and what keeps it.

use crate::workload::{Phases, TaskSpec};
use sched::task::Gate;
use sched::{ContainerId, Instant, Process, Span};

/// Work is counted in millionths of a microsecond, so that time slicing among thousands divides it fairly.
pub(super) const WORK_PER_US: u64 = 1_000_000;

/// Where a process is in its phases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Context,
    Host,
    Allocate,
    Input,
    Launch,
    Synchronise,
    Gap,
    Output,
    Think,
    Free,
    Done,
}

/// One process.
#[derive(Clone, Debug)]
pub(super) struct Proc {
    pub process: Process,
    pub container: ContainerId,
    pub gpu: usize,
    pub memory_need: u64,
    pub phases: Phases,
    pub step: Step,
    /// Work left in the present step, if that takes time of its own.
    pub left: u64,
    pub kernels_left: u32,
    pub rounds_left: u32,
    /// Kernels on the GPU, as work left.
    pub in_flight: u64,
    pub memory: u64,
    /// What its gate stops, if it is shut.
    pub gate: Option<Gate>,
    /// It stands at its gate.
    pub stopped: bool,
    /// It may make one allocation, though its gate is shut.
    pub passed: bool,
    /// It is to be stopped with its whole container.
    pub wants_frozen: bool,
    /// Its whole container is stopped, by us.
    pub frozen: bool,
    /// Its whole container is stopped, by somebody else.
    pub paused: bool,
    pub started: Instant,
    pub ended: Option<Instant>,
    /// It ran out of GPU memory, or was killed.
    pub failed: bool,
    pub out_of_memory: bool,
    pub stops: u64,
    pub stopped_since: Option<Instant>,
    pub waited: Span,
}

impl Proc {
    pub(super) fn new(spec: &TaskSpec, process: Process, container: ContainerId, now: Instant) -> Proc {
        Proc {
            process,
            container,
            gpu: spec.gpu,
            memory_need: spec.memory,
            phases: spec.phases,
            step: Step::Context,
            left: work(spec.phases.context),
            kernels_left: spec.phases.kernels,
            rounds_left: spec.phases.rounds,
            in_flight: 0,
            memory: 0,
            gate: None,
            stopped: false,
            passed: false,
            wants_frozen: false,
            frozen: false,
            paused: false,
            started: now,
            ended: None,
            failed: false,
            out_of_memory: false,
            stops: 0,
            stopped_since: None,
            waited: Span::ZERO,
        }
    }

    /// Whether its present step is a stretch of host time.
    pub(super) fn computes_on_host(&self) -> bool {
        matches!(self.step, Step::Context | Step::Host | Step::Gap | Step::Think) && !self.is_still()
    }

    /// Whether its present step is a copy.
    pub(super) fn copies(&self) -> bool {
        matches!(self.step, Step::Input | Step::Output) && !self.is_still()
    }

    /// Whether something keeps it from going on.
    pub(super) fn is_still(&self) -> bool {
        self.stopped || self.frozen || self.paused
    }

    /// Enters a step that takes that long.
    pub(super) fn enter(&mut self, step: Step, span: Span) {
        self.step = step;
        self.left = work(span);
    }

    /// The step after a stretch of time, a copy or a wait is over.
    pub(super) fn after(&mut self) {
        let phases = self.phases;
        match self.step {
            Step::Context => self.enter(Step::Host, phases.host),
            Step::Host => self.step = Step::Allocate,
            Step::Allocate | Step::Think => self.enter(Step::Input, phases.input),
            Step::Input | Step::Gap => self.step = Step::Launch,
            Step::Launch => self.step = Step::Synchronise,
            Step::Synchronise if self.kernels_left > 0 => self.enter(Step::Gap, phases.gap),
            Step::Synchronise => self.enter(Step::Output, phases.output),
            Step::Output if self.rounds_left > 1 => {
                self.rounds_left -= 1;
                self.kernels_left = phases.kernels;
                self.enter(Step::Think, phases.think);
            }
            Step::Output => self.step = Step::Free,
            Step::Free | Step::Done => self.step = Step::Done,
        }
    }

    pub(super) fn come_to_a_stand(&mut self, now: Instant) {
        if self.stopped_since.is_none() {
            self.stopped_since = Some(now);
            self.stops += 1;
        }
    }

    pub(super) fn go_on(&mut self, now: Instant) {
        if let Some(since) = self.stopped_since.take() {
            self.waited += now.since(since);
        }
    }
}

/// A span as work.
pub(super) fn work(span: Span) -> u64 {
    span.as_micros() as u64 * WORK_PER_US
}
