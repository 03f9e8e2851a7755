//! More memory wanted than the GPU has: who waits, who is swapped out, and that everybody completes.

use crate::daemon::{output, shared, stdout};
use crate::scene::{Running, Scene, eventually};
use crate::stand::{Box, events, named};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::time::{Duration, Instant};

/// Memory of the GPU.
const GPU: &str = "4GiB";
/// A matrix product whose three matrices and context take 2.1 GiB: six of them are three times the GPU.
const MATMUL: [&str; 6] = ["leeway", "work", "matmul", "--n", "12288", "--json"];

/// Six programs, of which the last three have deadlines: how they ended, and what the agent told.
fn three_times_the_memory(policy: &str, swap: bool) -> (Vec<bool>, Vec<Value>) {
    let scene = Scene::with_memory(shared(), 1, Some(GPU));
    // With probes, where this machine has them.
    let agent = scene.agent_unready(&["--probes", "auto", "--policy", policy]);
    eventually("an agent", || scene.node().filter(|node| node["docker"] == true && node["tier"] != "none"));
    let name = |number: usize| format!("much-{policy}-{swap}-{number}-{}", std::process::id());
    let swap = if swap { "--swap=true" } else { "--swap=false" };
    // Nobody knows their need: with a declared one, they could be ordered without a look at what they ask for.
    for number in 0..3 {
        scene.start(0, &["--name", &name(number), swap], &[&MATMUL[..], &["--repeat", "6"]].concat());
    }
    eventually("memory that is taken", || (used(&scene) > 2 << 30).then_some(()));
    for number in 3..6 {
        let options = ["--name", &name(number), "-dl", "10m", swap];
        scene.start(0, &options, &[&MATMUL[..], &["--repeat", "2"]].concat());
    }
    let ended = (0..6).map(|number| {
        let exit = stdout(&output(&mut scene.daemon.docker(["wait", &name(number)])));
        let logs = output(&mut scene.daemon.docker(["logs", &name(number)]));
        eprintln!("{}: {exit} {} {}", name(number), stdout(&logs), crate::daemon::stderr(&logs));
        exit == "0"
    });
    let ended: Vec<bool> = ended.collect();
    let told = events(&scene);
    told.iter().for_each(|event| eprintln!("{event}"));
    (0..6).for_each(|number| scene.remove(&name(number)));
    agent.stop();
    (ended, told)
}

#[test]
fn three_times_the_memory_completes_by_swapping() {
    let (ended, told) = three_times_the_memory("least-slack", true);
    assert_eq!(ended, [true; 6]);
    let is = |event: &Value, kinds: &[&str]| kinds.iter().any(|kind| event["event"] == *kind);
    let out: Vec<usize> = (0..told.len()).filter(|at| is(&told[*at], &["swapped-out"])).collect();
    assert!(!out.is_empty());
    for at in out {
        // One that had freed all it had and was about to exit needs nothing back.
        let mut later = told[at + 1..].iter().filter(|event| event["name"] == told[at]["name"]);
        assert!(later.any(|event| is(event, &["swapped-in", "finished"])), "{} is out", told[at]["name"]);
    }
}

#[test]
fn three_times_the_memory_completes_by_waiting_where_swapping_is_not_allowed() {
    let (ended, told) = three_times_the_memory("least-slack", false);
    assert_eq!(ended, [true; 6]);
    assert_eq!(named(&told, "swapped-out"), [""; 0]);
    let waits = |event: &&Value| event["reason"].as_str().is_some_and(|reason| reason.contains("GPU memory"));
    assert!(told.iter().any(|event| event["event"] == "held" && waits(&event)), "nobody waited for memory");
}

#[test]
fn three_times_the_memory_fails_for_some_where_nobody_waits() {
    let (ended, told) = three_times_the_memory("none", true);
    assert!(ended.contains(&false), "{ended:?}");
    assert_eq!(named(&told, "swapped-out"), [""; 0]);
}

