//! CUDA graphs, as a stream records them: kernels that are launched again in the same order.

use crate::driver::handle;
use crate::pointers::{Outcome, code, put};
use crate::{launch, stream};
use gpu::status;
use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{LazyLock, Mutex, MutexGuard};

/// The work of each kernel in nanoseconds.
type Kernels = Vec<u64>;

#[derive(Default)]
struct Graphs {
    /// Streams that record now, and for which of them: a stream that waits for one that records, records with it.
    recording: HashMap<u64, u64>,
    /// What was recorded so far.
    recorded: HashMap<u64, Kernels>,
    /// Events that were put into a stream that records, and for which it does.
    events: HashMap<u64, u64>,
    /// Graphs, and what was instantiated from them.
    known: HashMap<u64, Kernels>,
}

static GRAPHS: LazyLock<Mutex<Graphs>> = LazyLock::new(Mutex::default);
/// How many streams record, so that a launch need not take the lock to see that none does.
static RECORDING: AtomicUsize = AtomicUsize::new(0);

pub(crate) extern "C" fn begin_capture(on: u64, _mode: u32) -> u32 {
    code(stream::resolve(on).and_then(|stream| {
        let mut graphs = graphs();
        if graphs.recording.contains_key(&stream) {
            return Err(status::ILLEGAL_STATE);
        }
        graphs.recording.insert(stream, stream);
        graphs.recorded.insert(stream, Vec::new());
        RECORDING.store(graphs.recording.len(), Relaxed);
        Ok(())
    }))
}

pub(crate) extern "C" fn end_capture(on: u64, graph: *mut u64) -> u32 {
    code(stream::resolve(on).and_then(|stream| {
        let mut graphs = graphs();
        let recorded = graphs.recorded.remove(&stream).ok_or(status::ILLEGAL_STATE)?;
        graphs.recording.retain(|_, whose| *whose != stream);
        graphs.events.retain(|_, whose| *whose != stream);
        RECORDING.store(graphs.recording.len(), Relaxed);
        let number = handle();
        graphs.known.insert(number, recorded);
        put(graph, number)
    }))
}

/// `CUstreamCaptureStatus`: 0 none, 1 recording.
pub(crate) extern "C" fn is_capturing(on: u64, state: *mut u32) -> u32 {
    code(stream::resolve(on).and_then(|stream| put(state, u32::from(is_recorded(stream)))))
}

pub(crate) extern "C" fn instantiate(instance: *mut u64, graph: u64, _flags: u64) -> u32 {
    let mut graphs = graphs();
    let kernels = graphs.known.get(&graph).cloned().ok_or(status::INVALID_VALUE);
    code(kernels.and_then(|kernels| {
        let number = handle();
        graphs.known.insert(number, kernels);
        put(instance, number)
    }))
}

pub(crate) extern "C" fn launch(instance: u64, on: u64) -> u32 {
    code(start(instance, on))
}

pub(crate) extern "C" fn launch_per_thread(instance: u64, on: u64) -> u32 {
    code(start(instance, stream::per_thread(on)))
}

pub(crate) extern "C" fn destroy(graph: u64) -> u32 {
    code(graphs().known.remove(&graph).map(drop).ok_or(status::INVALID_VALUE))
}

pub(crate) extern "C" fn destroy_instance(instance: u64) -> u32 {
    destroy(instance)
}

/// Whether a stream records a graph.
pub(crate) fn is_recorded(stream: u64) -> bool {
    RECORDING.load(Relaxed) > 0 && graphs().recording.contains_key(&stream)
}

/// Keeps a kernel if its stream records a graph, and says whether it does.
pub(crate) fn capture(stream: u64, work_ns: u64) -> bool {
    if RECORDING.load(Relaxed) == 0 {
        return false;
    }
    let mut graphs = graphs();
    let Some(whose) = graphs.recording.get(&stream).copied() else { return false };
    graphs.recorded.entry(whose).or_default().push(work_ns);
    true
}

/// Keeps an event if its stream records a graph, and says whether it does.
pub(crate) fn capture_event(event: u64, stream: u64) -> bool {
    if RECORDING.load(Relaxed) == 0 {
        return false;
    }
    let mut graphs = graphs();
    let whose = graphs.recording.get(&stream).copied();
    match whose {
        Some(whose) => graphs.events.insert(event, whose),
        None => graphs.events.remove(&event),
    };
    whose.is_some()
}

/// A stream waits for an event. Whether that is part of a graph: of the order of its kernels only that in which they came is kept.
pub(crate) fn joins(stream: u64, event: u64) -> bool {
    if RECORDING.load(Relaxed) == 0 {
        return false;
    }
    let mut graphs = graphs();
    if let Some(whose) = graphs.events.get(&event).copied() {
        graphs.recording.entry(stream).or_insert(whose);
        RECORDING.store(graphs.recording.len(), Relaxed);
    }
    graphs.recording.contains_key(&stream)
}

fn start(instance: u64, on: u64) -> Outcome {
    let stream = stream::resolve(on)?;
    let kernels = graphs().known.get(&instance).cloned().ok_or(status::INVALID_VALUE)?;
    kernels.into_iter().try_for_each(|work_ns| launch::submit(stream, work_ns))
}

fn graphs() -> MutexGuard<'static, Graphs> {
    GRAPHS.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}
