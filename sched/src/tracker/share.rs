//! How much of the GPU a task really had while others were on it too.
//!
//! Problem: a forecast is compared with how long a task has run, and learns from it. Time in which the
//! GPU ran somebody else's kernels is no progress: counted as such, a task that shared the GPU looks
//! nearly done, and its neighbours are told there is time to spare.
//!
//! Approach: a clock per GPU that runs at the speed each of its busy tasks gets: one over their number,
//! less what time slicing costs. A task that is busy from one moment to another had as much of the GPU
//! as that clock moved on; the rest is lost to sharing.

use super::Tracker;
use crate::fact::GpuId;
use crate::task::{Task, TaskId};
use crate::time::{Instant, Span};

/// The clock of one GPU.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Share {
    busy: i64,
    moved: Span,
    at: Instant,
}

impl Share {
    /// How many tasks have work on the GPU.
    pub(super) fn busy(&self) -> i64 {
        self.busy
    }

    /// What the clock shows at that moment, if nothing changes until then.
    fn at(&self, now: Instant, slicing_permille: i64) -> Span {
        let passed = now.since(self.at).or_zero();
        self.moved
            + match self.busy {
                0 => Span::ZERO,
                1 => passed,
                sharers => passed.scaled(1000, sharers * (1000 + slicing_permille)),
            }
    }

    fn change(&mut self, now: Instant, slicing_permille: i64, by: i64) {
        self.moved = self.at(now, slicing_permille);
        self.at = self.at.max(now);
        self.busy += by;
    }
}

impl Tracker {
    /// How long a task has really run: neither standing still nor waiting for others' kernels.
    pub fn served(&self, task: &Task, now: Instant) -> Span {
        let elapsed = now.since(task.start) - task.waited(now) - task.lost;
        (elapsed - self.losing(task, now)).or_zero()
    }

    /// The task's work is on the GPU from now on.
    pub(super) fn becomes_busy(&mut self, now: Instant, id: TaskId) {
        let Some(task) = self.tasks.get_mut(&id).filter(|task| task.busy_since.is_none()) else { return };
        let Some(gpu) = self.gpus.get_mut(&task.gpu) else { return };
        gpu.share.change(now, self.slicing_permille, 1);
        // Facts cross: the clock does not run backwards, so its time is the later one.
        task.busy_since = Some((gpu.share.at, gpu.share.moved));
    }

    /// The task's work is off the GPU.
    pub(super) fn becomes_idle(&mut self, now: Instant, id: TaskId) {
        let Some(task) = self.tasks.get(&id).filter(|task| task.busy_since.is_some()) else { return };
        let (lost, on) = (self.losing(task, now), task.gpu);
        if let Some(task) = self.tasks.get_mut(&id) {
            task.lost += lost;
            task.busy_since = None;
        }
        if let Some(gpu) = self.gpus.get_mut(&on) {
            gpu.share.change(now, self.slicing_permille, -1);
        }
    }

    /// What sharing has cost a task since its work is on the GPU.
    fn losing(&self, task: &Task, now: Instant) -> Span {
        let Some((since, shown)) = task.busy_since else { return Span::ZERO };
        let had = self.share_on(task.gpu, now) - shown;
        (now.since(since) - had).or_zero()
    }

    fn share_on(&self, gpu: GpuId, now: Instant) -> Span {
        self.gpus.get(&gpu).map_or(Span::ZERO, |gpu| gpu.share.at(now, self.slicing_permille))
    }
}
