//! The launch gate: what it stops does not reach the GPU, and whoever stands there is let go, whatever becomes of the agent.

use crate::daemon::shared;
use crate::errors::alone;
use crate::scene::{Scene, seconds};
use crate::stand::{Box, events, one_runs_and_one_stands, remove};
use rustix::process::Signal;
use serde_json::Value;
use std::time::{Duration, Instant};

/// How many launches must have stood at the gate.
const GATED_MIN: usize = 1000;
/// How often the urgent server is asked: some requests find nobody at the gate.
const REQUESTS: &str = "1600";
/// How long its kernel takes, on a GPU of its own.
const URGENT_US: &str = "3000";
/// For so long from its launch on, the urgent kernel is on the GPU for sure.
const URGENT_S: f64 = 0.0029;
/// How long everybody may stand after the agent's death on a machine with other work to do; the promise is 0.2 s.
const STANDING_MAX: Duration = Duration::from_secs(3);

/// The moments of one request, or of all.
fn moments(request: &Value) -> (f64, f64) {
    (seconds(&request["launch"]), seconds(&request["launched"]))
}

#[test]
fn of_a_thousand_launches_that_are_gated_none_reaches_the_gpu() {
    let _turn = alone();
    let scene = Scene::new(shared(), 1);
    let _agent = scene.agent_with(&["--policy", "earliest-deadline"]);
    let serve = ["leeway", "work", "serve", "--json", "--after", "2s", "--requests"];
    let urgent = [serve.as_slice(), &[REQUESTS, "--kernel-us", URGENT_US, "--every", "10ms"]].concat();
    let others = [serve.as_slice(), &["20000", "--kernel-us", "200", "--every", "1ms"]].concat();
    let background = Box::start(&scene, "gated", &["--task", "process"], &others);
    let server = Box::start(&scene, "urgent", &["-dl", "1s", "--task", "burst"], &urgent);
    let (printed, _) = scene.outcome(&server.name);
    let all = events(&scene);
    let (others_printed, _) = scene.outcome(&background.name);
    let held = |event: &&Value| event["event"] == "held" && event["name"] == background.name.as_str();
    let first = all.iter().find(held).map(|event| seconds(&event["time"])).expect("a hold");
    let urgent: Vec<(f64, f64)> = requests(&printed).filter(|(launch, _)| *launch > first + 0.1).collect();
    let (mut gated, mut leaked) = (0, Vec::new());
    for (launch, launched) in requests(&others_printed) {
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
    assert_eq!(leaked, [], "urgent launch, launch, its return");
    assert!(gated >= GATED_MIN, "only {gated} launches were gated");
    assert!(!all.iter().any(|event| event["event"] == "leaked"));
    remove(&scene, &[&background, &server]);
}

fn requests(printed: &[Value]) -> impl Iterator<Item = (f64, f64)> {
    printed[0]["requests"].as_array().expect("requests").iter().map(moments)
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
