//! Who runs first: the paper's experiment, and deadlines that only an order can meet.

use crate::daemon::{output, shared};
use crate::scene::{Scene, eventually};
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
    let agent = scene.agent_with(&["--probes", "off", "--policy", policy]);
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

/// With probes, where this machine has them. A process can be held before its launches are seen, and then by freezing: it must
/// come to its gate all the same, or it would never say how much memory it needs.
#[test]
fn however_they_are_held_all_of_those_that_start_together_finish() {
    let scene = Scene::new(shared(), 1);
    let agent = scene.agent_unready(&["--policy", "earliest-deadline"]);
    eventually("an agent", || scene.node().filter(|node| node["docker"] == true && node["tier"] != "none"));
    let names = names("together");
    let words = ["leeway", "work", "matmul", "--n", "2048", "--repeat", "20", "--json"];
    std::thread::scope(|scope| {
        for name in &names {
            let scene = &scene;
            scope.spawn(move || scene.start(0, &["--name", name, "-dl", "5m"], &words));
        }
    });
    for name in &names {
        eventually("an end", || scene.tasks(name).into_iter().find(|task| !task["end"].is_null()));
        assert_eq!(scene.outcome(name).0[0]["ok"], true);
        scene.remove(name);
    }
    agent.stop();
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
    let told: Vec<String> = told.iter().map(Value::to_string).collect();
    assert_eq!(released, started, "\n{}", told.join("\n"));
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

/// How long each task computes, alone: 120 products of 25 ms.
const WORK_MS: usize = 3_000;
/// From one deadline to the next: what a task takes with its start, its copies and its end, and some room.
const APART_MS: usize = 3_500;

/// How many of ten tasks make their deadlines, of which each leaves room for one more task than the one before.
fn hits_of_staggered_deadlines(policy: &str) -> usize {
    let scene = Scene::new(shared(), 1);
    let agent = scene.agent_with(&["--probes", "off", "--policy", policy]);
    let names = names(&format!("staggered-{policy}"));
    // They wait for each other, and begin together.
    let start = scene.place("start");
    std::fs::create_dir(&start).expect("a folder");
    let mount = format!("{}:/start:ro", start.display());
    let script =
        "until [ -e /start/go ]; do sleep 0.05; done; exec leeway work matmul --n 4096 --repeat 120 --json";
    for (number, name) in names.iter().enumerate() {
        let deadline = format!("{}ms", (number + 1) * APART_MS + 500);
        let expect = format!("{WORK_MS}ms");
        let options = ["--name", name, "-dl", &deadline, "--expect", &expect, "-v", &mount];
        scene.start(0, &options, &["sh", "-c", script]);
    }
    std::fs::write(start.join("go"), "").expect("a file");
    let finished = names.iter().map(|name| {
        output(&mut scene.daemon.docker(["wait", name]));
        scene.finished(name, 1)[0].clone()
    });
    let tasks: Vec<Value> = finished.collect();
    names.iter().for_each(|name| scene.remove(name));
    agent.stop();
    let hits = tasks.iter().filter(|task| task["hit"] == true).count();
    let floats: Vec<i64> = tasks.iter().filter_map(|task| Some(task["float_us"].as_i64()? / 1000)).collect();
    eprintln!("{policy}: {hits} of {TASKS}, floats in ms {floats:?}");
    hits
}

/// Feasible one after another, and not time-sliced.
#[test]
fn deadlines_that_only_an_order_can_meet_are_missed_by_sharing() {
    let hits = hits_of_staggered_deadlines("none");
    assert!(hits <= 2, "{hits}");
}

#[test]
fn deadlines_that_only_an_order_can_meet_are_met_by_earliest_deadline() {
    assert_eq!(hits_of_staggered_deadlines("earliest-deadline"), TASKS);
}

#[test]
fn deadlines_that_only_an_order_can_meet_are_met_by_least_slack() {
    assert_eq!(hits_of_staggered_deadlines("least-slack"), TASKS);
}
