//! Programs that start together make their contexts in turn, so that the first need not wait for the last.

use crate::daemon::shared;
use crate::errors::alone;
use crate::scene::{Scene, seconds};

/// How many start together.
const PROGRAMS: usize = 6;
/// What the simulated driver takes for a context, whoever else makes one.
const CONTEXT_S: f64 = 0.06;
/// An agent that does not get to run while the programs initialise the driver comes too late.
const TRIES: usize = 4;

#[test]
fn contexts_are_made_two_at_a_time() {
    let _turn = alone();
    let scene = Scene::new(shared(), 1);
    let _agent = scene.agent();
    let last = (0..TRIES).map(|number| spread(&scene, number)).find(|spread| *spread > 1.8 * CONTEXT_S);
    assert!(last.is_some(), "{PROGRAMS} contexts were made at once");
}

/// Seconds between the first context of several programs and the last.
fn spread(scene: &Scene, number: usize) -> f64 {
    let name = format!("contexts-{number}-{}", std::process::id());
    let script = format!("for n in $(seq {PROGRAMS}); do leeway work matmul --n 256 --json & done; wait");
    scene.start(0, &["--name", &name, "-dl", "60s"], &["sh", "-c", &script]);
    let (printed, _) = scene.outcome(&name);
    assert_eq!(printed.len(), PROGRAMS, "everybody goes on");
    assert!(printed.iter().all(|program| program["ok"] == true), "{printed:?}");
    scene.remove(&name);
    let mut contexts: Vec<f64> = printed.iter().map(|program| seconds(&program["context"])).collect();
    contexts.sort_by(f64::total_cmp);
    let spread = contexts[PROGRAMS - 1] - contexts[0];
    eprintln!("{PROGRAMS} contexts within {:.0} ms", spread * 1000.0);
    spread
}
