//! Facts and actions as they are written, and facts as they are read again.

use crate::terms;
use sched::task::Gate;
use sched::{
    Action, ContainerId, Deadline, Fact, GpuId, Instant, Outcome, Process, Reading, RequestId, Span, TaskId,
    Terms,
};
use wire::journal::{ActionLine, FactLine, OutcomeLine, ProcessPair, TermsLine};

pub(super) fn micros(at: Instant) -> u64 {
    at.since(Instant::ZERO).as_micros().cast_unsigned()
}

/// An action; in its reason, tasks are numbers.
pub(super) fn action(action: &Action) -> ActionLine {
    let name = |task: TaskId| format!("task {}", task.0);
    let (request, task, what, because) = match action {
        Action::Hold { request, task, gate: Gate::Launches, because } => {
            (request, task, "hold at launches", because)
        }
        Action::Hold { request, task, gate: Gate::Allocations, because } => {
            (request, task, "hold at allocations", because)
        }
        Action::Hold { request, task, gate: Gate::Anywhere, because } => {
            (request, task, "hold at once", because)
        }
        Action::Release { request, task, because } => (request, task, "release", because),
        Action::Pass { request, task, because } => (request, task, "pass", because),
        Action::SwapOut { request, task, because } => (request, task, "swap out", because),
        Action::SwapIn { request, task, asks: false, because } => (request, task, "swap in", because),
        Action::SwapIn { request, task, asks: true, because } => {
            (request, task, "swap in, to its next allocation", because)
        }
    };
    ActionLine { request: request.0, task: task.0, action: what.to_owned(), because: because.words(name) }
}

pub(super) fn fact(fact: &Fact) -> FactLine {
    let pair = |process: Process| (process.pid, process.started);
    match *fact {
        Fact::Container { container, terms, paused } => {
            FactLine::Container { container: container.0, terms: terms_line(&terms), paused }
        }
        Fact::ContainerGone(container) => FactLine::ContainerGone { container: container.0 },
        Fact::ContainerPaused(container) => FactLine::ContainerPaused { container: container.0 },
        Fact::ContainerResumed(container) => FactLine::ContainerResumed { container: container.0 },
        Fact::ContainerStopping(container) => FactLine::ContainerStopping { container: container.0 },
        Fact::ContainerStarted(container) => FactLine::ContainerStarted { container: container.0 },
        Fact::Process { process, container, gpu, launches_seen, approximate } => FactLine::Process {
            process: pair(process),
            container: container.map(|container| container.0),
            gpu: gpu.0,
            launches_seen,
            approximate,
        },
        Fact::ProcessGone(process) => FactLine::ProcessGone { process: pair(process) },
        Fact::Memory { process, gpu, bytes } => {
            FactLine::Memory { process: pair(process), gpu: gpu.0, bytes }
        }
        Fact::Core { process, gpu, permille } => {
            FactLine::Core { process: pair(process), gpu: gpu.0, permille }
        }
        Fact::Copying { process, gpu } => FactLine::Copying { process: pair(process), gpu: gpu.0 },
        Fact::Submitted { process, gpu } => FactLine::Submitted { process: pair(process), gpu: gpu.0 },
        Fact::Drained { process, gpu } => FactLine::Drained { process: pair(process), gpu: gpu.0 },
        Fact::AtLaunch { process, gpu } => FactLine::AtLaunch { process: pair(process), gpu: gpu.0 },
        Fact::AtAllocation { process, gpu, bytes } => {
            FactLine::AtAllocation { process: pair(process), gpu: gpu.0, bytes }
        }
        Fact::Stopped { process, gpu } => FactLine::Stopped { process: pair(process), gpu: gpu.0 },
        Fact::Resumed { process, gpu } => FactLine::Resumed { process: pair(process), gpu: gpu.0 },
        Fact::LetGo { process, gpu } => FactLine::LetGo { process: pair(process), gpu: gpu.0 },
        Fact::SwappedOut { process, gpu, bytes } => {
            FactLine::SwappedOut { process: pair(process), gpu: gpu.0, bytes }
        }
        Fact::SwappedIn { process, gpu, asks } => {
            FactLine::SwappedIn { process: pair(process), gpu: gpu.0, asks }
        }
        Fact::Heard => FactLine::Heard,
        Fact::Gpu { gpu, reading } => FactLine::Gpu {
            gpu: gpu.0,
            core_permille: reading.core_permille,
            memory_used: reading.memory_used,
            memory_total: reading.memory_total,
        },
        Fact::Answer { request, outcome } => {
            let outcome = match outcome {
                Outcome::Held => OutcomeLine::Held,
                Outcome::Released => OutcomeLine::Released,
                Outcome::Failed => OutcomeLine::Failed,
            };
            FactLine::Answer { request: request.0, outcome }
        }
    }
}

