//! Programs that start together make their contexts in turn, so that the first need not wait for the last.

use crate::daemon::{output, shared, stdout};
use crate::errors::alone;
use crate::scene::{Scene, seconds};
use rustix::process::Signal;
use std::path::Path;
use std::time::{Duration, Instant};

/// How many start together.
const PROGRAMS: usize = 8;
/// What the simulated driver takes for a context, whoever else makes one.
const CONTEXT_S: f64 = 0.06;
/// An agent that does not get to run while the programs initialise the driver comes too late.
const TRIES: usize = 4;
/// How long programs take at most, from their container's start to their contexts.
const STARTING_MAX: Duration = Duration::from_secs(5);

fn start(scene: &Scene, what: &str) -> String {
    let name = format!("contexts-{what}-{}", std::process::id());
    let script = format!("for n in $(seq {PROGRAMS}); do leeway work matmul --n 256 --json & done; wait");
    scene.start(0, &["--name", &name, "-dl", "60s"], &["sh", "-c", &script]);
    name
}

/// Seconds between the first context of those programs and the last; everybody finishes.
fn spread(scene: &Scene, name: &str) -> f64 {
    let (printed, _) = scene.outcome(name);
    assert_eq!(printed.len(), PROGRAMS, "everybody goes on");
    assert!(printed.iter().all(|program| program["ok"] == true), "{printed:?}");
    scene.remove(name);
    let mut contexts: Vec<f64> = printed.iter().map(|program| seconds(&program["context"])).collect();
    contexts.sort_by(f64::total_cmp);
    contexts[PROGRAMS - 1] - contexts[0]
}

#[test]
fn contexts_are_made_two_at_a_time() {
    let _turn = alone();
    let scene = Scene::new(shared(), 1);
    let _agent = scene.agent();
    let with = |policy: &str, number: usize| {
        output(&mut scene.leeway(["policy", "set", policy]));
        let spread = spread(&scene, &start(&scene, &format!("{policy}-{number}")));
        eprintln!("{policy}: {PROGRAMS} contexts within {:.0} ms", spread * 1000.0);
        spread
    };
    // Six or more wait for two before them.
    let in_turn = |number| with("least-slack", number) > with("none", number) + 2.0 * CONTEXT_S;
    assert!((0..TRIES).any(in_turn), "{PROGRAMS} contexts were made at once");
}

#[test]
fn who_waits_for_its_context_goes_on_when_the_agent_dies_or_hangs() {
    let _turn = alone();
    let scene = Scene::new(shared(), 1);
    for signal in [Signal::KILL, Signal::STOP] {
        let caught = |number: &usize| {
            let agent = scene.agent();
            let name = start(&scene, &format!("{}-{number}", signal.as_raw()));
            let stood = somebody_stands(&scene, &name);
            agent.signal(signal);
            // Whoever stood is let go without the agent.
            spread(&scene, &name);
            stood
        };
        assert!((0..TRIES).any(|number| caught(&number)), "nobody waited when the agent got {signal:?}");
    }
}

/// Waits until a program of a container is stopped. False if none is.
fn somebody_stands(scene: &Scene, name: &str) -> bool {
    let format = "{{.State.Pid}}";
    let first = stdout(&output(&mut scene.daemon.docker(["inspect", "--format", format, name])));
    let children = Path::new("/proc").join(&first).join("task").join(&first).join("children");
    let start = Instant::now();
    while start.elapsed() < STARTING_MAX {
        let children = std::fs::read_to_string(&children).unwrap_or_default();
        if children.split_whitespace().any(is_stopped) {
            return true;
        }
        if children.is_empty() && start.elapsed() > STARTING_MAX / 5 {
            return false;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    false
}

fn is_stopped(pid: &str) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(')').is_some_and(|(_, rest)| rest.trim_start().starts_with('T'))
}
