//! Docker, the agent, the ledger: each may stop and come back, and what is said stays true.

use crate::daemon::{Daemon, output, shared, stdout};
use crate::scene::{Scene, eventually, seconds};
use serde_json::Value;

#[test]
fn an_agent_that_restarts_picks_up_what_runs_and_says_that_its_start_is_not_known() {
    let scene = Scene::new(shared(), 1);
    let agent = scene.agent();
    let name = format!("picked-up-{}", std::process::id());
    scene.start(
        0,
        &["--name", &name, "-dl", "60s"],
        &["leeway", "work", "hold", "--for", "60s", "--memory", "1GiB"],
    );
    assert_eq!(scene.running(&name)["approximate"], false);
    agent.stop();
    let short = format!("unseen-{}", std::process::id());
    scene.start(0, &["--name", &short, "-dl", "60s"], &["leeway", "work", "matmul", "--n", "1024", "--json"]);
    scene.outcome(&short);
    let _agent = scene.agent();
    let task = scene.running(&name);
    assert_eq!((&task["approximate"], &task["name"]), (&true.into(), &name.as_str().into()));
    output(&mut scene.daemon.docker(["kill", &name]));
    // The first agent was told to stop while the task ran, so it is in the ledger once: as what the second one saw.
    assert_eq!(scene.finished(&name, 1)[0]["approximate"], true);
    assert!(scene.tasks(&short).is_empty(), "nobody saw it");
    scene.remove(&name);
    scene.remove(&short);
}

#[test]
fn finished_tasks_outlive_the_agent_and_a_damaged_ledger_does_not_stop_it() {
    let scene = Scene::new(shared(), 1);
    let agent = scene.agent();
    let name = format!("kept-{}", std::process::id());
    scene.start(0, &["--name", &name, "-dl", "60s"], &["leeway", "work", "matmul", "--n", "1024"]);
    let before = scene.finished(&name, 1);
    agent.stop();
    let agent = scene.agent();
    assert_eq!(scene.tasks(&name), before);
    let summary = output(&mut scene.leeway(["tasks", "--since", "1h", "--summary", "--json", &name]));
    let summary: Value = serde_json::from_str(&stdout(&summary)).unwrap();
    assert_eq!((&summary["tasks"], &summary["hit_rate"]), (&1.into(), &1.0.into()));
    assert_eq!(summary["run_us_p50"], before[0]["run_us"]);
    agent.stop();
    std::fs::write(scene.place("state/ledger.db"), "nothing that was ever a database".repeat(200)).unwrap();
    let _agent = scene.agent();
    eventually("a line about the ledger", || scene.log().contains(".damaged-").then_some(()));
    assert!(scene.tasks(&name).is_empty());
    output(&mut scene.daemon.docker(["start", &name]));
    scene.finished(&name, 1);
    scene.remove(&name);
}

#[test]
fn a_docker_daemon_that_restarts_is_listed_anew() {
    // One of its own: others must not lose theirs.
    let daemon: &'static Daemon = Box::leak(Box::new(Daemon::start()));
    let scene = Scene::new(daemon, 1);
    let _agent = scene.agent();
    scene.start(0, &["--name", "before", "-dl", "60s"], &["leeway", "work", "hold", "--for", "60s"]);
    let start = seconds(&scene.running("before")["start"]);
    scene.daemon.restart();
    // Without live restore, Docker ends its containers as it stops.
    let ended = scene.finished("before", 1);
    assert!((seconds(&ended[0]["start"]) - start).abs() < 0.001);
    eventually("Docker that answers again", || scene.node().filter(|node| node["docker"] == true));
    assert!(scene.log().contains("Docker does not answer"), "{}", scene.log());
    scene.start(0, &["--name", "after", "-dl", "30s"], &["leeway", "work", "matmul", "--n", "1024"]);
    assert_eq!(scene.finished("after", 1)[0]["deadline_us"], 30_000_000);
    output(&mut scene.daemon.docker(["rm", "-f", "before", "after"]));
}
