//! What containers did and when: tasks, their holds with the reasons, and their deadlines, put together from what the agent says.
//!
//! The agent keeps finished tasks in its ledger, and holds in its latest news; a hold is the stretch between the two pieces of news
//! about it. Units: microseconds since 1970.

use std::collections::HashMap;
use wire::agent::{EventLine, TaskLine};

/// A stretch of time in which a task was held.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Hold {
    pub(crate) from_us: i64,
    /// None while it lasts.
    pub(crate) until_us: Option<i64>,
    pub(crate) reason: String,
}

/// One task, with its times as numbers.
#[derive(Clone, Debug)]
pub(crate) struct Bar {
    pub(crate) task: TaskLine,
    pub(crate) start_us: i64,
    /// None while it runs.
    pub(crate) end_us: Option<i64>,
    pub(crate) due_us: Option<i64>,
    pub(crate) holds: Vec<Hold>,
}

/// What a task does for a stretch of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Doing {
    /// It runs, in time or without a deadline.
    Runs,
    /// It is held, in time.
    Held,
    /// It runs, and its deadline has passed.
    Late,
    /// It is held, and its deadline has passed.
    HeldLate,
}

/// A container's tasks, the earliest first. Processes outside any container have a lane together.
#[derive(Clone, Debug)]
pub(crate) struct Lane {
    pub(crate) name: String,
    pub(crate) bars: Vec<Bar>,
}

/// What tells tasks apart: the process, the GPU and, among those, the start.
type Key = (u32, u16);

/// Everything that is known, by container, in the order of their first task.
#[derive(Clone, Debug, Default)]
pub(crate) struct Timeline {
    pub(crate) lanes: Vec<Lane>,
    by_name: HashMap<String, usize>,
    /// Holds by process and GPU, each with whether it is over.
    holds: HashMap<Key, Vec<Hold>>,
}

impl Bar {
    fn new(task: TaskLine) -> Option<Self> {
        let start_us = micros(&task.start)?;
        let end_us = task.end.as_deref().and_then(micros);
        let due_us = task.deadline_us.map(|deadline_us| start_us + deadline_us);
        Some(Self { task, start_us, end_us, due_us, holds: Vec::new() })
    }

    /// Whether it is over and made its deadline, or has missed it by now.
    pub(crate) fn hit(&self, now_us: i64) -> Option<bool> {
        let due_us = self.due_us?;
        let in_time = self.end_us.unwrap_or(now_us) <= due_us;
        (self.end_us.is_some() || !in_time).then_some(in_time)
    }

    /// What it did from start to end, or until now, without gaps.
    pub(crate) fn stretches(&self, now_us: i64) -> Vec<(i64, i64, Doing)> {
        let end_us = self.end_us.unwrap_or(now_us).max(self.start_us);
        let mut cuts = vec![self.start_us, end_us];
        cuts.extend(self.due_us);
        for hold in &self.holds {
            cuts.extend([hold.from_us, hold.until_us.unwrap_or(end_us)]);
        }
        cuts.retain(|cut| (self.start_us..=end_us).contains(cut));
        cuts.sort_unstable();
        cuts.dedup();
        let doing = |from_us: i64| {
            let held = self.holds.iter().any(|hold| {
                hold.from_us <= from_us && hold.until_us.is_none_or(|until_us| from_us < until_us)
            });
            match (held, self.due_us.is_some_and(|due_us| due_us <= from_us)) {
                (false, false) => Doing::Runs,
                (true, false) => Doing::Held,
                (false, true) => Doing::Late,
                (true, true) => Doing::HeldLate,
            }
        };
        cuts.windows(2).map(|pair| (pair[0], pair[1], doing(pair[0]))).collect()
    }
}

impl Timeline {
    /// Takes in tasks and news, old and new, in any order but that of the news.
    pub(crate) fn of(tasks: Vec<TaskLine>, events: &[EventLine]) -> Self {
        let mut timeline = Self::default();
        events.iter().for_each(|event| timeline.hear(event));
        tasks.into_iter().for_each(|task| timeline.see(task));
        timeline
    }

