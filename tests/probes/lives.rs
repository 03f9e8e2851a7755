//! Probes outlive containers, and come back with the agent.

use crate::daemon::{output, shared, stdout};
use crate::errors::alone;
use crate::requests::expected;
use crate::scene::{Scene, eventually, seconds};
use crate::stand::{Box, now, one_runs_and_one_stands, remove};
use serde_json::Value;
use std::fs::File;
use std::os::unix::fs::FileExt;

/// The pids of a container's tasks that began after a moment.
fn pids_since(scene: &Scene, name: &str, since: f64) -> Vec<Value> {
    let new = |task: &Value| seconds(&task["start"]) > since;
    let mut pids: Vec<Value> =
        scene.tasks(name).into_iter().filter(new).map(|task| task["pid"].clone()).collect();
    pids.dedup();
    pids
}

/// Whether the code of a process's libcuda is otherwise than in its file: where a probe is, the kernel has put another instruction.
fn has_probes(pid: u32) -> bool {
    let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).expect("it runs");
    let memory = File::open(format!("/proc/{pid}/mem")).expect("its memory");
    let code = maps.lines().filter(|line| line.contains(" r-xp ") && line.contains("/libcuda.so"));
    let differs = |line: &str| {
        let number = |text: &str| u64::from_str_radix(text, 16).expect("a number");
        let words: Vec<&str> = line.split_whitespace().collect();
        let (start, end) = words[0].split_once('-').expect("a range");
        let (start, end, offset) = (number(start), number(end), number(words[2]));
        let file = File::open(format!("/proc/{pid}/root{}", words[5])).expect("the library");
        // The last page is longer than the file.
        let bytes = (end - start).min(file.metadata().expect("a file").len() - offset) as usize;
        let (mut here, mut there) = (vec![0; bytes], vec![0; bytes]);
        memory.read_exact_at(&mut here, start).expect("its code");
        file.read_exact_at(&mut there, offset).expect("the library");
        here != there
    };
    let code: Vec<bool> = code.map(differs).collect();
    assert!(!code.is_empty(), "it has no libcuda: {maps}");
    code.contains(&true)
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
    assert!(has_probes(first.pid) && has_probes(second.pid));
    agent.stop();
    assert!(!first.stands() && !second.stands(), "an agent that has ended holds nobody");
    assert!(
        ![&first, &second].iter().any(|program| has_probes(program.pid)),
        "and leaves nothing in programs"
    );
    let agent = scene.agent_with(&policy);
    second.comes_to_stand();
    agent.stop();
    assert!(!second.stands());
    remove(&scene, &[&first, &second]);
}