/// What is used of the GPU's memory, as NVML says.
fn used(scene: &Scene) -> u64 {
    let nvml = node::facts::gpu::load(Some(&scene.place("gpu"))).expect("NVML");
    nvml.device_by_index(0).expect("a GPU").memory_info().expect("its memory").used
}

/// A container that keeps 2 GiB and may be swapped out, and one that is due and wants 3: so the first is out.
fn one_is_out(scene: &Scene, name: &str) -> (Running, Box, Box) {
    let agent = scene.agent_with(&["--probes", "off"]);
    let (patient, urgent) = one_leaves(scene, name);
    (agent, patient, urgent)
}

fn one_leaves(scene: &Scene, name: &str) -> (Box, Box) {
    let hold = |memory: &'static str, span: &'static str| {
        ["leeway", "work", "hold", "--memory", memory, "--for", span, "--json"]
    };
    let patient = Box::start(scene, &format!("{name}-patient"), &["--swap"], &hold("2GiB", "8s"));
    eventually("its memory", || (used(scene) > 2 << 30).then_some(()));
    let options = ["-dl", "10m", "--gpu-memory", "3GiB"];
    let urgent = Box::start(scene, &format!("{name}-urgent"), &options, &hold("3GiB", "10m"));
    eventually("one that is out", || (patient.state(scene) == "swapped").then_some(()));
    eventually("one that has what the other had", || (used(scene) > 3 << 30).then_some(()));
    (patient, urgent)
}

/// The first is still there; it comes back once the second is gone, and its data are what they were.
fn comes_back(scene: &Scene, patient: &Box, urgent: &Box) {
    let state = |name: &str| {
        stdout(&output(&mut scene.daemon.docker(["inspect", "--format", "{{.State.Status}}", name])))
    };
    assert_eq!(state(&patient.name), "running", "it waits for its memory");
    scene.remove(&urgent.name);
    let (printed, _) = scene.outcome(&patient.name);
    assert_eq!(printed[0]["ok"], true, "{printed:?}");
    scene.remove(&patient.name);
    eventually("an empty GPU", || (used(scene) == 0).then_some(()));
    assert!(!scene.place("run/swapped").exists(), "nobody is out, and nothing says so");
}

/// The children of a process that run this command of ours.
fn children(of: u32, command: &str) -> Vec<u32> {
    let processes = std::fs::read_dir("/proc").expect("/proc").flatten();
    let pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let is_one = |pid: &u32| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let parent = stat.rsplit_once(')').and_then(|(_, rest)| rest.split_whitespace().nth(1)?.parse().ok());
        let words = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        parent == Some(of) && words.split(|byte| *byte == 0).any(|word| word == command.as_bytes())
    };
    pids.filter(is_one).collect()
}

fn kill(pid: u32) {
    let _ = kill_process(Pid::from_raw(pid.cast_signed()).expect("a pid"), Signal::KILL);
}

#[test]
fn what_is_out_comes_back_when_the_agent_is_killed() {
    let scene = Scene::with_memory(shared(), 1, Some(GPU));
    let (agent, patient, urgent) = one_is_out(&scene, "killed");
    agent.signal(Signal::KILL);
    drop(agent);
    comes_back(&scene, &patient, &urgent);
}

#[test]
fn what_is_out_comes_back_by_hand_or_with_the_next_agent_when_the_guard_is_killed_too() {
    for by_hand in [true, false] {
        let scene = Scene::with_memory(shared(), 1, Some(GPU));
        let (agent, patient, urgent) = one_is_out(&scene, &format!("both-{by_hand}"));
        // One that stands starts no other guard.
        agent.signal(Signal::STOP);
        children(agent.pid(), "guard").into_iter().for_each(kill);
        agent.signal(Signal::KILL);
        drop(agent);
        if by_hand {
            let mut release = scene.leeway(["release"]);
            let release = release.env("LEEWAY_DRIVER", scene.place("gpu"));
            let release = std::thread::scope(|scope| {
                let release = scope.spawn(|| output(release));
                comes_back(&scene, &patient, &urgent);
                release.join().expect("a release")
            });
            assert!(stdout(&release).contains(&patient.name), "{}", stdout(&release));
        } else {
            let agent = scene.agent_with(&["--probes", "off"]);
            eventually("one that is known to be out", || (patient.state(&scene) == "swapped").then_some(()));
            comes_back(&scene, &patient, &urgent);
            assert_eq!(named(&events(&scene), "swapped-in"), [patient.name]);
            agent.stop();
        }
    }
}

