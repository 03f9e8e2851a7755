//! What must be true after every decision, whatever the facts were.
//!
//! The simulator asks after every step, under faults. Each rule is a promise to an operator: nobody
//! waits for nothing, nobody waits for ever, nobody is touched who must not be.

use crate::action::Reason;
use crate::fact::GpuId;
use crate::scheduler::Scheduler;
use crate::task::{Gate, Grip, Task};
use crate::time::{Instant, Span};
use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

/// The first promise that is broken, in words; none if all are kept.
pub fn broken(scheduler: &Scheduler, now: Instant) -> Option<String> {
    let tracker = scheduler.tracker();
    tracker
        .tasks()
        .find_map(|task| task_is_sound(scheduler, task, now))
        .or_else(|| tracker.gpus().find_map(|gpu| gpu_is_used(scheduler, gpu, now)))
        .or_else(|| requests_are_distinct(scheduler))
}

/// Rules about one task.
fn task_is_sound(scheduler: &Scheduler, task: &Task, now: Instant) -> Option<String> {
    let tracker = scheduler.tracker();
    let id = task.id.0;
    let container = tracker.container_of(task);
    let managed = container.is_some_and(|container| container.terms.managed);
    let must_run = !managed || task.over || container.is_some_and(|container| container.stopping);
    let paused = container.is_some_and(|container| container.paused);
    if must_run && !paused && task.is_gripped() {
        return Some(format!("task {id} is held, and must not be touched"));
    }
    if task.is_gripped() && task.reason.is_none() && !paused {
        return Some(format!("task {id} is held without a reason"));
    }
    let hold_max = tracker.terms_of(task).hold_max.unwrap_or(scheduler.settings().hold_max);
    let held_too_long =
        task.held_since.is_some_and(|since| now.since(since) > hold_max) && task.is_gripped() && !paused;
    if held_too_long {
        return Some(format!("task {id} is held beyond its longest hold of {hold_max}"));
    }
    if !task.over && task.missed != task.float(now).is_some_and(|float| float < Span::ZERO) {
        return Some(format!("task {id} is missed: {}, with a float of {:?}", task.missed, task.float(now)));
    }
    if task.memory > task.memory_peak {
        return Some(format!("task {id} has more memory than its peak"));
    }
    None
}

/// Rules about one GPU: somebody who needs it has it, and nobody waits without somebody in front.
fn gpu_is_used(scheduler: &Scheduler, gpu: GpuId, now: Instant) -> Option<String> {
    let tracker = scheduler.tracker();
    let linger = scheduler.settings().linger;
    let ours: Vec<&Task> = tracker
        .tasks_on(gpu)
        .filter(|task| !task.over && tracker.container_of(task).is_some_and(|container| container.is_ours()))
        .collect();
    let waits = |task: &&&Task| task.is_gripped();
    // Who lacks memory waits for whoever has it, and that may be a process that has just left: the GPU
    // gives memory back a while after its owner is gone.
    let lacks_memory = |task: &Task| matches!(task.reason, Some(Reason::NoMemory { .. }));
    let Some(waiting) = ours.iter().filter(|task| !lacks_memory(task)).find(waits) else { return None };
    // A shut gate costs nothing until somebody stands at it.
    let stands = |task: &Task| task.is_gripped() && task.stopped_since.is_some() && !lacks_memory(task);
    if tracker.tasks_on(gpu).filter(|task| !task.over).all(stands) {
        return Some(format!("everybody on GPU {} stands: {:?}", gpu.0, waiting.reason));
    }
    let for_memory = |task: &&&Task| gate_of(task) == Some(Gate::Allocations);
    let contenders = || ours.iter().filter(|task| task.contends(now, linger) && !for_memory(task));
    let mut held_contenders = contenders().filter(waits);
    if let Some(held) = held_contenders.next()
        && !contenders().any(|task| !task.is_gripped())
        && !fifo_waits_for_a_reading(held)
    {
        return Some(format!("task {} needs GPU {}, and nobody else does", held.id.0, gpu.0));
    }
    None
}

/// Under `fifo` a task waits for whoever came first until that one's memory is back to zero, even
/// while it does not compute: the paper's rule, and the reason for the other policies.
fn fifo_waits_for_a_reading(task: &Task) -> bool {
    matches!(task.reason, Some(Reason::CameLater(_) | Reason::CoreFull | Reason::MemoryFull))
}

fn gate_of(task: &Task) -> Option<Gate> {
    match task.grip {
        Grip::Holding(_, gate) | Grip::Held(gate) => Some(gate),
        Grip::Free | Grip::Releasing(_) => None,
    }
}

fn requests_are_distinct(scheduler: &Scheduler) -> Option<String> {
    let mut seen = BTreeSet::new();
    for task in scheduler.tracker().tasks() {
        if let Grip::Holding(ask, _) | Grip::Releasing(ask) = task.grip
            && !seen.insert(ask.request)
        {
            return Some(format!("request {} was made for two tasks", ask.request.0));
        }
    }
    None
}