    /// A task, as it is now. One that is known is replaced.
    pub(crate) fn see(&mut self, task: TaskLine) {
        let name = who(task.name.as_ref(), task.container.as_ref());
        let Some(mut bar) = Bar::new(task) else { return };
        bar.holds = self.holds_of(&bar);
        let next = self.lanes.len();
        let index = *self.by_name.entry(name.clone()).or_insert(next);
        if index == next {
            self.lanes.push(Lane { name, bars: Vec::new() });
        }
        let bars = &mut self.lanes[index].bars;
        let is = |known: &Bar| {
            known.start_us == bar.start_us && known.task.pid == bar.task.pid && known.task.gpu == bar.task.gpu
        };
        // The latest are the likeliest.
        match bars.iter().rposition(is) {
            Some(at) => bars[at] = bar,
            None => {
                let at = bars.partition_point(|known| known.start_us <= bar.start_us);
                bars.insert(at, bar);
            }
        }
    }

    /// A piece of news.
    pub(crate) fn hear(&mut self, event: &EventLine) {
        let (Some(pid), Some(gpu), Some(at_us)) = (event.pid, event.gpu, micros(&event.time)) else { return };
        let holds = self.holds.entry((pid, gpu)).or_default();
        match event.event.as_str() {
            "held" => holds.push(Hold { from_us: at_us, until_us: None, reason: event.reason.clone() }),
            "released" | "hold-expired" | "finished" => {
                if let Some(hold) = holds.last_mut().filter(|hold| hold.until_us.is_none()) {
                    hold.until_us = Some(at_us);
                }
            }
            _ => return,
        }
        let name = who(event.name.as_ref(), event.container.as_ref());
        let Some(lane) = self.by_name.get(&name).copied() else { return };
        let running = |bar: &&mut Bar| bar.end_us.is_none() && bar.task.pid == pid && bar.task.gpu == gpu;
        let holds = self.holds.get(&(pid, gpu)).cloned().unwrap_or_default();
        for bar in self.lanes[lane].bars.iter_mut().rev().filter(running) {
            bar.holds = within(&holds, bar);
        }
    }

    /// Forgets what ended before a moment.
    pub(crate) fn forget_before(&mut self, moment_us: i64) {
        let over = |until_us: Option<i64>| until_us.is_some_and(|until_us| until_us < moment_us);
        for lane in &mut self.lanes {
            lane.bars.retain(|bar| !over(bar.end_us));
        }
        self.holds.retain(|_, holds| {
            holds.retain(|hold| !over(hold.until_us));
            !holds.is_empty()
        });
    }

    /// A container's lane.
    pub(crate) fn lane(&self, name: &str) -> Option<&Lane> {
        self.by_name.get(name).map(|index| &self.lanes[*index])
    }

    /// From the first start to the last end or now.
    pub(crate) fn extent(&self, now_us: i64) -> Option<(i64, i64)> {
        let bars = || self.lanes.iter().flat_map(|lane| &lane.bars);
        let from_us = bars().map(|bar| bar.start_us).min()?;
        let until_us = bars().map(|bar| bar.end_us.unwrap_or(now_us)).max()?;
        Some((from_us, until_us.max(from_us + 1)))
    }

    fn holds_of(&self, bar: &Bar) -> Vec<Hold> {
        self.holds.get(&(bar.task.pid, bar.task.gpu)).map_or_else(Vec::new, |holds| within(holds, bar))
    }
}

/// The holds that began while a task ran. A process has one task after another.
fn within(holds: &[Hold], bar: &Bar) -> Vec<Hold> {
    let during =
        |hold: &&Hold| hold.from_us >= bar.start_us && bar.end_us.is_none_or(|end_us| hold.from_us < end_us);
    holds.iter().filter(during).cloned().collect()
}

/// Whose lane it is.
pub(crate) fn who(name: Option<&String>, container: Option<&String>) -> String {
    name.or(container).cloned().unwrap_or_else(|| "(no container)".to_owned())
}

