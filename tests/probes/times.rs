//! Tasks begin and end when the program says they do.

use crate::daemon::shared;
use crate::errors::{alone, check, outside};
use crate::scene::{Scene, seconds};
use serde_json::Value;

/// How many programs, one after another in one container.
const PROGRAMS: usize = 40;

/// Runs programs in one container; each one's own record, and its task.
fn programs(scene: &Scene, mode: &str, words: &str) -> Vec<(Value, Value)> {
    let name = format!("times-{mode}-{}", std::process::id());
    let script = format!("for n in $(seq {PROGRAMS}); do leeway work {words} --json; done");
    scene.start(0, &["--name", &name, "-dl", "60s", "--task", mode], &["sh", "-c", &script]);
    let (printed, _) = scene.outcome(&name);
    assert_eq!(printed.len(), PROGRAMS);
    let mut tasks = scene.finished(&name, PROGRAMS);
    tasks.sort_by(|a, b| seconds(&a["start"]).total_cmp(&seconds(&b["start"])));
    scene.remove(&name);
    printed.into_iter().zip(tasks).collect()
}

#[test]
fn a_process_begins_with_its_first_call_and_ends_with_its_exit() {
    let _turn = alone();
    let scene = Scene::new(shared(), 1);
    let _agent = scene.agent();
    assert_eq!(scene.node().expect("an agent")["tier"], "probes");
    let pairs = programs(&scene, "process", "matmul --n 256");
    let start = |(program, task): &(Value, Value)| {
        assert_eq!((&task["approximate"], &task["mode"]), (&false.into(), &"process".into()), "{task}");
        (seconds(&task["start"]) - seconds(&program["init"])).abs()
    };
    check("start of a process", pairs.iter().map(start).collect());
    // Its exit is after the last it wrote down, and before the next one's first.
    let end = |(now, next): (&(Value, Value), &(Value, Value))| {
        outside(seconds(&now.1["end"]), seconds(&now.0["end"]), seconds(&next.0["init"]))
    };
    check("end of a process", pairs.iter().zip(&pairs[1..]).map(end).collect());
}

#[test]
fn a_task_by_memory_begins_with_its_first_block_and_ends_with_its_last() {
    let _turn = alone();
    let scene = Scene::new(shared(), 1);
    let _agent = scene.agent();
    // Long enough for the probes to be there before the block is freed.
    let pairs = programs(&scene, "memory", "hold --memory 1MiB --for 300ms");
    let start = |(program, task): &(Value, Value)| {
        outside(seconds(&task["start"]), seconds(&program["context"]), seconds(&program["allocated"]))
    };
    let end = |(program, task): &(Value, Value)| {
        outside(seconds(&task["end"]), seconds(&program["output"]), seconds(&program["end"]))
    };
    check("end of a task by memory", pairs.iter().map(end).collect());
    check("start of a task by memory", pairs.iter().map(start).collect());
}
