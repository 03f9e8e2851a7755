//! A tenant that resumes itself is noticed, counted, and then frozen.

use crate::daemon::{output, shared};
use crate::errors::alone;
use crate::scene::{Scene, eventually};
use crate::stand::{events, one_runs_and_one_stands, remove};
use serde_json::Value;

#[test]
fn a_tenant_that_resumes_itself_is_noticed_and_then_frozen() {
    let _turn = alone();
    let scene = Scene::new(shared(), 1);
    let agent = scene.agent_with(&["--policy", "earliest-deadline"]);
    let (first, second) = one_runs_and_one_stands(&scene, "leaks");
    // Another process of the container; its first one is the program.
    let resume = "while kill -CONT 1; do usleep 20000; done";
    output(&mut scene.daemon.docker(["exec", "-d", &second.name, "sh", "-c", resume]));
    eventually("a container that is frozen", || second.is_frozen().then_some(()));
    let leaks: Vec<Value> = events(&scene).into_iter().filter(|event| event["event"] == "leaked").collect();
    assert!(leaks.iter().all(|event| event["name"] == second.name.as_str()), "{leaks:?}");
    let reason = |event: &Value| event["reason"].as_str().expect("a reason").to_owned();
    assert_eq!(reason(&leaks[0]), "somebody else resumed it at its gate, 1 time so far");
    assert_eq!(
        reason(&leaks[1]),
        "somebody else resumed it at its gate, 2 times so far; its container is frozen from now on"
    );
    // From here on it cannot resume itself. Held anew, it is frozen at once; and in the end it runs.
    output(&mut scene.leeway(["policy", "set", "none"]));
    second.comes_to_run();
    output(&mut scene.leeway(["policy", "set", "earliest-deadline"]));
    eventually("a container that is frozen again", || second.is_frozen().then_some(()));
    // It may have let finish what was in flight; who is frozen never says that it is.
    first.comes_to_run();
    assert!(second.is_frozen());
    agent.stop();
    second.comes_to_run();
    remove(&scene, &[&first, &second]);
}
