//! The launch gate: what it stops does not reach the GPU, and whoever stands there is let go, whatever becomes of the agent.

use crate::daemon::shared;
use crate::errors::alone;
use crate::program::{in_a_container, told};
use crate::scene::{Scene, eventually, seconds};
use crate::stand::{Box, events, looks, now, one_runs_and_one_stands, remove, stands_again_and_again};
use rustix::process::Signal;
use serde_json::Value;
use std::time::{Duration, Instant};

/// How many launches must have stood at the gate.
const GATED_MIN: usize = 1000;
/// How often that is tried.
const ROUNDS_MAX: usize = 4;
/// And how many of one that came back to it.
const GATED_AGAIN_MIN: usize = 50;
/// How long its kernel takes, on a GPU of its own.
const URGENT_US: &str = "3000";
/// For so long from its launch on, the urgent kernel is on the GPU for sure.
const URGENT_S: f64 = 0.0029;
/// Whoever was late is urgent again soon after.
const URGENT_AGAIN_S: f64 = 0.05;
/// How long everybody may stand after the agent's death on a machine with other work to do; the promise is 0.2 s.
const STANDING_MAX: Duration = Duration::from_secs(3);

/// One that launches all the time, with no deadline.
fn in_the_background(scene: &Scene, name: &str) -> Box {
    let words = ["leeway", "work", "serve", "--json", "--after", "2s", "--requests", "20000"];
    let words = [words.as_slice(), &["--kernel-us", "200", "--every", "1ms"]].concat();
    Box::start(scene, name, &["--task", "process"], &words)
}

/// A server with a deadline, and so many requests.
fn urgent(scene: &Scene, name: &str, requests: &str) -> Box {
    urgent_with(scene, name, &[requests, "--kernel-us", URGENT_US, "--every", "10ms"])
}

fn urgent_with(scene: &Scene, name: &str, requests: &[&str]) -> Box {
    let words = ["leeway", "work", "serve", "--json", "--after", "2s", "--requests"];
    let words = [words.as_slice(), requests].concat();
    Box::start(scene, name, &["-dl", "1s", "--task", "burst"], &words)
}

/// One that is urgent, has served a request, and has nothing to do for the next ten seconds.
fn idle(scene: &Scene, name: &str) -> Box {
    let server = urgent_with(scene, name, &["100000", "--kernel-us", "1000", "--every", "10s"]);
    has_a_request(scene, &server);
    server
}

fn has_a_request(scene: &Scene, of: &Box) {
    eventually("request", || (!scene.tasks(&of.name).is_empty()).then_some(()));
}

/// How many launches of the one in the background stood while the other's kernel ran, after a moment. That none got through is asserted, beside what
/// the agent told then.
fn gated_since(since: f64, background: &[Value], urgent: &[Value], events: &[Value]) -> usize {
    let late = late(events);
    let in_time =
        |(launch, _): &(f64, f64)| !late.iter().any(|(from, until)| (from..until).contains(&launch));
    let urgent: Vec<(f64, f64)> =
        moments(urgent).filter(|(launch, _)| *launch > since).filter(in_time).collect();
    let (mut gated, mut leaked) = (0, Vec::new());
    for (launch, launched) in moments(background) {
        // The first urgent kernel that was not done yet: it may have come before this launch was called, or while it stood.
        let next = urgent.partition_point(|(urgent_launch, _)| urgent_launch + URGENT_S <= launch);
        let Some((urgent_launch, urgent_launched)) = urgent.get(next) else { continue };
        if launched >= urgent_launch + URGENT_S {
            gated += 1;
        } else if launch > *urgent_launched {
            leaked.push((*urgent_launch, launch, launched));
        }
    }
    eprintln!("{} urgent requests, {gated} launches gated, {} leaked", urgent.len(), leaked.len());
    for (launch, ..) in &leaked {
        let around = |event: &&Value| (seconds(&event["time"]) - launch).abs() < 0.1;
        events.iter().filter(around).for_each(|event| eprintln!("{event}"));
    }
    assert_eq!(leaked, [], "urgent launch, launch, its return");
    gated
}

/// From when until when somebody who had a deadline had missed it, and others need not make way: on a busy machine requests come to follow
/// each other so closely that they are one.
fn late(events: &[Value]) -> Vec<(f64, f64)> {
    let of = |event: &&Value, kind: &str| event["event"] == kind;
    let missed = events.iter().filter(|event| of(event, "missed"));
    let span = |missed: &Value| {
        let from = seconds(&missed["time"]);
        let ends = events.iter().filter(|event| of(event, "finished") && event["pid"] == missed["pid"]);
        let end = ends.map(|event| seconds(&event["time"])).find(|end| *end >= from);
        // Its kernel may have been on the GPU by then.
        (from - URGENT_S, end.unwrap_or(f64::MAX) + URGENT_AGAIN_S)
    };
    missed.map(span).collect()
}

