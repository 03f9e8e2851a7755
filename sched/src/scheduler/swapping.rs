//! Swapping, asked for: who leaves, who comes back, and what is asked for again because no answer came.

use super::Scheduler;
use crate::action::{Action, Reason};
use crate::fact::GpuId;
use crate::task::{Ask, Demand, Swap, Task, TaskId};
use crate::time::Instant;
use alloc::vec::Vec;

impl Scheduler {
    /// Asks those to leave who are to.
    pub(super) fn swap_out(&mut self, now: Instant, out: &[(TaskId, Reason)], actions: &mut Vec<Action>) {
        for &(task, because) in out {
            let request = self.next_request();
            self.tracker.ask_swap_out(Ask { request, at: now }, task, because);
            actions.push(Action::SwapOut { request, task, because });
        }
    }

    /// There is memory for these: who is out comes back, the others may allocate.
    pub(super) fn let_in_or_back(&mut self, now: Instant, admitted: &[TaskId], actions: &mut Vec<Action>) {
        for &task in admitted {
            match self.tracker.task(task).map(|task| task.swap) {
                Some(Swap::Out(bytes)) => actions.push(self.swap_in(now, task, bytes)),
                _ => self.tracker.admit(task),
            }
        }
    }

    /// A move that was asked for too long ago is asked for again. When to look whether there is one.
    pub(super) fn ask_again(
        &mut self,
        now: Instant,
        gpu: GpuId,
        actions: &mut Vec<Action>,
    ) -> Option<Instant> {
        let patience = self.settings.swap_answer_max;
        let moving: Vec<Task> = self.tracker.tasks_on(gpu).filter(|task| task.is_away()).copied().collect();
        let mut next = None;
        for task in moving {
            match task.swap {
                Swap::Leaving(ask, _) | Swap::Returning(ask, _) if ask.at + patience > now => {
                    next = next.into_iter().chain([ask.at + patience]).min();
                }
                Swap::Leaving(..) => {
                    let because = task.reason.unwrap_or(Reason::MemoryFree);
                    self.swap_out(now, &[(task.id, because)], actions);
                }
                Swap::Returning(_, bytes) => actions.push(self.swap_in(now, task.id, bytes)),
                Swap::In | Swap::Out(_) => {}
            }
        }
        next
    }

    fn swap_in(&mut self, now: Instant, task: TaskId, bytes: u64) -> Action {
        let (request, because) = (self.next_request(), Reason::MemoryFree);
        let asks = self.tracker.task(task).is_some_and(|task| self.asks_when_back(task));
        self.tracker.ask_swap_in(Ask { request, at: now }, task, bytes, because);
        Action::SwapIn { request, task, asks, because }
    }

    /// Whether it may want more memory than it left with and asked for then, which is what is set aside for it. It goes on within microseconds
    /// of its return, and would not wait until anybody heard of that.
    fn asks_when_back(&self, task: &Task) -> bool {
        let container = self.tracker.container_of(task).filter(|container| container.is_ours());
        let unknown = container.is_some_and(|container| container.forecast().memory.is_none());
        unknown && !task.launched && task.demand != Demand::Unknown && self.policy(task.gpu).acts()
    }
}

#[cfg(test)]
mod stories;
