//! When each phase of a program was over, by its own clock.

use wire::work::{Moment, WorkReport, WorkRequest};

/// The phases so far. One that a program does not have ends when the one before it does.
pub(crate) struct Phases {
    pub(crate) device: String,
    init: Moment,
    context: Moment,
    allocated: Moment,
    input: Moment,
    kernel: Moment,
    output: Moment,
    pub(crate) kernels: u64,
    pub(crate) requests: Vec<WorkRequest>,
}

impl Phases {
    /// Just before `cuInit`.
    pub(crate) fn begin() -> Self {
        let now = Moment::now();
        Self {
            device: String::new(),
            init: now,
            context: now,
            allocated: now,
            input: now,
            kernel: now,
            output: now,
            kernels: 0,
            requests: Vec::new(),
        }
    }

    pub(crate) fn context(&mut self) {
        self.context = Moment::now();
    }

    pub(crate) fn allocated(&mut self) {
        self.allocated = Moment::now();
    }

    pub(crate) fn input(&mut self) {
        self.input = Moment::now();
    }

    pub(crate) fn kernel(&mut self) {
        self.kernel = Moment::now();
    }

    pub(crate) fn output(&mut self) {
        self.output = Moment::now();
    }

    /// Everything is freed.
    pub(crate) fn end(self, ok: bool) -> WorkReport {
        let input = self.input.max(self.allocated);
        let kernel = self.kernel.max(input);
        let seconds = kernel.seconds_since(input);
        let rate = if seconds > 0.0 { self.kernels as f64 / seconds } else { 0.0 };
        WorkReport {
            pid: std::process::id(),
            device: self.device,
            init: self.init,
            context: self.context,
            allocated: self.allocated,
            input,
            kernel,
            output: self.output.max(kernel),
            end: Moment::now(),
            ok,
            kernels: self.kernels,
            kernels_per_second: (rate * 1e3).round() / 1e3,
            requests: self.requests,
        }
    }
}
