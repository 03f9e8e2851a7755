//! Living with Docker: what people do to containers works on those that are held.

use crate::daemon::{output, refused, shared, stderr, stdout};
use crate::scene::{Scene, eventually};
use crate::stand::{Box, all_but_one_stand, events, named, nobody_stands, remove, standing};
use std::time::{Duration, Instant};

/// Three busy containers, of which two stand. `--init` makes them heed a signal, as most images do.
fn three(scene: &Scene, name: &str, options: &[&str]) -> Vec<Box> {
    let options = [&["--init"], options].concat();
    let boxes: Vec<Box> =
        (0..3).map(|number| Box::busy(scene, &format!("{name}-{number}"), &options)).collect();
    all_but_one_stand(&boxes);
    boxes
}

fn one_that_stands(boxes: &[Box]) -> &Box {
    eventually("one that stands", || boxes.iter().find(|one| one.stands()))
}

#[test]
fn a_frozen_container_stops_dies_and_restarts_in_its_usual_time() {
    let scene = Scene::new(shared(), 1);
    let agent = scene.agent_with(&["--policy", "earliest-deadline"]);
    let boxes = three(&scene, "stops", &[]);
    let docker = |words: &[&str]| {
        let start = Instant::now();
        output(&mut scene.daemon.docker(words.iter().copied()));
        start.elapsed()
    };
    // Docker waits 10 s for a container that does not heed its signal; a frozen one never would.
    let usual = Duration::from_secs(8);
    let took = docker(&["stop", &one_that_stands(&boxes).name]);
    assert!(took < usual, "docker stop took {took:?}");
    let took = docker(&["restart", &one_that_stands(&boxes).name]);
    assert!(took < usual, "docker restart took {took:?}");
    let took = docker(&["kill", &one_that_stands(&boxes).name]);
    assert!(took < usual, "docker kill took {took:?}");
    boxes.iter().for_each(|one| drop(docker(&["start", &one.name])));
    all_but_one_stand(&boxes);
    let took = docker(&["rm", "-f", &one_that_stands(&boxes).name]);
    assert!(took < usual, "docker rm -f took {took:?}");
    output(
        &mut scene.daemon.docker(["rm", "-f"].into_iter().chain(boxes.iter().map(|one| one.name.as_str()))),
    );
    agent.stop();
}

#[test]
fn an_exec_is_refused_as_in_a_paused_one_and_works_once_it_runs() {
    let scene = Scene::new(shared(), 1);
    let agent = scene.agent_with(&["--policy", "earliest-deadline"]);
    let boxes = three(&scene, "exec", &[]);
    let frozen = one_that_stands(&boxes);
    assert_eq!(frozen.state(&scene), "frozen");
    let refusal = refused(&mut scene.daemon.docker(["exec", &frozen.name, "true"]));
    assert!(stderr(&refusal).contains("paused"), "{}", stderr(&refusal));
    let released = stdout(&output(&mut scene.leeway(["release", &frozen.name])));
    assert_eq!(released, frozen.name);
    eventually("one that runs", || (!frozen.stands()).then_some(()));
    output(&mut scene.daemon.docker(["exec", &frozen.name, "true"]));
    // It is left alone from then on, whatever the policy says.
    std::thread::sleep(Duration::from_millis(1500));
    assert!(!frozen.stands() && standing(&boxes) == 1);
    remove(&scene, &boxes);
    agent.stop();
}

