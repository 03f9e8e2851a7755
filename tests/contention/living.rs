//! Living with Docker: what people do to containers works on those that are held.

use crate::daemon::{output, refused, shared, stderr, stdout};
use crate::scene::{Scene, eventually};
use crate::stand::{Box, all_but_one_stand, events, named, nobody_stands, remove, standing};
use std::io::Write;
use std::process::Stdio;
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
    let agent = scene.agent_with(&["--probes", "off", "--policy", "earliest-deadline"]);
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
    for one in &boxes {
        docker(&["start", &one.name]);
    }
    all_but_one_stand(&boxes);
    let took = docker(&["rm", "-f", &one_that_stands(&boxes).name]);
    assert!(took < usual, "docker rm -f took {took:?}");
    output(
        &mut scene.daemon.docker(["rm", "-f"].into_iter().chain(boxes.iter().map(|one| one.name.as_str()))),
    );
    agent.stop();
}

#[test]
fn compose_takes_held_containers_down_in_its_usual_time() {
    let scene = Scene::new(shared(), 1);
    let agent = scene.agent_with(&["--probes", "off", "--policy", "earliest-deadline"]);
    let mounts = stdout(&output(scene.leeway(["gpu", "options", "--dir"]).arg(scene.place("gpu"))));
    let volume = |word: &str| {
        let mut parts = word.split(',').filter_map(|part| part.split_once('='));
        let mut of = |name: &str| parts.find(|(key, _)| *key == name).map(|(_, value)| value.to_owned());
        Some(["      - ", &of("source")?, ":", &of("target")?, ":ro\n"].concat())
    };
    let volumes: String = mounts.split(' ').filter_map(volume).collect();
    let service = |name: &str| {
        format!(
            "  {name}:\n    image: leeway-test\n    init: true\n    network_mode: none\n    command: leeway work batch --for 10m\n    \
             labels:\n      leeway.deadline: 1h\n    volumes:\n{volumes}"
        )
    };
    let file = scene.place("compose.yaml");
    let text = format!("version: \"2.4\"\nservices:\n{}{}", service("one"), service("two"));
    std::fs::write(&file, text).expect("a file");
    let project = format!("leeway-held-{}", std::process::id());
    let compose = |words: &[&str]| {
        let mut command = compose_program(&scene);
        command.args(["-p", &project, "-f"]).arg(&file).args(words);
        output(&mut command)
    };
    compose(&["up", "-d"]);
    let one_is_frozen = || {
        let filter = format!("label=com.docker.compose.project={project}");
        let ps = stdout(&output(&mut scene.leeway(["ps", "--json", "--filter", &filter])));
        ps.contains(r#""state":"frozen""#).then_some(())
    };
    eventually("a service that is frozen", one_is_frozen);
    let start = Instant::now();
    compose(&["down"]);
    // Compose waits 10 s for a container that does not heed its signal; a frozen one never would.
    assert!(start.elapsed() < Duration::from_secs(8), "compose down took {:?}", start.elapsed());
    agent.stop();
}

/// Compose is a plugin of newer Dockers, and a program of its own before.
fn compose_program(scene: &Scene) -> std::process::Command {
    let plugin = scene.daemon.docker(["compose", "version"]).output();
    if plugin.is_ok_and(|output| output.status.success()) {
        return scene.daemon.docker(["compose"]);
    }
    scene.daemon.program("docker-compose", [])
}

#[test]
fn an_exec_is_refused_as_in_a_paused_one_and_works_once_it_runs() {
    let scene = Scene::new(shared(), 1);
    let agent = scene.agent_with(&["--probes", "off", "--policy", "earliest-deadline"]);
    let boxes = three(&scene, "exec", &[]);
    let frozen = one_that_stands(&boxes);
    assert_eq!(frozen.state(&scene), "frozen");
    let refusal = refused(&mut scene.daemon.docker(["exec", &frozen.name, "true"]));
    let words = format!("{}{}", stdout(&refusal), stderr(&refusal));
    assert!(words.contains("cannot exec in a paused container"), "{words}");
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

/// Docker refuses to pause one that is frozen, as it does one that is paused; so here a person pauses the one that runs.
#[test]
fn what_a_person_pauses_stays_paused_and_what_they_resume_runs() {
    let scene = Scene::new(shared(), 1);
    let agent = scene.agent_with(&["--probes", "off", "--policy", "earliest-deadline"]);
    let mut boxes = three(&scene, "paused", &[]);
    let running = boxes.iter().position(|one| !one.stands()).expect("one that runs");
    let paused = boxes.remove(running);
    output(&mut scene.daemon.docker(["pause", &paused.name]));
    eventually("a pause that the agent knows of", || {
        let told = stdout(&output(&mut scene.leeway(["explain", &paused.name])));
        told.contains("was paused by Docker or a person").then_some(())
    });
    // Who is paused keeps nobody waiting, and is let go by nobody: not by hand, not by the agent's end, not by the next one.
    all_but_one_stand(&boxes);
    output(&mut scene.leeway(["release"]));
    nobody_stands(&boxes);
    assert!(paused.stands());
    agent.signal(rustix::process::Signal::KILL);
    drop(agent);
    let agent = scene.agent_with(&["--probes", "off", "--policy", "earliest-deadline"]);
    all_but_one_stand(&boxes);
    assert!(paused.stands());
    output(&mut scene.daemon.docker(["unpause", &paused.name]));
    boxes.push(paused);
    all_but_one_stand(&boxes);
    remove(&scene, &boxes);
    agent.stop();
}

#[test]
fn a_visible_hold_is_dockers_own_pause_and_a_person_can_end_it() {
    let scene = Scene::new(shared(), 1);
    let agent = scene.agent_with(&["--probes", "off", "--policy", "earliest-deadline", "--visible"]);
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
    let agent = scene.agent_with(&["--probes", "off", "--policy", "earliest-deadline"]);
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

/// A shell takes a program that is stopped for one that its user put in the background, and says so.
#[test]
fn a_shell_does_not_notice_that_its_program_was_held() {
    let scene = Scene::new(shared(), 1);
    let agent = scene.agent_with(&["--probes", "off", "--policy", "earliest-deadline"]);
    let urgent = Box::start(&scene, "shell-0", &["-dl", "30m"], &["leeway", "work", "batch", "--for", "10m"]);
    let name = format!("shell-1-{}", std::process::id());
    let mounts = stdout(&output(scene.leeway(["gpu", "options", "--dir"]).arg(scene.place("gpu"))));
    let line = format!("docker run -it --name {name} --label leeway.deadline=1h {mounts} leeway-test sh");
    // `script` gives it a terminal.
    let mut script = scene.daemon.program("script", ["-qec", &line, "/dev/null"]);
    let mut shell = script.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("script");
    let mut keyboard = shell.stdin.take().expect("a pipe");
    keyboard.write_all(b"leeway work matmul --n 1024 && echo all is $((40 + 2))\nexit\n").expect("a shell");
    eventually("a task that is held", || scene.tasks(&name).into_iter().find(|task| task["held"] == true));
    scene.remove(&urgent.name);
    let printed = shell.wait_with_output().expect("an end");
    let printed = String::from_utf8_lossy(&printed.stdout).into_owned();
    assert!(printed.contains("all is 42") && !printed.contains("Stopped"), "{printed}");
    assert!(scene.finished(&name, 1)[0]["held_us"].as_i64() > Some(0));
    drop(keyboard);
    scene.remove(&name);
    agent.stop();
}