/// Microseconds since 1970 of a time as the agent writes it.
pub(crate) fn micros(time: &str) -> Option<i64> {
    time.parse().ok().map(jiff::Timestamp::as_microsecond)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use wire::labels::Mode;

    /// A time so many milliseconds after the beginning.
    pub(crate) fn time(ms: i64) -> String {
        jiff::Timestamp::from_millisecond(1_800_000_000_000 + ms).unwrap().to_string()
    }

    pub(crate) fn us(ms: i64) -> i64 {
        (1_800_000_000_000 + ms) * 1000
    }

    pub(crate) fn task(
        name: &str,
        pid: u32,
        start: i64,
        end: Option<i64>,
        deadline: Option<i64>,
    ) -> TaskLine {
        let run_us = (end.unwrap_or(start) - start) * 1000;
        let float_us = deadline.map(|deadline| deadline * 1000 - run_us);
        TaskLine {
            container: Some(format!("/{name}")),
            name: Some(name.to_owned()),
            pid,
            gpu: 0,
            mode: Mode::Process,
            start: time(start),
            end: end.map(time),
            run_us,
            deadline_us: deadline.map(|deadline| deadline * 1000),
            float_us,
            hit: float_us.filter(|_| end.is_some()).map(|float_us| float_us >= 0),
            held_us: 0,
            held: false,
            gpu_memory_bytes: 64 << 20,
            gpu_core_ratio: 0.5,
            approximate: false,
        }
    }

    pub(crate) fn event(what: &str, name: &str, pid: u32, at: i64, reason: &str) -> EventLine {
        EventLine {
            time: time(at),
            event: what.to_owned(),
            container: Some(format!("/{name}")),
            name: Some(name.to_owned()),
            node: "here".to_owned(),
            reason: reason.to_owned(),
            pid: Some(pid),
            gpu: Some(0),
        }
    }

    fn doing(bar: &Bar, now: i64) -> Vec<(i64, i64, Doing)> {
        let ms = |us_: i64| (us_ - us(0)) / 1000;
        bar.stretches(us(now)).into_iter().map(|(from, until, what)| (ms(from), ms(until), what)).collect()
    }

    #[test]
    fn a_task_runs_is_held_and_is_late() {
        let events = [
            event("held", "train", 7, 100, "infer is due sooner"),
            event("released", "train", 7, 300, "nobody is ahead of it"),
            event("held", "train", 7, 500, "infer is due sooner"),
            event("finished", "train", 7, 600, "it took 600ms"),
        ];
        let timeline = Timeline::of(vec![task("train", 7, 0, Some(600), Some(200))], &events);
        let bar = &timeline.lanes[0].bars[0];
        let expected = [
            (0, 100, Doing::Runs),
            (100, 200, Doing::Held),
            (200, 300, Doing::HeldLate),
            (300, 500, Doing::Late),
            (500, 600, Doing::HeldLate),
        ];
        assert_eq!(doing(bar, 10_000), expected);
        assert_eq!((bar.hit(us(0)), bar.holds[0].reason.as_str()), (Some(false), "infer is due sooner"));
    }

    #[test]
    fn what_goes_on_lasts_until_now_and_news_finds_its_task() {
        let mut timeline = Timeline::of(vec![task("a", 1, 0, None, Some(1000))], &[]);
        timeline.hear(&event("held", "a", 1, 50, "b came first"));
        let bar = &timeline.lane("a").unwrap().bars[0];
        assert_eq!(doing(bar, 80), [(0, 50, Doing::Runs), (50, 80, Doing::Held)]);
        assert_eq!((bar.hit(us(80)), bar.hit(us(2000))), (None, Some(false)));
        timeline.hear(&event("released", "a", 1, 90, "nobody is ahead of it"));
        let bar = &timeline.lane("a").unwrap().bars[0];
        assert_eq!(doing(bar, 100), [(0, 50, Doing::Runs), (50, 90, Doing::Held), (90, 100, Doing::Runs)]);
    }

    #[test]
    fn tasks_of_one_process_have_their_own_holds_and_old_ones_go() {
        let events = [
            event("held", "a", 1, 10, "first"),
            event("released", "a", 1, 20, ""),
            event("held", "a", 1, 110, "second"),
            event("released", "a", 1, 120, ""),
        ];
        let tasks = vec![task("a", 1, 100, Some(200), None), task("a", 1, 0, Some(50), None)];
        let mut timeline = Timeline::of(tasks, &events);
        let reasons = |timeline: &Timeline| {
            let bars = timeline.lanes[0].bars.iter();
            bars.map(|bar| bar.holds.iter().map(|hold| hold.reason.clone()).collect())
                .collect::<Vec<Vec<_>>>()
        };
        assert_eq!(reasons(&timeline), [["first"], ["second"]]);
        assert_eq!(timeline.extent(us(0)), Some((us(0), us(200))));
        timeline.forget_before(us(60));
        assert_eq!(reasons(&timeline), [["second"]]);
    }
}