fn terms_line(terms: &Terms) -> TermsLine {
    TermsLine {
        deadline_us: terms.deadline.map(|deadline| deadline.span().as_micros()),
        mode: terms::told(terms.mode),
        expect_us: terms.expect.map(Span::as_micros),
        memory_bytes: terms.memory,
        hold_max_us: terms.hold_max.map(Span::as_micros),
        swap: terms.swap,
        managed: terms.managed,
    }
}

fn terms_of(line: &TermsLine) -> Terms {
    Terms {
        deadline: line.deadline_us.map(Span::from_micros).and_then(Deadline::new),
        mode: terms::mode(line.mode),
        expect: line.expect_us.map(Span::from_micros),
        memory: line.memory_bytes,
        hold_max: line.hold_max_us.map(Span::from_micros),
        swap: line.swap,
        managed: line.managed,
    }
}

/// The fact that was written.
pub(super) fn read(line: &FactLine) -> Fact {
    let process = |(pid, started): ProcessPair| Process { pid, started };
    match *line {
        FactLine::Container { container, ref terms, paused } => {
            Fact::Container { container: ContainerId(container), terms: terms_of(terms), paused }
        }
        FactLine::ContainerGone { container } => Fact::ContainerGone(ContainerId(container)),
        FactLine::ContainerPaused { container } => Fact::ContainerPaused(ContainerId(container)),
        FactLine::ContainerResumed { container } => Fact::ContainerResumed(ContainerId(container)),
        FactLine::ContainerStopping { container } => Fact::ContainerStopping(ContainerId(container)),
        FactLine::ContainerStarted { container } => Fact::ContainerStarted(ContainerId(container)),
        FactLine::Process { process: pair, container, gpu, launches_seen, approximate } => Fact::Process {
            process: process(pair),
            container: container.map(ContainerId),
            gpu: GpuId(gpu),
            launches_seen,
            approximate,
        },
        FactLine::ProcessGone { process: pair } => Fact::ProcessGone(process(pair)),
        FactLine::Memory { process: pair, gpu, bytes } => {
            Fact::Memory { process: process(pair), gpu: GpuId(gpu), bytes }
        }
        FactLine::Core { process: pair, gpu, permille } => {
            Fact::Core { process: process(pair), gpu: GpuId(gpu), permille }
        }
        FactLine::Copying { process: pair, gpu } => Fact::Copying { process: process(pair), gpu: GpuId(gpu) },
        FactLine::Submitted { process: pair, gpu } => {
            Fact::Submitted { process: process(pair), gpu: GpuId(gpu) }
        }
        FactLine::Drained { process: pair, gpu } => Fact::Drained { process: process(pair), gpu: GpuId(gpu) },
        FactLine::AtLaunch { process: pair, gpu } => {
            Fact::AtLaunch { process: process(pair), gpu: GpuId(gpu) }
        }
        FactLine::AtAllocation { process: pair, gpu, bytes } => {
            Fact::AtAllocation { process: process(pair), gpu: GpuId(gpu), bytes }
        }
        FactLine::Stopped { process: pair, gpu } => Fact::Stopped { process: process(pair), gpu: GpuId(gpu) },
        FactLine::Resumed { process: pair, gpu } => Fact::Resumed { process: process(pair), gpu: GpuId(gpu) },
        FactLine::LetGo { process: pair, gpu } => Fact::LetGo { process: process(pair), gpu: GpuId(gpu) },
        FactLine::SwappedOut { process: pair, gpu, bytes } => {
            Fact::SwappedOut { process: process(pair), gpu: GpuId(gpu), bytes }
        }
        FactLine::SwappedIn { process: pair, gpu, asks } => {
            Fact::SwappedIn { process: process(pair), gpu: GpuId(gpu), asks }
        }
        FactLine::Heard => Fact::Heard,
        FactLine::Gpu { gpu, core_permille, memory_used, memory_total } => {
            Fact::Gpu { gpu: GpuId(gpu), reading: Reading { core_permille, memory_used, memory_total } }
        }
        FactLine::Answer { request, outcome } => {
            let outcome = match outcome {
                OutcomeLine::Held => Outcome::Held,
                OutcomeLine::Released => Outcome::Released,
                OutcomeLine::Failed => Outcome::Failed,
            };
            Fact::Answer { request: RequestId(request), outcome }
        }
    }
}
