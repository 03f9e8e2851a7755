//! Probes outlive containers, and come back with the agent.

use crate::daemon::{output, shared, stdout};
use crate::errors::alone;
use crate::requests::expected;
use crate::scene::{Scene, eventually, seconds};
use crate::stand::{Box, now, one_runs_and_one_stands, remove};
use serde_json::Value;

/// The pids of a container's tasks that began after a moment.
fn pids_since(scene: &Scene, name: &str, since: f64) -> Vec<Value> {
    let new = |task: &Value| seconds(&task["start"]) > since;
    let mut pids: Vec<Value> =
        scene.tasks(name).into_iter().filter(new).map(|task| task["pid"].clone()).collect();
    pids.dedup();
    pids
}

#[test]
fn probes_survive_an_exit_an_exec_and_a_restart() {
    let _turn = alone();
    let scene = Scene::new(shared(), 1);
    let agent = scene.agent();
    let serve = ["leeway", "work", "serve", "--kernel-us", "1000", "--every", "50ms", "--requests"];
    let long = [serve.as_slice(), &["100000"]].concat();
    let short = [serve.as_slice(), &["20", "--after", "1s", "--json"]].concat();
    let burst = ["-dl", "1s", "--task", "burst"];
    let server = Box::start(&scene, "lives", &burst, &long);
    let is_seen = |what: &str| {
        let since = now();
        eventually(what, || {
            pids_since(&scene, &server.name, since).contains(&server.pid.into()).then_some(())
        });
    };
    is_seen("request");
    let other = Box::start(&scene, "lives-shortly", &burst, &short);
    scene.outcome(&other.name);
    eventually("request of another container", || (scene.tasks(&other.name).len() > 1).then_some(()));
    remove(&scene, &[&other]);
    is_seen("request after a container's exit");
    // What is executed in a container is a process of it, with requests of its own.
    let since = now();
    let exec = [&["exec", &server.name], short.as_slice()].concat();
    let printed = stdout(&output(&mut scene.daemon.docker(exec)));
    let printed: Value = serde_json::from_str(&printed).expect("one object");
    let (least, most) = expected(printed["requests"].as_array().expect("requests"));
    eventually("request of what was executed", || {
        let others = |task: &&Value| task["pid"] != server.pid && seconds(&task["start"]) > since;
        let seen = scene.tasks(&server.name).iter().filter(others).count();
        (seen > least / 2 && seen <= most).then_some(())
    });
    is_seen("request after an exec");
    agent.stop();
    let agent = scene.agent();
    is_seen("request after the agent's restart");
    agent.signal(rustix::process::Signal::KILL);
    drop(agent);
    let _agent = scene.agent();
    is_seen("request after the agent's death");
    remove(&scene, &[&server]);
}

#[test]
fn nobody_is_held_between_two_agents_and_the_next_one_holds_again() {
    let _turn = alone();
    let scene = Scene::new(shared(), 1);
    let policy = ["--policy", "earliest-deadline"];
    let agent = scene.agent_with(&policy);
    let (first, second) = one_runs_and_one_stands(&scene, "between");
    agent.stop();
    assert!(!first.stands() && !second.stands(), "an agent that has ended holds nobody");
    let agent = scene.agent_with(&policy);
    second.comes_to_stand();
    agent.stop();
    assert!(!second.stands());
    remove(&scene, &[&first, &second]);
}
