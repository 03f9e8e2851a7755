//! Graphs, captures, events, several streams and several threads: a request is one task, whatever it is made of.

use crate::daemon::shared;
use crate::errors::alone;
use crate::program::{in_a_container, told};
use crate::scene::{Scene, eventually, seconds};
use serde_json::Value;

/// How often the program may lose its processor in the middle of a request, which is then two, or between a call and the moment it writes down.
const TRIES: usize = 3;
/// Less than half a kernel: a task that ends with the first of two streams is off by more.
const ERROR_S_MAX: f64 = 0.004;

/// The program's requests, and the tasks that were seen, in the order they began.
fn requests_and_tasks(scene: &Scene, attempt: usize) -> (Vec<Value>, Vec<Value>) {
    let name = format!("streams-{attempt}");
    let options = ["-dl", "60s", "--task", "burst"];
    let program = in_a_container(scene, &name, &options, "uses_streams_events_graphs_and_threads");
    let (requests, name) = (told(scene, &program), program.name);
    assert_eq!(requests.len(), 13, "{requests:?}");
    let mut tasks = eventually("a task for each request", || {
        let tasks = scene.tasks(&name);
        (tasks.len() >= requests.len() && tasks.iter().all(|task| !task["end"].is_null())).then_some(tasks)
    });
    tasks.sort_by(|a, b| seconds(&a["start"]).total_cmp(&seconds(&b["start"])));
    scene.remove(&name);
    (requests, tasks)
}

#[test]
fn requests_with_graphs_streams_and_threads_are_one_task_each() {
    let _turn = alone();
    let scene = Scene::new(shared(), 1);
    let _agent = scene.agent();
    let mut tries = (1..=TRIES).map(|attempt| requests_and_tasks(&scene, attempt));
    assert!(tries.any(|(requests, tasks)| agree(&requests, &tasks)), "in none of {TRIES} tries");
}

/// Whether there is one task for each request, which begins and ends with it.
fn agree(requests: &[Value], tasks: &[Value]) -> bool {
    let near = |(request, task): (&Value, &Value)| {
        let off = |moment: &str| seconds(&task[moment]) - seconds(&request[moment]);
        let (start, end) = (off("start"), off("end"));
        eprintln!("{}: start {:+.0} us, end {:+.0} us", request["what"], start * 1e6, end * 1e6);
        start.abs() < ERROR_S_MAX && end.abs() < ERROR_S_MAX
    };
    let far = requests.iter().zip(tasks).filter(|pair| !near(*pair)).count();
    eprintln!("{} requests, {} tasks, {far} that do not agree", requests.len(), tasks.len());
    requests.len() == tasks.len() && far == 0
}