#[test]
fn what_a_person_pauses_stays_paused_and_what_they_resume_runs() {
    let scene = Scene::new(shared(), 1);
    let agent = scene.agent_with(&["--policy", "earliest-deadline"]);
    let boxes = three(&scene, "paused", &[]);
    let frozen = one_that_stands(&boxes);
    output(&mut scene.daemon.docker(["pause", &frozen.name]));
    eventually("a pause that the agent knows of", || {
        let told = stdout(&output(&mut scene.leeway(["explain", &frozen.name])));
        told.contains("was paused by Docker or a person").then_some(())
    });
    // Nobody is ahead of it any more, and it is not thawed; not by the agent's end either.
    let others = boxes.iter().filter(|one| one.name != frozen.name);
    others.for_each(|one| scene.remove(&one.name));
    eventually("an agent that holds nothing", || {
        (std::fs::read_to_string(scene.place("run/held")).unwrap_or_default().is_empty()).then_some(())
    });
    assert!(frozen.stands());
    agent.stop();
    assert!(frozen.stands());
    let agent = scene.agent_with(&["--policy", "earliest-deadline"]);
    assert!(frozen.stands());
    output(&mut scene.daemon.docker(["unpause", &frozen.name]));
    assert!(!frozen.stands());
    scene.remove(&frozen.name);
    agent.stop();
}

#[test]
fn a_visible_hold_is_dockers_own_pause_and_a_person_can_end_it() {
    let scene = Scene::new(shared(), 1);
    let agent = scene.agent_with(&["--policy", "earliest-deadline", "--visible"]);
    let boxes = three(&scene, "visible", &[]);
    let paused = |one: &Box| {
        let format = "{{.State.Paused}}";
        stdout(&output(&mut scene.daemon.docker(["inspect", "--format", format, &one.name]))) == "true"
    };
    eventually("two that Docker calls paused", || {
        (boxes.iter().filter(|one| paused(one)).count() == 2).then_some(())
    });
    let frozen = one_that_stands(&boxes);
    output(&mut scene.daemon.docker(["unpause", &frozen.name]));
    std::thread::sleep(Duration::from_millis(1500));
    assert!(!frozen.stands(), "a person wants it to run");
    output(&mut scene.leeway(["policy", "set", "none"]));
    nobody_stands(&boxes);
    eventually("none that Docker calls paused", || boxes.iter().all(|one| !paused(one)).then_some(()));
    output(&mut scene.leeway(["policy", "set", "earliest-deadline"]));
    eventually("one that Docker calls paused", || boxes.iter().any(paused).then_some(()));
    // The guard knows Docker, too.
    agent.signal(rustix::process::Signal::KILL);
    nobody_stands(&boxes);
    eventually("none that Docker calls paused", || boxes.iter().all(|one| !paused(one)).then_some(()));
    remove(&scene, &boxes);
}

#[test]
fn no_hold_outlasts_its_longest() {
    let scene = Scene::new(shared(), 1);
    let agent = scene.agent_with(&["--policy", "earliest-deadline"]);
    let labelled = Box::busy(&scene, "expires-0", &["--hold-max", "1s"]);
    let healthy = [
        "--health-cmd",
        "true",
        "--health-interval",
        "1s",
        "--health-retries",
        "3",
        "--health-timeout",
        "1s",
    ];
    let checked = Box::busy(&scene, "expires-1", &healthy);
    let first =
        Box::start(&scene, "expires-2", &["-dl", "30m"], &["leeway", "work", "batch", "--for", "10m"]);
    eventually("two holds that ended", || {
        let expired = named(&events(&scene), "hold-expired");
        (expired.contains(&labelled.name) && expired.contains(&checked.name)).then_some(())
    });
    let told = events(&scene);
    let reason = |one: &Box| {
        let expired =
            told.iter().find(|event| event["event"] == "hold-expired" && event["name"] == one.name.as_str());
        expired.expect("an event")["reason"].as_str().expect("a reason").to_owned()
    };
    assert_eq!(reason(&labelled), "it was held for 1s, its longest hold");
    assert_eq!(reason(&checked), "it was held for 2s, its longest hold");
    let health = ["inspect", "--format", "{{.State.Health.Status}}", &checked.name];
    assert_ne!(stdout(&output(&mut scene.daemon.docker(health))), "unhealthy");
    remove(&scene, &[labelled, checked, first]);
    agent.stop();
}
