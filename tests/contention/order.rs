//! Who runs first: the paper's experiment, and deadlines that only an order can meet.

use crate::daemon::{output, shared};
use crate::scene::Scene;
use crate::stand::{events, named};
use serde_json::Value;

/// Ten tasks, as in the paper.
const TASKS: usize = 10;

fn names(what: &str) -> Vec<String> {
    (0..TASKS).map(|number| format!("{what}-{number}-{}", std::process::id())).collect()
}

/// Starts ten containers together, and waits for all results. The agent's events, and the tasks.
fn the_papers_experiment(policy: &str) -> (Vec<Value>, Vec<Value>) {
    let scene = Scene::new(shared(), 1);
    let agent = scene.agent_with(&["--policy", policy]);
    let names = names(policy);
    let words = ["leeway", "work", "matmul", "--n", "4096", "--repeat", "10", "--json"];
    std::thread::scope(|scope| {
        for name in &names {
            let scene = &scene;
            scope.spawn(move || scene.start(0, &["--name", name, "-dl", "5m"], &words));
        }
    });
    let mut tasks = Vec::new();
    for name in &names {
        let (printed, _) = scene.outcome(name);
        assert_eq!(printed[0]["ok"], true, "{policy}: {printed:?}");
        tasks.extend(scene.finished(name, 1));
        scene.remove(name);
    }
    let told = events(&scene);
    agent.stop();
    assert!(tasks.iter().all(|task| task["hit"] == true), "{policy}: {tasks:?}");
    (told, tasks)
}

#[test]
fn under_none_nobody_is_held() {
    let (told, tasks) = the_papers_experiment("none");
    assert_eq!(named(&told, "held"), [""; 0]);
    assert!(tasks.iter().all(|task| task["held_us"] == 0), "{tasks:?}");
}

#[test]
fn under_fifo_who_came_first_runs_first() {
    let (told, _) = the_papers_experiment("fifo");
    let released = named(&told, "released");
    let mut started = named(&told, "started");
    started.retain(|name| released.contains(name));
    assert!(released.len() >= TASKS / 2, "hardly anybody waited: {released:?}");
    assert_eq!(released, started);
}

#[test]
fn under_earliest_deadline_all_results_are_right() {
    let (told, tasks) = the_papers_experiment("earliest-deadline");
    assert!(named(&told, "frozen").len() >= TASKS / 2);
    assert!(tasks.iter().any(|task| task["held_us"].as_i64() > Some(0)), "{tasks:?}");
}

#[test]
fn under_least_slack_all_results_are_right() {
    let (told, tasks) = the_papers_experiment("least-slack");
    assert!(named(&told, "frozen").len() >= TASKS / 2);
    assert!(tasks.iter().any(|task| task["held_us"].as_i64() > Some(0)), "{tasks:?}");
}

/// How long each task computes, alone: 80 products of 25 ms.
const WORK_MS: usize = 2_000;
/// From one deadline to the next: what a task takes with its start, its copies and its end, and some room.
const APART_MS: usize = 2_650;

/// How many of ten tasks make their deadlines, of which each leaves room for one more task than the one before.
fn hits_of_staggered_deadlines(policy: &str) -> usize {
    let scene = Scene::new(shared(), 1);
    let agent = scene.agent_with(&["--policy", policy]);
    let names = names(&format!("staggered-{policy}"));
    for (number, name) in names.iter().enumerate() {
        let deadline = format!("{}ms", (number + 1) * APART_MS + 500);
        let options = ["--name", name, "-dl", &deadline, "--expect", &format!("{WORK_MS}ms")];
        scene.start(0, &options, &["leeway", "work", "matmul", "--n", "4096", "--repeat", "80", "--json"]);
    }
    let finished = names.iter().map(|name| {
        output(&mut scene.daemon.docker(["wait", name]));
        scene.finished(name, 1)[0].clone()
    });
    let tasks: Vec<Value> = finished.collect();
    names.iter().for_each(|name| scene.remove(name));
    agent.stop();
    let hits = tasks.iter().filter(|task| task["hit"] == true).count();
    let floats: Vec<i64> = tasks.iter().filter_map(|task| task["float_us"].as_i64()).collect();
    eprintln!(
        "{policy}: {hits} of {TASKS}, floats in ms {:?}",
        floats.iter().map(|us| us / 1000).collect::<Vec<_>>()
    );
    hits
}

/// Feasible one after another, and not time-sliced. One after another here, too: they would share the machine's processors.
#[test]
fn deadlines_that_only_an_order_can_meet_are_met_by_ordering() {
    let hits = hits_of_staggered_deadlines("none");
    assert!(hits <= 2, "{hits} under none");
    for policy in ["earliest-deadline", "least-slack"] {
        assert_eq!(hits_of_staggered_deadlines(policy), TASKS, "under {policy}");
    }
}