/// When each request's launch was called, and when it returned.
fn moments(printed: &[Value]) -> impl Iterator<Item = (f64, f64)> {
    let requests = printed[0]["requests"].as_array().expect("requests");
    requests.iter().map(|request| (seconds(&request["launch"]), seconds(&request["launched"])))
}

/// When a container was first held, after a moment.
fn first_hold(events: &[Value], of: &Box, since: f64) -> Option<f64> {
    let held = events.iter().filter(|event| event["event"] == "held" && event["name"] == of.name.as_str());
    held.map(|event| seconds(&event["time"])).find(|at| *at > since)
}

#[test]
fn of_a_thousand_launches_that_are_gated_none_reaches_the_gpu() {
    let _turn = alone();
    let scene = Scene::new(shared(), 1);
    let _agent = scene.agent_with(&["--policy", "earliest-deadline"]);
    let mut gated = 0;
    // On a machine with other work to do, fewer requests find somebody at the gate.
    for round in 1..=ROUNDS_MAX {
        let since = now();
        let background = in_the_background(&scene, &format!("gated-{round}"));
        let server = urgent(&scene, &format!("urgent-{round}"), "1600");
        let (urgent, _) = scene.outcome(&server.name);
        let all = events(&scene);
        let (others, _) = scene.outcome(&background.name);
        let first = first_hold(&all, &background, since).expect("a hold");
        gated += gated_since(first + 0.1, &others, &urgent, &all);
        assert!(!all.iter().any(|event| event["event"] == "leaked"));
        remove(&scene, &[&background, &server]);
        if gated >= GATED_MIN {
            return;
        }
    }
    panic!("only {gated} launches were gated");
}

/// One thread's stop is on its way while another launches: that one must stop, too.
#[test]
fn of_several_threads_that_launch_none_gets_through() {
    let _turn = alone();
    let scene = Scene::new(shared(), 1);
    let _agent = scene.agent_with(&["--policy", "earliest-deadline"]);
    let since = now();
    let threads = in_a_container(&scene, "threads", &["--task", "process"], "launches_from_several_threads");
    let server = urgent(&scene, "urgent-threads", "800");
    let (urgent, _) = scene.outcome(&server.name);
    let all = events(&scene);
    let launches = told(&scene, &threads);
    let first = first_hold(&all, &threads, since).expect("a hold");
    let gated = gated_since(first + 0.1, &launches, &urgent, &all);
    assert!(gated >= GATED_AGAIN_MIN, "only {gated} launches were gated");
    remove(&scene, &[&threads, &server]);
}

/// Alone it has no probes, and with the next ones it has another place in the kernel's tables.
#[test]
fn who_is_probed_again_is_gated_again() {
    let _turn = alone();
    let scene = Scene::new(shared(), 1);
    let _agent = scene.agent_with(&["--policy", "earliest-deadline"]);
    let background = in_the_background(&scene, "gated-again");
    let is_probed = || {
        let roll = std::fs::read_to_string(scene.place("run/probed")).unwrap_or_default();
        roll.lines().any(|line| line.split(' ').next() == Some(&background.pid.to_string()))
    };
    let first = urgent(&scene, "urgent-first", "50");
    eventually("process with probes", || is_probed().then_some(()));
    scene.outcome(&first.name);
    eventually("process without probes", || (!is_probed()).then_some(()));
    let since = now();
    let second = urgent(&scene, "urgent-second", "500");
    let (urgent, _) = scene.outcome(&second.name);
    let all = events(&scene);
    let held = first_hold(&all, &background, since).expect("a hold");
    let (others, _) = scene.outcome(&background.name);
    let gated = gated_since(held + 0.1, &others, &urgent, &all);
    assert!(gated >= GATED_AGAIN_MIN, "only {gated} launches were gated");
    remove(&scene, &[&background, &first, &second]);
}