#[test]
fn a_helper_that_is_killed_in_the_middle_is_replaced_and_nobody_is_lost() {
    let scene = Scene::with_memory(shared(), 1, Some(GPU));
    let agent = scene.agent_with(&["--probes", "off"]);
    let (patient, urgent) = std::thread::scope(|scope| {
        // As soon as somebody is locked and about to leave, whoever calls the driver dies.
        let killer = scope.spawn(|| {
            eventually("somebody who leaves", || {
                let lines = wire::swap::read(&scene.place("run"));
                lines.iter().any(|line| !line.rooms.is_empty()).then_some(())
            });
            let helpers = children(agent.pid(), "swapper");
            helpers.iter().copied().for_each(kill);
            helpers.len()
        });
        let boxes = one_leaves(&scene, "helper");
        assert_eq!(killer.join().expect("a killer"), 1);
        boxes
    });
    assert!(scene.log().contains("another is started"), "{}", scene.log());
    assert_eq!(named(&events(&scene), "unswappable"), [""; 0]);
    comes_back(&scene, &patient, &urgent);
    agent.stop();
}

#[test]
fn who_cannot_be_swapped_is_reported_once_with_the_drivers_reason_and_waited_for() {
    let scene = Scene::with_memory(shared(), 1, Some(GPU));
    let agent = scene.agent_with(&["--probes", "off"]);
    let words = ["leeway", "work", "hold", "--memory", "2GiB", "--managed", "--for", "8s", "--json"];
    let managed = Box::start(&scene, "managed", &["--swap"], &words);
    eventually("its memory", || (used(&scene) > 2 << 30).then_some(()));
    let words = ["leeway", "work", "hold", "--memory", "3GiB", "--for", "1s", "--json"];
    let urgent = Box::start(&scene, "managed-urgent", &["-dl", "10m", "--gpu-memory", "3GiB"], &words);
    for one in [&managed, &urgent] {
        assert_eq!(scene.outcome(&one.name).0[0]["ok"], true);
    }
    let told = events(&scene);
    let refused: Vec<&Value> = told.iter().filter(|event| event["event"] == "unswappable").collect();
    assert_eq!(refused.len(), 1, "{refused:?}");
    let reason = refused[0]["reason"].as_str().expect("a reason");
    assert!(reason.contains("CUDA_ERROR_NOT_SUPPORTED (801)"), "{reason}");
    assert_eq!(named(&told, "swapped-out"), [""; 0]);
    scene.remove(&managed.name);
    scene.remove(&urgent.name);
    agent.stop();
}

#[test]
fn a_container_that_is_out_can_be_entered_and_stopped_like_any_other() {
    let scene = Scene::with_memory(shared(), 1, Some(GPU));
    let (agent, patient, urgent) = one_is_out(&scene, "entered");
    output(&mut scene.daemon.docker(["exec", &patient.name, "true"]));
    let start = Instant::now();
    output(&mut scene.daemon.docker(["stop", &urgent.name]));
    output(&mut scene.daemon.docker(["rm", "-f", &patient.name]));
    assert!(start.elapsed() < Duration::from_secs(25), "{:?}", start.elapsed());
    scene.remove(&urgent.name);
    eventually("an empty GPU", || (used(&scene) == 0).then_some(()));
    agent.stop();
    assert!(!scene.place("run/swapped").exists());
}
