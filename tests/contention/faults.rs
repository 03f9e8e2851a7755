//! Whatever dies, whenever it dies: everybody runs again.
//!
//! `LEEWAY_FAULTS` says how many faults, `LEEWAY_SEED` which; `scripts/faults` runs two hundred.

use crate::daemon::{Daemon, output, shared, stdout};
use crate::scene::{Running, Scene, eventually};
use crate::stand::{Box, all_but_one_stand, nobody_stands, remove, standing};
use node::facts::process::is_stopped;
use rustix::process::{Pid, Signal, kill_process};
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::Command;
use std::time::{Duration, Instant};

/// How many faults in the normal run.
const FAULTS: u64 = 20;
/// The longest wait before a fault, so that it meets the agent in the middle of things, too.
const WAIT_US_MAX: u64 = 40_000;
/// How long everybody may stand on a machine with other work to do. `scripts/faults` prints how long they did.
const STANDING_MAX: Duration = Duration::from_secs(5);

const POLICY: &str = "earliest-deadline";

/// An agent that holds by this policy: by freezing, or with probes at launches.
fn agent(scene: &Scene, probes: &str, policy: &str) -> Running {
    let agent = scene.agent_unready(&["--probes", probes, "--policy", policy]);
    eventually("an agent that sees GPU and Docker", || {
        scene.node().filter(|node| node["tier"] != "none" && node["docker"] == true)
    });
    agent
}

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
fn commit(
    scene: &Scene,
    boxes: &[Box],
    lives: Running,
    probes: &str,
    (fault, by_hand): (Fault, bool),
) -> (Duration, Running) {
    let watcher = guard(lives.pid());
    let start = Instant::now();
    let everybody_runs = || {
        nobody_stands(boxes);
        start.elapsed()
    };
    match fault {
        Fault::Agent => {
            lives.signal(Signal::KILL);
            let took = everybody_runs();
            // A process takes a while to die that has probes to take away; until then it has the socket.
            drop(lives);
            (took, agent(scene, probes, POLICY))
        }
        Fault::Both => {
            kill(watcher);
            lives.signal(Signal::KILL);
            drop(lives);
            let start = Instant::now();
            if by_hand {
                output(&mut scene.leeway(["release"]));
                nobody_stands(boxes);
                return (start.elapsed(), agent(scene, probes, POLICY));
            }
            // The next agent lets go at its start, and holds nobody until it is told to.
            let next = agent(scene, probes, "none");
            nobody_stands(boxes);
            let took = start.elapsed();
            output(&mut scene.leeway(["policy", "set", POLICY]));
            (took, next)
        }
        Fault::Guard => {
            kill(watcher);
            eventually("another guard", || Some(guard(lives.pid())).filter(|pid| *pid != watcher));
            (Duration::ZERO, lives)
        }
        Fault::Hang => {
            lives.signal(Signal::STOP);
            let took = everybody_runs();
            lives.signal(Signal::CONT);
            (took, lives)
        }
    }
}

/// Fault after fault, at moments that one seed decides.
fn fault_after_fault(probes: &str) {
    let (faults, seed) = (number("LEEWAY_FAULTS", FAULTS), number("LEEWAY_SEED", 7));
    let mut luck = Luck(seed);
    let scene = Scene::new(shared(), 1);
    let mut lives = agent(&scene, probes, POLICY);
    let tier = scene.node().expect("a node")["tier"].clone();
    let name = |number: usize| format!("faults-{probes}-{number}");
    let boxes: Vec<Box> = (0..4).map(|number| Box::busy(&scene, &name(number), &[])).collect();
    let mut worst = Duration::ZERO;
    for round in 0..faults {
        all_but_one_stand(&boxes);
        let fault = [Fault::Agent, Fault::Guard, Fault::Both, Fault::Hang][(round % 4) as usize];
        // Half of them while nothing moves, half while everything does.
        if luck.below(2) == 0 {
            output(&mut scene.leeway(["policy", "set", "none"]));
            output(&mut scene.leeway(["policy", "set", POLICY]));
        }
        std::thread::sleep(Duration::from_micros(luck.below(WAIT_US_MAX)));
        let took;
        (took, lives) = commit(&scene, &boxes, lives, probes, (fault, luck.below(2) == 0));
        eprintln!("fault {round} of seed {seed}, tier {tier}: {fault:?}, {} ms", took.as_millis());
        assert!(took < STANDING_MAX, "{fault:?} kept somebody standing for {took:?} (seed {seed})");
        worst = worst.max(took);
    }
    eprintln!("{faults} faults, seed {seed}, tier {tier}: at worst {} ms", worst.as_millis());
    all_but_one_stand(&boxes);
    lives.stop();
    nobody_stands(&boxes);
    remove(&scene, &boxes);
}

#[test]
fn whatever_dies_everybody_runs_again() {
    fault_after_fault("off");
}

