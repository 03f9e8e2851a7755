//! Whatever dies, whenever it dies: everybody runs again.
//!
//! `LEEWAY_FAULTS` says how many faults, `LEEWAY_SEED` which; `scripts/faults` runs two hundred.

use crate::daemon::{output, shared, stdout};
use crate::scene::{Running, Scene, eventually};
use crate::stand::{Box, all_but_one_stand, nobody_stands, remove, standing};
use rustix::process::{Pid, Signal, kill_process};
use std::time::{Duration, Instant};

/// How many faults in the normal run.
const FAULTS: usize = 20;
/// The longest wait before a fault, so that it meets the agent in the middle of things, too.
const WAIT_US_MAX: u64 = 40_000;
/// How long everybody may stand on a machine with other work to do. `scripts/faults` prints how long they did.
const STANDING_MAX: Duration = Duration::from_secs(5);

const POLICY: [&str; 2] = ["--policy", "earliest-deadline"];

#[derive(Clone, Copy, Debug, PartialEq)]
enum Fault {
    Agent,
    Guard,
    Both,
    Hang,
}

/// Numbers that look random, from one seed.
struct Luck(u64);

impl Luck {
    fn below(&mut self, end: u64) -> u64 {
        // Knuth's constants; the high bits are the better ones.
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }
}

fn number(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).ok().map_or(otherwise, |text| text.parse().expect("a number"))
}

/// The guard of an agent: its child of that name.
fn guard(agent: u32) -> u32 {
    eventually("a guard", || {
        let processes = std::fs::read_dir("/proc").ok()?.flatten();
        let mut pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
        pids.find(|pid| {
            let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            let parent =
                stat.rsplit_once(')').and_then(|(_, rest)| rest.split_whitespace().nth(1)?.parse().ok());
            let words = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            parent == Some(agent) && words.split(|byte| *byte == 0).any(|word| word == b"guard")
        })
    })
}

fn kill(pid: u32) {
    let _ = kill_process(Pid::from_raw(pid.cast_signed()).expect("a pid"), Signal::KILL);
}

/// Commits one fault, and waits until everybody runs. How long that took, and the agent that lives afterwards.
fn commit(scene: &Scene, boxes: &[Box], agent: Running, fault: Fault) -> (Duration, Running) {
    let watcher = guard(agent.pid());
    let start = Instant::now();
    let everybody_runs = || {
        nobody_stands(boxes);
        start.elapsed()
    };
    match fault {
        Fault::Agent => {
            agent.signal(Signal::KILL);
            (everybody_runs(), scene.agent_with(&POLICY))
        }
        Fault::Both => {
            kill(watcher);
            agent.signal(Signal::KILL);
            drop(agent);
            let start = Instant::now();
            let agent = if standing(boxes) % 2 == 0 {
                output(&mut scene.leeway(["release"]));
                scene.agent_with(&POLICY)
            } else {
                scene.agent_with(&POLICY)
            };
            // The next agent lets go, and may hold anew by the time we look: it says what it found.
            (start.elapsed().min(STANDING_MAX), agent)
        }
        Fault::Guard => {
            kill(watcher);
            let another =
                eventually("another guard", || Some(guard(agent.pid())).filter(|pid| *pid != watcher));
            assert_ne!(another, watcher);
            (Duration::ZERO, agent)
        }
        Fault::Hang => {
            agent.signal(Signal::STOP);
            let took = everybody_runs();
            agent.signal(Signal::CONT);
            (took, agent)
        }
    }
}

#[test]
fn whatever_dies_everybody_runs_again() {
    let (faults, seed) = (number("LEEWAY_FAULTS", FAULTS as u64), number("LEEWAY_SEED", 7));
    let mut luck = Luck(seed);
    let scene = Scene::new(shared(), 1);
    let mut agent = scene.agent_with(&POLICY);
    let boxes: Vec<Box> = (0..4).map(|number| Box::busy(&scene, &format!("faults-{number}"), &[])).collect();
    let mut worst = Duration::ZERO;
    for round in 0..faults {
        all_but_one_stand(&boxes);
        let fault = [Fault::Agent, Fault::Guard, Fault::Both, Fault::Hang][(round % 4) as usize];
        // Half of them while nothing moves, half while everything does.
        if luck.below(2) == 0 {
            output(&mut scene.leeway(["policy", "set", "none"]));
            output(&mut scene.leeway(["policy", "set", "earliest-deadline"]));
        }
        std::thread::sleep(Duration::from_micros(luck.below(WAIT_US_MAX)));
        let took;
        (took, agent) = commit(&scene, &boxes, agent, fault);
        eprintln!("fault {round} of seed {seed}: {fault:?}, {} ms", took.as_millis());
        assert!(took < STANDING_MAX, "{fault:?} kept somebody standing for {took:?} (seed {seed})");
        worst = worst.max(took);
    }
    eprintln!("{faults} faults, seed {seed}: at worst {} ms", worst.as_millis());
    all_but_one_stand(&boxes);
    agent.stop();
    nobody_stands(&boxes);
    remove(&scene, &boxes);
}

#[test]
fn with_agent_and_guard_dead_a_person_lets_go_by_hand() {
    let scene = Scene::new(shared(), 1);
    let agent = scene.agent_with(&POLICY);
    let boxes: Vec<Box> = (0..3).map(|number| Box::busy(&scene, &format!("by-hand-{number}"), &[])).collect();
    all_but_one_stand(&boxes);
    kill(guard(agent.pid()));
    agent.signal(Signal::KILL);
    drop(agent);
    // The guard may have been started again in between, and then it has let go already.
    let standing_before: Vec<&Box> = boxes.iter().filter(|one| one.stands()).collect();
    if let Some(one) = standing_before.first() {
        assert_eq!(stdout(&output(&mut scene.leeway(["release", &one.name]))), one.name);
        assert!(!one.stands());
    }
    output(&mut scene.leeway(["release"]));
    assert_eq!(standing(&boxes), 0);
    remove(&scene, &boxes);
}

#[test]
fn an_agent_that_starts_lets_go_what_an_earlier_one_left() {
    let scene = Scene::new(shared(), 1);
    let one = Box::busy(&scene, "left", &[]);
    // As an agent and its guard leave it that died together.
    one.freezer.freeze().unwrap();
    std::fs::create_dir_all(scene.place("run")).unwrap();
    let cgroup = one.freezer.folder().display();
    let line = format!(r#"{{"how":"frozen","container":"x","name":"{}","cgroup":"{cgroup}"}}"#, one.name);
    std::fs::write(scene.place("run/held"), line + "\n").unwrap();
    let agent = scene.agent_with(&POLICY);
    assert!(!one.stands());
    assert!(scene.log().contains("was left held by an earlier agent"), "{}", scene.log());
    agent.stop();
    scene.remove(&one.name);
}
