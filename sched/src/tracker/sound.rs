//! Whether the tracker's lists agree with each other. The simulator asks after every step.

use super::Tracker;
use crate::task::Task;
use alloc::format;
use alloc::string::String;

impl Tracker {
    /// The first two lists that disagree, in words; none if all agree.
    pub(crate) fn disagreement(&self) -> Option<String> {
        self.tasks
            .values()
            .find_map(|task| self.task_disagrees(task))
            .or_else(|| self.requests_disagree())
            .or_else(|| self.shares_disagree())
    }

    fn task_disagrees(&self, task: &Task) -> Option<String> {
        let id = task.id.0;
        let usage = self.usages.get(&(task.process, task.gpu));
        if usage.is_none_or(|usage| usage.task != task.id) {
            return Some(format!("task {id} has no process that knows it"));
        }
        if !self.gpus.get(&task.gpu).is_some_and(|gpu| gpu.tasks.contains(&task.id)) {
            return Some(format!("task {id} is not on the list of its GPU"));
        }
        if task.asks().any(|ask| self.asked.get(&ask.request) != Some(&task.id)) {
            return Some(format!("task {id} waits for an answer that nobody would bring it"));
        }
        let listed = task.due().is_some_and(|due| self.dues.contains(&(due, task.id)));
        let awaited = task.deadline.is_some() && !task.missed && !task.dormant && !task.is_done_in_time();
        (listed != awaited).then(|| format!("task {id} is on the list of the due: {listed}, not {awaited}"))
    }

    fn requests_disagree(&self) -> Option<String> {
        let stray = self.asked.iter().find(|(request, id)| {
            !self.tasks.get(id).is_some_and(|task| task.asks().any(|ask| ask.request == **request))
        });
        stray.map(|(request, _)| format!("an answer to request {} would reach nobody", request.0))
    }

    fn shares_disagree(&self) -> Option<String> {
        self.gpus.iter().find_map(|(id, gpu)| {
            let busy = self.tasks_on(*id).filter(|task| task.busy_since.is_some()).count() as i64;
            (busy != gpu.share.busy())
                .then(|| format!("GPU {} has {busy} busy tasks, and counts {}", id.0, gpu.share.busy()))
        })
    }
}
