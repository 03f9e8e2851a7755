//! What must be true after every decision, whatever the facts were.
//!
//! The simulator asks after every step, under faults. Each rule is a promise to an operator: nobody
//! waits for nothing, nobody waits for ever, nobody is touched who must not be.

use crate::action::Reason;
use crate::fact::GpuId;
use crate::scheduler::Scheduler;
use crate::task::{Gate, Grip, Task};
use crate::time::{Instant, Span};
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
        .or_else(|| tracker.disagreement())
}

/// Rules about one task.
fn task_is_sound(scheduler: &Scheduler, task: &Task, now: Instant) -> Option<String> {
    let tracker = scheduler.tracker();
    let id = task.id.0;
    let container = tracker.container_of(task);
    let managed = container.is_some_and(|container| container.terms.managed);
    let must_run = !managed || container.is_some_and(|container| container.stopping);
    let paused = container.is_some_and(|container| container.paused);
    if must_run && !paused && task.is_gripped() {
        return Some(format!("task {id} is held, and must not be touched"));
    }
    if task.is_gripped() && task.reason.is_none() && !paused {
        return Some(format!("task {id} is held without a reason"));
    }
    let own = tracker.terms_of(task).hold_max;
    let hold_max = own.unwrap_or(scheduler.settings().hold_max);
    let for_memory = gate_of(task).is_some_and(|gate| gate != Gate::Launches) && own.is_none();
    let held_too_long = task.stopped_since.is_some_and(|since| now.since(since) > hold_max)
        && task.is_gripped()
        && !paused
        && !for_memory;
    if held_too_long {
        return Some(format!("task {id} is held beyond its longest hold of {hold_max}"));
    }
    if task.missed != task.float(now).is_some_and(|float| float < Span::ZERO) {
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
        .filter(|task| tracker.container_of(task).is_some_and(|container| container.is_ours()))
        // Who is away waits for its memory, and for nobody.
        .filter(|task| !task.is_away())
        .collect();
    let waits = |task: &&&Task| task.is_gripped();
    // Who lacks memory waits for whoever has it, and that may be a process that has just left: the GPU
    // gives memory back a while after its owner is gone.
    let lacks_memory = |task: &Task| matches!(task.reason, Some(Reason::NoMemory { .. }));
    let waiting = ours.iter().filter(|task| !lacks_memory(task)).find(waits)?;
    // A shut gate costs nothing until somebody stands at it.
    let stands = |task: &Task| task.is_gripped() && task.stopped_since.is_some() && !lacks_memory(task);
    if tracker.tasks_on(gpu).filter(|task| !task.is_away()).all(stands) {
        return Some(format!("everybody on GPU {} stands: {:?}", gpu.0, waiting.reason));
    }
    let for_memory = |task: &&&Task| gate_of(task).is_some_and(|gate| gate != Gate::Launches);
    let contenders = || ours.iter().filter(|task| task.contends(now, linger) && !for_memory(task));
    let mut held_contenders = contenders().filter(waits);
    if let Some(held) = held_contenders.next()
        && !contenders().any(|task| !task.is_gripped())
        && !lets_finish(contenders())
        && !fifo_waits_for_a_reading(held)
    {
        return Some(format!("task {} needs GPU {}, and nobody else does", held.id.0, gpu.0));
    }
    None
}

/// The next one lets finish what is in flight, and who launched that waits at its own gate for the next one.
fn lets_finish<'a>(mut contenders: impl Iterator<Item = &'a &'a Task> + Clone) -> bool {
    contenders.clone().any(|task| task.is_in_flight())
        && contenders.any(|task| matches!(task.reason, Some(Reason::StillRuns(_))))
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fact::{ContainerId, Fact, Outcome, RequestId, Terms};
    use crate::node_under_test::*;
    use crate::policy::{Judgement, Policy, Scene};
    use crate::scheduler::Settings;
    use crate::task::{Ask, Mode, TaskId};
    use alloc::boxed::Box;

    /// Holds these tasks, always for the same reason.
    struct Holds(&'static [u64], Reason);

    impl Policy for Holds {
        fn name(&self) -> &'static str {
            "holds"
        }

        fn judge(&self, scene: &Scene<'_>) -> Judgement {
            let chosen = scene.candidates.iter().filter(|candidate| self.0.contains(&candidate.task.id.0));
            Judgement { holds: chosen.map(|chosen| (chosen.task.id, self.1)).collect(), wake: None }
        }
    }

    const FOR_NOTHING: Reason = Reason::NotItsTurn(TaskId(9));

    /// Two busy tasks, of which these are held.
    fn desk(held: &'static [u64], because: Reason) -> Desk {
        let mut desk = Desk::with(Settings::default(), Box::new(Holds(held, because)));
        for number in [1, 2] {
            desk.hears(0, on_terms(number, terms(Mode::Process, 0)));
            desk.hears(0, arrives(number, number));
            desk.hears(0, submits(number));
        }
        desk.decides(0);
        for request in 1..=held.len() as u64 {
            desk.hears(1, answers(request, Outcome::Held));
        }
        desk.decides(1);
        desk
    }

    #[test]
    fn one_that_waits_behind_another_breaks_nothing() {
        let mut desk = desk(&[2], FOR_NOTHING);
        desk.hears(2, stands(2));
        assert_eq!(desk.broken(2), None);
    }

    #[test]
    fn who_must_not_be_touched_is_not_held() {
        let words = Some(String::from("task 2 is held, and must not be touched"));
        let mut unmanaged = desk(&[2], FOR_NOTHING);
        unmanaged.hears(2, on_terms(2, Terms::UNMANAGED));
        assert_eq!(unmanaged.broken(2), words);
        let mut stopping = desk(&[2], FOR_NOTHING);
        stopping.hears(2, Fact::ContainerStopping(ContainerId(2)));
        assert_eq!(stopping.broken(2), words);
        stopping.decides(2);
        assert_eq!(stopping.broken(2), None);
    }

    #[test]
    fn a_hold_that_outlives_a_pause_is_not_ours_to_lift() {
        let mut paused = desk(&[2], FOR_NOTHING);
        paused.hears(2, Fact::ContainerPaused(ContainerId(2)));
        let (container, terms) = (ContainerId(2), Terms::UNMANAGED);
        paused.hears(3, Fact::Container { container, terms, paused: true });
        assert_eq!(paused.broken(400_000), None);
    }

    #[test]
    fn nobody_is_held_without_a_reason() {
        let mut desk = desk(&[], FOR_NOTHING);
        desk.hears(2, stands(1));
        assert_eq!(desk.broken(2), Some(String::from("task 1 is held without a reason")));
        desk.decides(2);
        assert_eq!(desk.broken(2), None);
    }

    #[test]
    fn nobody_is_held_beyond_its_longest_hold() {
        let mut held = desk(&[2], FOR_NOTHING);
        assert_eq!(held.broken(900_000), None, "a shut gate is no wait");
        held.hears(2, stands(2));
        assert_eq!(held.broken(300_002), None);
        assert_eq!(held.broken(300_003), Some(String::from("task 2 is held beyond its longest hold of 5m")));
        let mut own = desk(&[2], FOR_NOTHING);
        own.hears(2, on_terms(2, Terms { hold_max: Some(ms(40)), ..terms(Mode::Process, 0) }));
        own.hears(2, stands(2));
        assert_eq!(own.broken(43), Some(String::from("task 2 is held beyond its longest hold of 40ms")));
        own.decides(43);
        assert_eq!(own.broken(43), None);
    }

    #[test]
    fn a_miss_is_known_at_the_moment_it_happens() {
        let mut desk = desk(&[], FOR_NOTHING);
        desk.hears(2, on_terms(1, terms(Mode::Process, 50)));
        assert_eq!(desk.broken(50), None);
        let words = "task 1 is missed: false, with a float of Some(Span(-1000))";
        assert_eq!(desk.broken(51), Some(String::from(words)));
        desk.decides(51);
        assert_eq!(desk.broken(51), None);
    }

    #[test]
    fn nobody_has_more_memory_than_its_peak() {
        let desk = desk(&[], FOR_NOTHING);
        let task = Task { memory: 2, memory_peak: 1, ..*desk.task(1) };
        let words = Some(String::from("task 1 has more memory than its peak"));
        assert_eq!(task_is_sound(&desk.scheduler, &task, at(1)), words);
    }

    #[test]
    fn somebody_on_the_gpu_moves() {
        let mut desk = desk(&[1, 2], Reason::CoreFull);
        desk.hears(2, stands(1));
        assert_eq!(desk.broken(2), None);
        desk.hears(3, stands(2));
        assert_eq!(desk.broken(3), Some(String::from("everybody on GPU 0 stands: Some(CoreFull)")));
        // A task that is not ours and moves is somebody in front.
        desk.hears(4, arrives(3, 9));
        assert_eq!(desk.broken(4), None);
    }

    #[test]
    fn who_lacks_memory_may_wait_for_one_that_has_left() {
        let mut desk = desk(&[1, 2], Reason::NoMemory { need: 2, free: 1 });
        desk.hears(2, stands(1));
        desk.hears(2, stands(2));
        assert_eq!(desk.broken(2), None);
    }

    #[test]
    fn nobody_waits_for_one_that_does_not_need_the_gpu() {
        let mut idle = desk(&[2], FOR_NOTHING);
        idle.hears(2, drains(1));
        assert_eq!(idle.broken(2), None);
        let words = Some(String::from("task 2 needs GPU 0, and nobody else does"));
        assert_eq!(idle.broken(3), words);
        let mut fifo = desk(&[2], Reason::CameLater(TaskId(1)));
        fifo.hears(2, drains(1));
        assert_eq!(fifo.broken(3), None);
    }

    #[test]
    fn a_request_is_made_for_one_task() {
        let mut watch = Watch::new();
        watch.hears_all(0, [arrives(1, 1), arrives(2, 2)]);
        let ask = |request| Ask { request: RequestId(request), at: at(0) };
        watch.tracker.ask_hold(ask(7), TaskId(1), Gate::Launches, FOR_NOTHING);
        watch.tracker.ask_release(ask(8), TaskId(2), FOR_NOTHING);
        assert_eq!(watch.tracker.disagreement(), None);
        watch.tracker.ask_release(ask(7), TaskId(2), FOR_NOTHING);
        let words = "task 1 waits for an answer that nobody would bring it";
        assert_eq!(watch.tracker.disagreement(), Some(String::from(words)));
    }
}
