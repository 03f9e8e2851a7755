//! Where probes cannot be used, tasks are seen by polling, and one line says why.

use crate::copy::copy_program;
use crate::daemon::{leeway_program, output, shared, stdout};
use crate::errors::alone;
use crate::scene::{Running, Scene, eventually};
use serde_json::Value;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

/// Nobody's user id.
const NOBODY: &str = "65534";

fn a_task_is_seen(scene: &Scene) {
    let mut work = Command::new(leeway_program());
    work.args(["work", "hold", "--memory", "1MiB", "--for", "1s"]);
    output(work.env("LD_LIBRARY_PATH", scene.place("gpu")));
    eventually("a task", || {
        let tasks = stdout(&output(&mut scene.leeway(["tasks", "--json"])));
        let task: Value = serde_json::from_str(tasks.lines().next()?).expect("a task");
        (!task["end"].is_null()).then_some(())
    });
}

#[test]
fn probes_that_are_turned_off_are_not_missed() {
    let _turn = alone();
    let scene = Scene::new(shared(), 1);
    std::fs::write(scene.place("leeway.toml"), "probes = \"off\"\n").expect("a configuration");
    let agent = scene.agent();
    assert_eq!(scene.node().expect("an agent")["tier"], "polling");
    a_task_is_seen(&scene);
    agent.stop();
    assert!(!scene.log().contains("polling"), "{}", scene.log());
}

#[test]
fn who_is_not_root_polls_and_is_told_why_once() {
    let _turn = alone();
    let scene = Scene::new(shared(), 1);
    let open = std::fs::Permissions::from_mode(0o777);
    std::fs::set_permissions(scene.places.path(), open).expect("a folder for everybody");
    // Where it is built, nobody else may look.
    let program = scene.place("leeway");
    copy_program(&program);
    let as_nobody = |words: &[&str]| {
        let model = scene.leeway(words.iter().copied());
        let mut command = Command::new("setpriv");
        command.args(["--reuid", NOBODY, "--regid", NOBODY, "--clear-groups"]).arg(&program);
        command.args(model.get_args()).arg("--driver").arg(scene.place("gpu"));
        command.envs(model.get_envs().filter_map(|(name, value)| Some((name, value?))));
        command
    };
    let doctor = as_nobody(&["doctor", "--json"]).output().expect("doctor runs");
    let report: Value = serde_json::from_slice(&doctor.stdout).expect("a report");
    assert_eq!(report["tier"], "polling", "{report}");
    let checks = report["checks"].as_array().expect("checks");
    let probes = checks.iter().find(|check| check["name"] == "probes").expect("whether there are probes");
    let why = probes["detail"].as_str().expect("a line");
    assert!(why.starts_with("cannot be used: the kernel refuses") && !why.contains('\n'), "{why}");
    let _agent = Running::start(as_nobody(&["agent"]).stderr(scene.new_log()));
    eventually("an agent that polls", || scene.node().filter(|node| node["tier"] == "polling"));
    a_task_is_seen(&scene);
    let said = scene.log();
    let lines: Vec<&str> = said.lines().filter(|line| line.contains("polling")).collect();
    assert_eq!(lines.len(), 1, "{said}");
    assert!(lines[0].starts_with("notice: tasks are seen by polling: the kernel refuses"), "{said}");
}
