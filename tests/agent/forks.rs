//! Programs that fork: whoever uses the GPU has a task of its own, and whoever only inherits the driver's files has none.

use crate::daemon::shared;
use crate::scene::{END_ERROR_S_MAX, START_ERROR_S_MAX, Scene, seconds};
use serde_json::Value;

/// Runs a program that forks below a shell, so that the child may outlive it, and the container outlives both.
fn play(scene: &Scene, name: &str, when: &str) -> (Vec<Value>, f64) {
    let script = format!("leeway work fork --when {when} --for 500ms --child-for 2s --json; sleep 3");
    scene.start(0, &["--name", name, "-dl", "60s"], &["sh", "-c", &script]);
    scene.outcome(name)
}

/// The task of a program: the one that began when it did, and ended when it did.
fn check(task: &Value, program: &Value) {
    let late = seconds(&task["start"]) - seconds(&program["init"]);
    assert!((-0.001..START_ERROR_S_MAX).contains(&late), "start is off by {late} s: {task} {program}");
    let after = seconds(&task["end"]) - seconds(&program["end"]);
    assert!((-0.001..END_ERROR_S_MAX).contains(&after), "end is off by {after} s: {task} {program}");
    assert_eq!((&task["approximate"], &task["hit"]), (&false.into(), &true.into()), "{task}");
}

#[test]
fn a_child_that_outlives_its_parent_has_a_task_of_its_own() {
    let scene = Scene::new(shared(), 1);
    let _agent = scene.agent();
    let name = format!("fork-before-{}", std::process::id());
    let (mut printed, ended) = play(&scene, &name, "before");
    // By their ends: the parent leaves first.
    printed.sort_by(|a, b| seconds(&a["end"]).total_cmp(&seconds(&b["end"])));
    let tasks = scene.finished(&name, 2);
    assert_eq!(printed.len(), 2);
    assert_ne!(tasks[0]["pid"], tasks[1]["pid"]);
    for (task, program) in tasks.iter().zip(&printed) {
        check(task, program);
        assert!(seconds(&task["end"]) < ended, "{task}");
    }
    let apart = seconds(&tasks[1]["end"]) - seconds(&tasks[0]["end"]);
    assert!(apart > 0.5, "the child stays 1.5 s longer: {apart}");
    scene.remove(&name);
}

#[test]
fn a_child_that_does_not_use_the_gpu_has_no_task_and_does_not_prolong_its_parents() {
    let scene = Scene::new(shared(), 1);
    let _agent = scene.agent();
    let name = format!("fork-after-{}", std::process::id());
    let (printed, ended) = play(&scene, &name, "after");
    let tasks = scene.finished(&name, 1);
    check(&tasks[0], &printed[0]);
    let before = ended - seconds(&tasks[0]["end"]);
    assert!(before > 1.0, "the child and the shell go on for seconds: {before}");
    scene.remove(&name);
}
