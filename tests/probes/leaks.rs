//! A tenant that resumes itself is noticed, counted, and then frozen.

use crate::daemon::{output, shared};
use crate::errors::alone;
use crate::program::in_a_container;
use crate::scene::{Scene, eventually};
use crate::stand::{Box, events, one_runs_and_one_stands, remove, stands_again_and_again};
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

/// How often the agent looks through the kernel's list of those it stopped.
const LOOKS_APART: SignedDuration = SignedDuration::from_millis(100);
/// How often it is tried whether somebody is noticed sooner.
const TRIES: usize = 4;

/// Another process of the container resumes its first one, the program, again and again.
fn resumes_itself(scene: &Scene, tenant: &Box) {
    let resume = "while kill -CONT 1; do usleep 20000; done";
    output(&mut scene.daemon.docker(["exec", "-d", &tenant.name, "sh", "-c", resume]));
}

fn leaks(scene: &Scene) -> Vec<Value> {
    events(scene).into_iter().filter(|event| event["event"] == "leaked").collect()
}

#[test]
fn a_tenant_that_resumes_itself_is_noticed_and_then_frozen() {
    let _turn = alone();
    let scene = Scene::new(shared(), 1);
    let agent = scene.agent_with(&["--policy", "earliest-deadline"]);
    let (first, second) = one_runs_and_one_stands(&scene, "leaks");
    resumes_itself(&scene, &second);
    eventually("a container that is frozen", || second.is_frozen().then_some(()));
    let leaks = leaks(&scene);
    assert!(leaks.iter().all(|event| event["name"] == second.name.as_str()), "{leaks:?}");
    let reason = |event: &Value| event["reason"].as_str().expect("a reason").to_owned();
    assert_eq!(reason(&leaks[0]), "somebody else resumed it at its gate, 1 time so far");
    assert_eq!(
        reason(&leaks[1]),
        "somebody else resumed it at its gate, 2 times so far; whenever it is held from now on, its container is frozen, too"
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

/// Whoever is stopped, the other of its threads comes next.
#[test]
fn threads_that_launch_in_turn_are_noticed_like_one() {
    is_noticed_at_once("turns", "launches_in_turn_from_two_threads");
}

#[test]
fn a_thread_that_launches_is_noticed_though_another_waits() {
    is_noticed_at_once("leaves-waiting-to-another", "one_thread_launches_and_another_waits");
}

#[test]
fn threads_that_launch_once_are_noticed_all_the_same() {
    is_noticed("new-threads", "each_launch_has_a_thread_of_its_own");
}

/// By the kernel's program at its next stop. By looks, a tenth of a second apart, it would be noticed, too; so it counts how soon the second time came
/// after the first. A busy machine may be late with that, more than once.
fn is_noticed_at_once(name: &str, program: &str) {
    let mut tries = (0..TRIES).map(|number| is_noticed(&format!("{name}-{number}"), program));
    assert!(tries.any(|apart| apart < LOOKS_APART), "in {TRIES} tries it was noticed by looks alone");
}

/// How long after the first time it was noticed for the second time.
fn is_noticed(name: &str, program: &str) -> SignedDuration {
    let _turn = alone();
    let scene = Scene::new(shared(), 1);
    let agent = scene.agent_with(&["--policy", "earliest-deadline"]);
    let batch = ["leeway", "work", "batch", "--kernel-us", "1000", "--for", "10m"];
    let first = Box::start(&scene, &format!("before-{name}"), &["-dl", "30m"], &batch);
    let tenant = in_a_container(&scene, name, &["-dl", "1h"], program);
    tenant.comes_to_stand();
    assert_eq!(leaks(&scene), [] as [Value; 0]);
    resumes_itself(&scene, &tenant);
    eventually("a container that is frozen", || tenant.is_frozen().then_some(()));
    let leaks = leaks(&scene);
    let time = |number: usize| {
        leaks[number]["time"].as_str().and_then(|time| time.parse::<Timestamp>().ok()).expect("a time")
    };
    remove(&scene, &[&first, &tenant]);
    agent.stop();
    time(1).duration_since(time(0))
}

#[test]
fn who_resumes_itself_where_it_waits_for_memory_is_noticed() {
    let _turn = alone();
    let scene = Scene::with_memory(shared(), 1, Some("24GiB"));
    let agent = scene.agent_with(&["--policy", "least-slack"]);
    let hold = ["leeway", "work", "hold", "--memory", "20GiB", "--for", "10m"];
    let first = Box::start(&scene, "has-memory", &["-dl", "30m"], &hold);
    eventually("memory that is taken", || {
        scene
            .tasks(&first.name)
            .iter()
            .any(|task| task["gpu_memory_bytes"].as_u64() >= Some(20 << 30))
            .then_some(())
    });
    let tenant = in_a_container(&scene, "wants-memory", &["-dl", "1h"], "asks_for_memory_again_and_again");
    tenant.comes_to_stand();
    assert_eq!(leaks(&scene), [] as [Value; 0]);
    resumes_itself(&scene, &tenant);
    eventually("a container that is frozen", || tenant.is_frozen().then_some(()));
    remove(&scene, &[&first, &tenant]);
    agent.stop();
}

/// Nobody is held: the server has nothing to do. Who queues much beside it is bounded, though it has a deadline, for that is far longer.
#[test]
fn who_resumes_itself_where_its_work_in_flight_is_bounded_is_noticed() {
    let _turn = alone();
    let scene = Scene::new(shared(), 1);
    let agent = scene.agent_with(&["--policy", "least-slack"]);
    let serve = ["leeway", "work", "serve", "--after", "1s", "--requests", "100000", "--kernel-us", "1000"];
    let serve = [serve.as_slice(), &["--every", "10s"]].concat();
    let server = Box::start(&scene, "idle", &["-dl", "20ms", "--task", "burst"], &serve);
    eventually("request", || (!scene.tasks(&server.name).is_empty()).then_some(()));
    let batch = ["leeway", "work", "batch", "--kernel-us", "20000", "--depth", "16", "--for", "10m"];
    let tenant = Box::start(&scene, "bounded", &["-dl", "12h"], &batch);
    stands_again_and_again(&tenant);
    assert_eq!(leaks(&scene), [] as [Value; 0]);
    resumes_itself(&scene, &tenant);
    let twice = || leaks(&scene).iter().filter(|leak| leak["name"] == tenant.name.as_str()).count() >= 2;
    eventually("second leak", || twice().then_some(()));
    assert!(!tenant.is_frozen(), "it is not held");
    remove(&scene, &[&server, &tenant]);
    agent.stop();
}
