//! What a tenant can do to be seen less, or to keep the agent from seeing others.

use crate::daemon::shared;
use crate::errors::alone;
use crate::program::{UNUSED, in_a_container};
use crate::scene::{Scene, seconds};
use crate::stand::{Box, events, looks, now, one_runs_and_one_stands, remove};
use serde_json::Value;

/// How often to look whether somebody stands all the time: five seconds, ten times as long as the kernel obeys without hearing from the agent.
const LOOKS: usize = 25;

/// It is managed by nobody, and calls what is probed in every process.
#[test]
fn who_asks_for_the_driver_again_and_again_opens_nobodys_gate() {
    let _turn = alone();
    let scene = Scene::new(shared(), 1);
    let agent = scene.agent_with(&["--policy", "earliest-deadline"]);
    let (first, second) = one_runs_and_one_stands(&scene, "flood");
    let flood = in_a_container(&scene, "floods", &[], "asks_for_the_driver_again_and_again");
    let mut since = now();
    for _ in 0..LOOKS {
        let before = std::mem::replace(&mut since, now());
        if !looks(&second).all(|stands| stands) {
            // On a busy machine the first loses its processor between two launches, and then it is the other's turn.
            let released = |event: &&Value| {
                event["event"] == "released"
                    && event["name"] == second.name.as_str()
                    && !event["reason"].as_str().is_some_and(|reason| reason.contains("guard"))
                    && seconds(&event["time"]) > before
            };
            assert!(events(&scene).iter().any(|event| released(&event)), "it runs, and nobody decided that");
            second.comes_to_stand();
        }
    }
    remove(&scene, &[&first, &second, &flood]);
    agent.stop();
}

#[test]
fn who_has_loaded_a_library_that_it_does_not_use_is_held_all_the_same() {
    let _turn = alone();
    let scene = Scene::new(shared(), 1);
    let agent = scene.agent_with(&["--policy", "earliest-deadline"]);
    let own = scene.place("libcuda.so.1");
    std::fs::copy(scene.place("gpu/libcuda.so.1"), &own).expect("a copy");
    let mount = format!("type=bind,source={},target={UNUSED},readonly", own.display());
    let batch = ["leeway", "work", "batch", "--kernel-us", "1000", "--for", "10m"];
    let first = Box::start(&scene, "before-two", &["-dl", "30m"], &batch);
    let options = ["-dl", "1h", "--mount", &mount];
    let two = in_a_container(&scene, "two-libraries", &options, "launches_in_turn_from_two_threads");
    two.comes_to_stand();
    assert!(looks(&two).all(|stands| stands));
    remove(&scene, &[&first, &two]);
    agent.stop();
}