/// Nobody is held: the kernel alone stops who has too much in flight beside an urgent server, which has nothing to do. It has seen urgent
/// work that will never be done, for who launched it was killed; it learns what launches take all the same.
#[test]
fn who_stands_for_what_is_in_flight_is_let_go_when_the_agent_hangs() {
    let _turn = alone();
    let scene = Scene::new(shared(), 1);
    let agent = scene.agent_with(&["--policy", "earliest-deadline"]);
    let busy = urgent_with(&scene, "killed", &["100000", "--kernel-us", "200000", "--every", "200ms"]);
    has_a_request(&scene, &busy);
    remove(&scene, &[&busy]);
    let batch = ["leeway", "work", "batch", "--kernel-us", "5000", "--depth", "64", "--for", "10m"];
    let background = Box::start(&scene, "bounded", &["--task", "process"], &batch);
    // Until its first launch its gate is shut, for memory.
    let server = idle(&scene, "idle");
    stands_again_and_again(&background);
    agent.signal(Signal::STOP);
    eventually("process that runs and runs", || looks(&background).all(|stands| !stands).then_some(()));
    agent.signal(Signal::CONT);
    remove(&scene, &[&background, &server]);
    agent.stop();
}

/// How many tries a noisy machine is given.
const TRIES: usize = 3;
/// What is left of the pace of one that prepares its next input while the GPU works, at least. What its launches take, nobody can tell.
const PACE_MIN: f64 = 0.5;

#[test]
fn who_prepares_its_next_input_before_it_waits_keeps_its_pace_beside_somebody_urgent() {
    let _turn = alone();
    let scene = Scene::new(shared(), 1);
    let agent = scene.agent_with(&["--policy", "earliest-deadline"]);
    let words = "leeway work batch --kernel-us 200 --depth 20 --prepare 10ms --for 3s --json";
    let words: Vec<&str> = words.split(' ').collect();
    let kernels = |name: &str| {
        let batch = Box::start(&scene, name, &["--task", "process"], &words);
        let (printed, _) = scene.outcome(&batch.name);
        remove(&scene, &[&batch]);
        printed[0]["kernels"].as_f64().expect("a number")
    };
    let mut paces = (1..=TRIES).map(|attempt| {
        let undisturbed = kernels(&format!("prepares-alone-{attempt}"));
        let server = idle(&scene, &format!("idle-{attempt}"));
        let beside = kernels(&format!("prepares-beside-{attempt}"));
        remove(&scene, &[&server]);
        eprintln!("{beside} kernels beside an urgent server, {undisturbed} alone");
        beside / undisturbed
    });
    assert!(paces.any(|pace| pace > PACE_MIN), "it was slowed down every time");
    agent.stop();
}

/// One is killed with seconds of work on the GPU, beside a server that has nothing to do. The other stood for that, and goes on.
#[test]
fn nobody_stands_for_what_the_dead_had_in_flight() {
    let _turn = alone();
    let scene = Scene::new(shared(), 1);
    let agent = scene.agent_with(&["--policy", "earliest-deadline"]);
    let server = idle(&scene, "idle");
    let long = ["leeway", "work", "batch", "--kernel-us", "10000000", "--for", "10m"];
    let dies = Box::start(&scene, "dies-in-flight", &["--task", "process"], &long);
    // What its kernels take is learnt when the first of them is done, alone: nothing of that is seen from outside.
    std::thread::sleep(Duration::from_secs(12));
    let short = ["leeway", "work", "batch", "--kernel-us", "1000", "--depth", "4", "--for", "10m"];
    let other = Box::start(&scene, "lives-on", &["--task", "process"], &short);
    let is_let_go = |event: &Value| event["event"] == "released" && event["name"] == other.name.as_str();
    eventually("turn of the other", || events(&scene).iter().any(is_let_go).then_some(()));
    remove(&scene, &[&dies]);
    let gone = Instant::now();
    stands_again_and_again(&other);
    assert!(gone.elapsed() < Duration::from_secs(4), "it stood for {:?}", gone.elapsed());
    remove(&scene, &[&server, &other]);
    agent.stop();
}

#[test]
fn who_stands_at_the_gate_is_let_go_when_the_agent_dies_hangs_or_ends() {
    let _turn = alone();
    let scene = Scene::new(shared(), 1);
    let policy = ["--policy", "earliest-deadline"];
    let mut agent = scene.agent_with(&policy);
    let (first, second) = one_runs_and_one_stands(&scene, "dies");
    for signal in [Signal::KILL, Signal::STOP, Signal::TERM] {
        second.comes_to_stand();
        let start = Instant::now();
        agent.signal(signal);
        while second.stands() {
            assert!(start.elapsed() < STANDING_MAX, "{signal:?} of the agent left somebody standing");
            std::thread::sleep(Duration::from_millis(1));
        }
        eprintln!("after {signal:?} of the agent: running after {} ms", start.elapsed().as_millis());
        first.comes_to_run();
        drop(agent);
        second.comes_to_run();
        agent = scene.agent_with(&policy);
    }
    second.comes_to_stand();
    remove(&scene, &[&first, &second]);
    agent.stop();
}
