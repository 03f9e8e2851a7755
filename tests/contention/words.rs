//! What people are told: who is ahead and why, which policy runs, and what was recorded.

use crate::daemon::{output, refused, shared, stderr, stdout};
use crate::scene::{Scene, eventually};
use crate::stand::{Box, all_but_one_stand, events, nobody_stands, remove};
use serde_json::Value;

#[test]
fn a_container_that_waits_says_for_whom_and_why_and_the_journal_says_the_same_again() {
    let scene = Scene::new(shared(), 1);
    let agent = scene.agent_with(&["--policy", "earliest-deadline"]);
    let work = ["leeway", "work", "batch", "--for", "10m"];
    let urgent = Box::start(&scene, "urgent", &["-dl", "10m", "--expect", "9m"], &work);
    let patient = Box::start(&scene, "patient", &["-dl", "20m"], &work);
    eventually("one that waits", || patient.stands().then_some(()));
    let told: Value = eventually("a reason that is not memory", || {
        let told = stdout(&output(&mut scene.leeway(["explain", "--json", &patient.name])));
        let told: Value = serde_json::from_str(&told).expect("JSON");
        (told["tasks"][0]["reason"] == format!("{} is due sooner", urgent.name)).then_some(told)
    });
    let task = &told["tasks"][0];
    assert_eq!((&task["state"], &task["policy"]), (&"frozen".into(), &"earliest-deadline".into()));
    let ahead = &task["ahead"][0];
    assert_eq!((&ahead["name"], &ahead["running"]), (&urgent.name.as_str().into(), &true.into()));
    assert!(ahead["left_us"].as_i64() > Some(0) && task["runs_in_us"] == ahead["left_us"], "{task}");
    assert!(task["float_us"].as_i64() > Some(0) && task["held_us"].as_i64() > Some(0), "{task}");
    let words = stdout(&output(&mut scene.leeway(["explain", &patient.name])));
    assert!(words.contains(&format!("because {} is due sooner.", urgent.name)), "{words}");
    let runs = stdout(&output(&mut scene.leeway(["explain", &urgent.name])));
    assert!(runs.contains(&format!("{} runs for ", urgent.name)), "{runs}");
    let unknown = refused(&mut scene.leeway(["explain", "nobody"]));
    assert!(stderr(&unknown).contains("there is no container 'nobody'"), "{}", stderr(&unknown));
    assert_eq!(patient.state(&scene), "frozen");
    let tasks = scene.tasks(&patient.name);
    assert!(tasks[0]["held"] == true && tasks[0]["held_us"].as_i64() > Some(0), "{tasks:?}");
    for kind in ["held", "frozen"] {
        let event = events(&scene).into_iter().find(|event| event["event"] == kind).expect("an event");
        assert_eq!(event["name"], patient.name.as_str(), "{event}");
    }
    remove(&scene, &[urgent, patient]);
    agent.stop();
    let replayed = output(scene.leeway(["replay", "--json"]).arg(scene.place("state/journal")));
    let replayed: Value = serde_json::from_str(&stdout(&replayed)).expect("JSON");
    assert_eq!(replayed["difference"], Value::Null, "{replayed}");
    assert!(replayed["actions"].as_array().is_some_and(|actions| !actions.is_empty()), "{replayed}");
    let nothing = refused(&mut scene.leeway(["replay", "/nowhere"]));
    assert_eq!(nothing.status.code(), Some(2));
}

#[test]
fn a_policy_changes_while_it_runs_for_all_gpus_or_for_one() {
    let scene = Scene::new(shared(), 2);
    std::fs::write(scene.config(), "policy = \"earliest-deadline\"\n").unwrap();
    let agent = scene.agent();
    let policy = |words: &[&str]| {
        let words = [&["policy"], words, &["--json"]].concat();
        let told = stdout(&output(&mut scene.leeway(words)));
        serde_json::from_str::<Value>(&told).expect("JSON")
    };
    let boxes: Vec<Box> = (0..2).map(|number| Box::busy(&scene, &format!("policy-{number}"), &[])).collect();
    all_but_one_stand(&boxes);
    assert_eq!(policy(&["get"])["policy"], "earliest-deadline");
    let set = policy(&["set", "--gpu", "0", "none"]);
    assert_eq!(set["gpus"][0]["policy"], "none");
    nobody_stands(&boxes);
    assert_eq!(policy(&["get"])["gpus"][1]["policy"], "earliest-deadline");
    policy(&["set", "least-slack"]);
    all_but_one_stand(&boxes);
    // SIGHUP counts when the file says something new.
    std::fs::write(scene.config(), "policy = \"none\"\n").unwrap();
    agent.signal(rustix::process::Signal::HUP);
    nobody_stands(&boxes);
    for (words, what) in [
        (["policy", "set", "lifo", "--json"], "'lifo' is not a policy"),
        (["policy", "set", "fifo", "--gpu=7"], "there is no GPU 7"),
    ] {
        let refusal = refused(&mut scene.leeway(words));
        assert_eq!(refusal.status.code(), Some(2));
        assert!(stderr(&refusal).contains(what), "{}", stderr(&refusal));
    }
    assert_eq!(policy(&["get"])["policy"], "none");
    remove(&scene, &boxes);
    agent.stop();
}

#[test]
fn who_has_no_label_is_never_held() {
    let scene = Scene::new(shared(), 1);
    let agent = scene.agent_with(&["--policy", "earliest-deadline"]);
    let work = ["leeway", "work", "batch", "--for", "10m"];
    let labelled = Box::busy(&scene, "labelled", &[]);
    // `leeway run` adds only labels that were asked for, and here none is.
    let stranger = Box::start(&scene, "stranger", &[], &work);
    let other = Box::busy(&scene, "other", &[]);
    eventually("one that waits", || (labelled.stands() || other.stands()).then_some(()));
    assert!(!stranger.stands());
    let words = stdout(&output(&mut scene.leeway(["explain", &stranger.name])));
    assert!(words.contains("has no label of ours, and is never held"), "{words}");
    remove(&scene, &[labelled, stranger, other]);
    agent.stop();
}
