//! What the world tells us: everything the scheduler knows came in as one of these.
//!
//! Facts arrive late, twice, out of order or not at all, because Docker, the kernel and the driver
//! each report at their own pace. So a fact states what *is* ("this process uses that GPU"), never
//! what to do about it, and saying it twice changes nothing.

use crate::task::{Deadline, Mode};
use crate::time::Span;

/// A container, by a number its discoverer gave it. Names and ids stay at the boundary.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ContainerId(pub u32);

/// A GPU of this node, by index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GpuId(pub u16);

/// A request to the actuator. Numbers only grow, so an old answer is told from a new one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(pub u64);

/// A process: a pid alone is reused within minutes on a busy machine, so its start time is part of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Process {
    /// The pid, as the host sees it.
    pub pid: u32,
    /// When it started, in the kernel's own unit; only compared for equality.
    pub started: u64,
}

/// What the operator asked for, read once from a container's labels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terms {
    /// How long one of its tasks may take.
    pub deadline: Option<Deadline>,
    /// What delimits one of its tasks.
    pub mode: Mode,
    /// How long a task should take, as declared: believed until one was measured.
    pub expect: Option<Span>,
    /// How much GPU memory a task needs, as declared: believed until one was measured.
    pub memory: Option<u64>,
    /// The longest single hold; the scheduler's setting if absent.
    pub hold_max: Option<Span>,
    /// Whether its GPU memory may be swapped out.
    pub swap: bool,
    /// Whether it may be touched at all. The GPU use of others is only seen.
    pub managed: bool,
}

impl Terms {
    /// A container nobody said anything about: seen, counted, never touched.
    pub const UNMANAGED: Terms = Terms {
        deadline: None,
        mode: Mode::Process,
        expect: None,
        memory: None,
        hold_max: None,
        swap: false,
        managed: false,
    };
}

/// One look at a GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reading {
    /// Share of the last sampling window in which some kernel ran, in thousandths.
    pub core_permille: u16,
    /// GPU memory in use, by anyone.
    pub memory_used: u64,
    /// GPU memory there is.
    pub memory_total: u64,
}

/// How a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The gate is shut: the process runs on until its next launch (or allocation), and stops there. Where
    /// whole containers are frozen: it will be, as soon as all its tasks are held; then comes `Stopped`.
    Held,
    /// It runs.
    Released,
    /// It could not be done.
    Failed,
}

/// One fact. The moment it became true travels beside it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fact {
    /// A container exists on these terms: it appeared, or its deadline was changed.
    Container {
        /// Which container.
        container: ContainerId,
        /// What was asked for.
        terms: Terms,
        /// Docker or a person has it paused.
        paused: bool,
    },
    /// A container was removed, and its processes with it.
    ContainerGone(ContainerId),
    /// Docker or a person paused it. Until it is resumed, it is not ours to touch.
    ContainerPaused(ContainerId),
    /// Whoever paused it resumed it.
    ContainerResumed(ContainerId),
    /// It was told to stop; it must be able to hear that.
    ContainerStopping(ContainerId),
    /// It runs anew: that it was paused or told to stop is over.
    ContainerStarted(ContainerId),
    /// A process uses a GPU.
    Process {
        /// Which process.
        process: Process,
        /// Whose it is; none for a process outside any container.
        container: Option<ContainerId>,
        /// The GPU it uses.
        gpu: GpuId,
        /// Its launches are seen, so that silence means it submits nothing.
        launches_seen: bool,
        /// It was there before we looked, so its start is not known.
        approximate: bool,
    },
    /// A process exited.
    ProcessGone(Process),
    /// How much GPU memory a process has allocated, its context not counted.
    Memory {
        /// Which process.
        process: Process,
        /// On which GPU.
        gpu: GpuId,
        /// Allocated now.
        bytes: u64,
    },
    /// How much of the GPU's core a process used lately.
    Core {
        /// Which process.
        process: Process,
        /// On which GPU.
        gpu: GpuId,
        /// In thousandths.
        permille: u16,
    },
    /// A process that had no work on the GPU began to copy: work, but none that a gate stops.
    Copying {
        /// Which process.
        process: Process,
        /// On which GPU.
        gpu: GpuId,
    },
    /// A process that had no work on the GPU submitted some.
    Submitted {
        /// Which process.
        process: Process,
        /// To which GPU.
        gpu: GpuId,
    },
    /// All work a process had submitted is done.
    Drained {
        /// Which process.
        process: Process,
        /// On which GPU.
        gpu: GpuId,
    },
    /// A process was stopped at its gate, about to launch.
    AtLaunch {
        /// Which process.
        process: Process,
        /// On which GPU.
        gpu: GpuId,
    },
    /// A process was stopped at its gate, about to allocate.
    AtAllocation {
        /// Which process.
        process: Process,
        /// On which GPU.
        gpu: GpuId,
        /// How much it asks for.
        bytes: u64,
    },
    /// A process was stopped where it was: its container was frozen.
    Stopped {
        /// Which process.
        process: Process,
        /// On which GPU.
        gpu: GpuId,
    },
    /// A process that was stopped runs again, though nobody released it: its container was thawed for another.
    Resumed {
        /// Which process.
        process: Process,
        /// On which GPU.
        gpu: GpuId,
    },
    /// A hold is over, and nobody here asked for that: the guard let go, a person did, or it could not be kept up.
    LetGo {
        /// Which process.
        process: Process,
        /// On which GPU.
        gpu: GpuId,
    },
    /// A process's GPU memory is in host memory now, and what it asks of the GPU waits.
    SwappedOut {
        /// Which process.
        process: Process,
        /// From which GPU.
        gpu: GpuId,
        /// How much room it takes there to bring it back, its context included.
        bytes: u64,
    },
    /// A process's GPU memory is on the GPU: it was brought back, whoever asked for that.
    SwappedIn {
        /// Which process.
        process: Process,
        /// To which GPU.
        gpu: GpuId,
        /// It is held at its next allocation.
        asks: bool,
    },
    /// Whatever the probes saw until now has been told. Who never says so tells at once.
    Heard,
    /// A look at a GPU.
    Gpu {
        /// Which GPU.
        gpu: GpuId,
        /// What was read.
        reading: Reading,
    },
    /// A request of ours ended.
    Answer {
        /// Which request.
        request: RequestId,
        /// How.
        outcome: Outcome,
    },
}
