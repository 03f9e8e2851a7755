//! From what happens to figures: the owner's side.

use super::{Metrics, Outcome, Verdict, Whose};
use crate::clock;
use crate::owner::Owner;
use sched::{ContainerId, Event, Finished, GpuId, Instant, Process, Span, TaskId};
use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;

/// How long the series of a container that is gone are kept: longer than anybody waits between two looks.
const GONE_KEPT: Span = Span::from_secs(600);
/// How many of them at most: containers may come and go faster than that.
const GONE_MAX: usize = 2000;

/// A process's share of a GPU's core, and since when.
#[derive(Clone, Copy, Debug)]
struct Core {
    since: Instant,
    permille: u16,
}

/// What must be remembered between two pieces of news.
pub(crate) struct Notes {
    pub(crate) metrics: Arc<Metrics>,
    cores: HashMap<(Process, GpuId), Core>,
    /// How long each running task's holds are counted already.
    counted: HashMap<TaskId, Span>,
    /// The series of each container that is here.
    series: HashMap<ContainerId, HashSet<Whose>>,
    gone: VecDeque<(Instant, Whose)>,
}

impl Notes {
    pub(crate) fn new(metrics: Arc<Metrics>) -> Self {
        let (cores, counted, series) = (HashMap::new(), HashMap::new(), HashMap::new());
        Self { metrics, cores, counted, series, gone: VecDeque::new() }
    }

    /// What of a GPU's core a process uses now, from 0 to 1.
    pub(crate) fn core_ratio(&self, key: (Process, GpuId)) -> f64 {
        self.cores.get(&key).map_or(0.0, |core| f64::from(core.permille) / 1000.0)
    }

    fn let_go(&mut self, now: Instant) {
        let here: HashSet<&Whose> = self.series.values().flatten().collect();
        let over = |gone: &VecDeque<(Instant, Whose)>| {
            gone.front().is_some_and(|(since, _)| gone.len() > GONE_MAX || now.since(*since) > GONE_KEPT)
        };
        while over(&self.gone) {
            let Some((_, whose)) = self.gone.pop_front() else { return };
            // Another container of the same name may have come meanwhile.
            if !here.contains(&whose) {
                self.metrics.forget(&whose);
            }
        }
    }
}

impl Owner {
    /// Counts and measures an event.
    pub(crate) fn measure(&mut self, event: &Event) {
        match event {
            // A counter that appears with its first count has never been seen to grow.
            Event::Started { task, .. } => {
                let deadline = self.scheduler.tracker().task(*task).and_then(|task| task.deadline);
                let results: &[Verdict] =
                    if deadline.is_some() { &[Verdict::Hit, Verdict::Missed] } else { &[Verdict::Done] };
                if let Some(whose) = self.whose_task(*task) {
                    for result in results {
                        let outcome = Outcome { result: *result, whose: whose.clone() };
                        drop(self.notes.metrics.tasks.get_or_create(&outcome));
                    }
                }
            }
            Event::Held { task, .. } => {
                if let Some(whose) = self.whose_task(*task) {
                    self.notes.metrics.holds.get_or_create(&whose).inc();
                }
            }
            Event::Released { task, waited, .. } => {
                if let Some(whose) = self.whose_task(*task) {
                    *self.notes.counted.entry(*task).or_default() += *waited;
                    self.notes.metrics.hold.get_or_create(&whose).inc_by(seconds(*waited));
                }
            }
            Event::Finished(finished) => self.measure_finished(finished),
            Event::Forgotten { task } => drop(self.notes.counted.remove(task)),
            _ => {}
        }
    }

    fn measure_finished(&mut self, finished: &Finished) {
        let whose = self.whose(finished.container, finished.gpu);
        let metrics = Arc::clone(&self.notes.metrics);
        // One that ended while it stood was never released.
        let counted = self.notes.counted.remove(&finished.task).unwrap_or_default();
        metrics.hold.get_or_create(&whose).inc_by(seconds((finished.waited - counted).or_zero()));
        metrics.duration.get_or_create(&whose).observe(seconds(finished.end.since(finished.start)));
        metrics.wait.get_or_create(&whose).observe(seconds(finished.waited));
        let result = match finished.float {
            None => Verdict::Done,
            Some(float) if float >= Span::ZERO => {
                metrics.float.get_or_create(&whose).observe(seconds(float));
                Verdict::Hit
            }
            Some(float) => {
                metrics.tardiness.get_or_create(&whose).observe(seconds(-float));
                Verdict::Missed
            }
        };
        metrics.tasks.get_or_create(&Outcome { result, whose }).inc();
    }

    /// A process uses that much of a GPU's core from now on. What it used until now counts as busy.
    pub(crate) fn measure_core(&mut self, at: Instant, key: (Process, GpuId), permille: u16) {
        let before = self.notes.cores.insert(key, Core { since: at, permille });
        self.count_busy(at, key, before);
    }

    /// A process is gone, from every GPU.
    pub(crate) fn measure_exit(&mut self, at: Instant, process: Process) {
        let keys: Vec<_> = self.notes.cores.keys().filter(|key| key.0 == process).copied().collect();
        for key in keys {
            let before = self.notes.cores.remove(&key);
            self.count_busy(at, key, before);
        }
    }

    fn count_busy(&mut self, at: Instant, key: (Process, GpuId), before: Option<Core>) {
        let Some(core) = before.filter(|core| core.permille > 0) else { return };
        let busy = at.since(core.since).or_zero().scaled(core.permille.into(), 1000);
        let task = self.scheduler.tracker().tasks_on(key.1).find(|task| task.process == key.0);
        if let Some(task) = task.map(|task| task.id)
            && let Some(whose) = self.whose_task(task)
        {
            self.notes.metrics.busy.get_or_create(&whose).inc_by(seconds(busy));
        }
    }

    /// A container is gone; its series stay for a while.
    pub(crate) fn measure_no_more(&mut self, container: ContainerId) {
        let now = clock::now();
        let series = self.notes.series.remove(&container).unwrap_or_default();
        self.notes.gone.extend(series.into_iter().map(|whose| (now, whose)));
        self.notes.let_go(now);
    }

    fn whose_task(&mut self, task: TaskId) -> Option<Whose> {
        let task = self.scheduler.tracker().task(task)?;
        let (container, gpu) = (task.container, task.gpu);
        Some(self.whose(container, gpu))
    }

    /// Who something is counted for. A process outside any container has no name.
    fn whose(&mut self, container: Option<ContainerId>, gpu: GpuId) -> Whose {
        let uuid = self.gpus.get(&gpu).map_or_else(String::new, |known| known.found.uuid.clone());
        let mut whose = Whose { gpu: gpu.0, uuid, ..Whose::default() };
        let known = container.and_then(|number| self.registry.get(number));
        if let Some(known) = known {
            whose.container.clone_from(&known.name);
            whose.image = known.image.clone().unwrap_or_default();
            known.namespace().unwrap_or_default().clone_into(&mut whose.namespace);
            known.pod().unwrap_or_default().clone_into(&mut whose.pod);
            self.notes.series.entry(known.number).or_default().insert(whose.clone());
        }
        whose
    }
}

fn seconds(span: Span) -> f64 {
    span.as_micros() as f64 / 1e6
}
