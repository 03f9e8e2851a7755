//! Tasks, holds and deadlines as a trace that Perfetto and Chrome open.
//!
//! A GPU is a process of the trace, a container a thread of it. What overlaps on one thread must be nested, so a container whose
//! tasks overlap has several. Units: microseconds.

use crate::timeline::{Bar, Lane, Timeline};
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// The whole file.
pub(super) fn write(timeline: &Timeline, now_us: i64) -> String {
    let mut events = Vec::new();
    let gpus: BTreeSet<u16> =
        timeline.lanes.iter().flat_map(|lane| &lane.bars).map(|bar| bar.task.gpu).collect();
    let mut thread = 0;
    for gpu in gpus {
        events.push(named("process_name", gpu, 0, &format!("GPU {gpu}")));
        for lane in &timeline.lanes {
            for (number, bars) in side_by_side(lane, gpu, now_us).iter().enumerate() {
                thread += 1;
                let name =
                    if number == 0 { lane.name.clone() } else { format!("{} ({})", lane.name, number + 1) };
                events.push(named("thread_name", gpu, thread, &name));
                events.extend(bars.iter().flat_map(|bar| told(bar, thread, now_us)));
            }
        }
    }
    json!({ "displayTimeUnit": "ms", "traceEvents": events }).to_string()
}

/// The bars of a lane, in as many rows as it takes for none to overlap.
fn side_by_side(lane: &Lane, gpu: u16, now_us: i64) -> Vec<Vec<&Bar>> {
    let mut rows: Vec<Vec<&Bar>> = Vec::new();
    for bar in lane.bars.iter().filter(|bar| bar.task.gpu == gpu) {
        let is_free = |row: &&mut Vec<&Bar>| {
            row.last().is_none_or(|last| last.end_us.unwrap_or(now_us) <= bar.start_us)
        };
        match rows.iter_mut().find(is_free) {
            Some(row) => row.push(bar),
            None => rows.push(vec![bar]),
        }
    }
    rows
}

fn named(what: &str, gpu: u16, thread: u32, name: &str) -> Value {
    json!({ "ph": "M", "name": what, "pid": gpu, "tid": thread, "args": { "name": name } })
}

fn told(bar: &Bar, thread: u32, now_us: i64) -> Vec<Value> {
    let gpu = bar.task.gpu;
    let end_us = bar.end_us.unwrap_or(now_us);
    let result = match (bar.end_us, bar.hit(now_us)) {
        (_, Some(false)) => "missed",
        (Some(_), Some(true)) => "hit",
        (Some(_), None) => "done",
        (None, _) => "running",
    };
    let stretch = |name: &str, kind: &str, colour: &str, from_us: i64, until_us: i64, about: Value| {
        json!({ "ph": "X", "name": name, "cat": kind, "cname": colour, "pid": gpu, "tid": thread,
                "ts": from_us, "dur": until_us - from_us, "args": about })
    };
    let about = json!({
        "process": bar.task.pid, "result": result, "deadline_us": bar.task.deadline_us,
        "float_us": bar.due_us.map(|due_us| due_us - end_us), "held_us": bar.task.held_us,
        "gpu_memory_bytes": bar.task.gpu_memory_bytes, "gpu_core_ratio": bar.task.gpu_core_ratio,
    });
    let colour = if result == "missed" { "terrible" } else { "good" };
    let mut events = vec![stretch(&format!("task: {result}"), "task", colour, bar.start_us, end_us, about)];
    for hold in &bar.holds {
        let until_us = hold.until_us.unwrap_or(end_us).min(end_us);
        let about = json!({ "reason": hold.reason });
        events.push(stretch("held", "hold", "grey", hold.from_us, until_us.max(hold.from_us), about));
    }
    if let Some(due_us) = bar.due_us {
        let name = if result == "missed" { "deadline missed" } else { "deadline" };
        events.push(json!({ "ph": "i", "name": name, "cat": "deadline", "s": "t", "pid": gpu, "tid": thread, "ts": due_us }));
    }
    events
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::timeline::tests::{event, task, us};

    #[test]
    fn tasks_holds_and_deadlines_are_in_the_trace() {
        let events = [event("held", "a", 1, 20, "b came first"), event("released", "a", 1, 40, "its turn")];
        let tasks = vec![task("a", 1, 0, Some(100), Some(50)), task("b", 2, 0, None, None)];
        let text = write(&Timeline::of(tasks, &events), us(200));
        let trace: Value = serde_json::from_str(&text).unwrap();
        let all = trace["traceEvents"].as_array().unwrap();
        let find = |name: &str| all.iter().find(|event| event["name"] == name).unwrap_or(&Value::Null);
        assert_eq!(
            (&find("task: missed")["ts"], &find("task: missed")["dur"]),
            (&us(0).into(), &100_000.into())
        );
        assert_eq!(
            (&find("held")["dur"], &find("held")["args"]["reason"]),
            (&20_000.into(), &"b came first".into())
        );
        assert_eq!(find("deadline missed")["ts"], us(50));
        assert_eq!(find("task: running")["dur"], 200_000);
        assert_eq!(find("held")["tid"], find("task: missed")["tid"], "a hold is inside its task");
    }

    #[test]
    fn tasks_that_overlap_are_side_by_side() {
        let tasks = vec![
            task("a", 1, 0, Some(100), None),
            task("a", 2, 50, Some(150), None),
            task("a", 3, 100, None, None),
        ];
        let timeline = Timeline::of(tasks, &[]);
        let rows = side_by_side(&timeline.lanes[0], 0, us(200));
        let pids: Vec<Vec<u32>> =
            rows.iter().map(|row| row.iter().map(|bar| bar.task.pid).collect()).collect();
        assert_eq!(pids, [vec![1, 3], vec![2]]);
    }
}