/// Held at their launches, where this machine has probes.
#[test]
fn whatever_dies_everybody_at_a_gate_runs_again() {
    fault_after_fault("auto");
}

#[test]
fn with_agent_and_guard_dead_a_person_lets_go_by_hand() {
    let scene = Scene::new(shared(), 1);
    let lives = agent(&scene, "off", POLICY);
    let boxes: Vec<Box> = (0..3).map(|number| Box::busy(&scene, &format!("by-hand-{number}"), &[])).collect();
    all_but_one_stand(&boxes);
    kill(guard(lives.pid()));
    lives.signal(Signal::KILL);
    drop(lives);
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
    let lives = agent(&scene, "off", POLICY);
    assert!(!one.stands());
    assert!(scene.log().contains("was left held by an earlier agent"), "{}", scene.log());
    lives.stop();
    scene.remove(&one.name);
}

/// An agent is dead when all its threads are, and one that takes out a probe stays for a while. This test is such an agent: the thread that
/// started the guard is gone, and the link is still there.
#[test]
fn an_agent_that_takes_long_to_die_keeps_nobody_standing() {
    let folder = tempfile::tempdir().expect("a folder");
    let stands = Running::start(Command::new("sleep").arg("600"));
    stands.signal(Signal::STOP);
    let known = |one: &Running| node::facts::process::look(one.pid()).expect("a process").0;
    let process = known(&stands);
    eventually("one that stands", || is_stopped(process).then_some(()));
    let (pid, started) = (process.pid, process.started);
    let line =
        format!(r#"{{"how":"stopped","container":"x","name":"stands","pid":{pid},"started":{started}}}"#);
    std::fs::write(folder.path().join("held"), line + "\n").expect("a file");
    let (mut link, theirs) = UnixStream::pair().expect("a link");
    let run_dir = folder.path().to_owned();
    let its_thread = move || {
        let mut guard = Command::new(env!("CARGO_BIN_EXE_leeway"));
        guard.args(["guard", "--run-dir"]).arg(run_dir).stdin(OwnedFd::from(theirs));
        let guard = Running::start(&mut guard);
        // No tables, and its word that it watches.
        link.write_all(b"g").expect("a guard that listens");
        link.read_exact(&mut [0]).expect("a guard that watches");
        // What it says last is heard of after its death, and must not make the guard stop letting go.
        guard.signal(Signal::STOP);
        eventually("a guard that does not listen", || is_stopped(known(&guard)).then_some(()));
        link.write_all(b"n").expect("a link");
        (guard, link)
    };
    let (mut guard, mut link) = std::thread::spawn(its_thread).join().expect("a guard");
    guard.signal(Signal::CONT);
    eventually("one that runs", || (!is_stopped(process)).then_some(()));
    let mut word = [0];
    link.read_exact(&mut word).expect("a guard that lives");
    assert_eq!(word, *b"l", "an agent that lives after all is told");
    // A thread that could not be killed yet may hold somebody still.
    eventually("one that stands again", || {
        stands.signal(Signal::STOP);
        is_stopped(process).then_some(())
    });
    eventually("one that runs again", || (!is_stopped(process)).then_some(()));
    assert!(guard.0.try_wait().expect("a guard").is_none(), "the agent is not dead yet");
    drop(link);
    assert!(guard.0.wait().expect("an end").success());
    assert!(!folder.path().join("held").exists());
}

#[test]
fn docker_that_dies_keeps_nobody_standing() {
    // One of its own, whose containers outlive it.
    let daemon: &'static Daemon =
        std::boxed::Box::leak(std::boxed::Box::new(Daemon::start_with("--live-restore")));
    let scene = Scene::new(daemon, 1);
    let lives = agent(&scene, "off", POLICY);
    let boxes: Vec<Box> = (0..3).map(|number| Box::busy(&scene, &format!("docker-{number}"), &[])).collect();
    all_but_one_stand(&boxes);
    let folder = daemon.host().trim_start_matches("unix://").trim_end_matches("docker.sock");
    let pid = std::fs::read_to_string(format!("{folder}dockerd.pid")).expect("the daemon's pid");
    kill(pid.trim().parse().expect("a pid"));
    eventually("an agent without Docker", || scene.node().filter(|node| node["docker"] == false));
    // The agent needs no Docker to hold, nor its guard to let go.
    output(&mut scene.leeway(["policy", "set", "none"]));
    nobody_stands(&boxes);
    output(&mut scene.leeway(["policy", "set", POLICY]));
    all_but_one_stand(&boxes);
    lives.signal(Signal::KILL);
    nobody_stands(&boxes);
    daemon.restart();
    let lives = agent(&scene, "off", POLICY);
    all_but_one_stand(&boxes);
    lives.stop();
    nobody_stands(&boxes);
    remove(&scene, &boxes);
}
