//! Containers go where the node list says, on a real swarm of three nodes.

use crate::hall::{eventually, within};
use crate::town::{LONG, Town, run};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};
use wire::client;
use wire::cluster::{NodeRank, PlaceLine, PlaceWanted, Placed};

/// How many containers are placed a moment apart.
const PLACEMENTS: usize = 200;

#[test]
fn containers_go_where_the_node_list_says() {
    let mut town = Town::found();
    town.start_master(1, &[]);
    town.settle();
    assert_eq!(town.active(&[1]), 1);
    town.nodes(1, &["n1", "n2", "n3"]);
    placements_a_moment_apart_are_spread(&town);
    what_a_service_cannot_have_is_refused(&town);
    by_memory_and_by_best_fit(&mut town);
    a_busy_node_is_skipped(&town);
    a_drained_node_is_emptied(&town);
    who_misses_again_and_again_moves_once(&town);
    a_node_whose_docker_died_is_emptied(&town);
}

/// With reservations everybody gets about the same; by reports alone all go to the same node.
fn placements_a_moment_apart_are_spread(town: &Town) {
    let wanted =
        PlaceWanted { deadline_us: Some(60_000_000), expect_us: Some(50_000), ..PlaceWanted::default() };
    let (mut with, mut without) = (BTreeMap::new(), BTreeMap::new());
    for _ in 0..PLACEMENTS {
        let dry: PlaceLine = client::send(&town.socket(1), "POST", "/v1/place", &wanted).expect("a dry run");
        *without.entry(dry.node.expect("a node")).or_insert(0) += 1;
        if without.values().sum::<usize>() == PLACEMENTS {
            break;
        }
    }
    for _ in 0..PLACEMENTS {
        let placed: Placed =
            client::send(&town.socket(1), "POST", "/v1/placements", &wanted).expect("a placement");
        *with.entry(placed.node).or_insert(0) += 1;
    }
    println!("{PLACEMENTS} placements with reservations: {with:?}; without: {without:?}");
    assert_eq!(without.len(), 1, "by reports alone everybody goes to one node: {without:?}");
    assert_eq!(with.len(), 3, "{with:?}");
    assert!(with.values().all(|count| (PLACEMENTS / 4..=PLACEMENTS * 5 / 12).contains(count)), "{with:?}");
}

fn what_a_service_cannot_have_is_refused(town: &Town) {
    let words = ["run", "--node", "auto", "-d", "--gpus", "all", "leeway-test"];
    let refused = town.leeway(1).args(words).output().expect("leeway");
    let said = String::from_utf8_lossy(&refused.stderr);
    assert_eq!(refused.status.code(), Some(2), "{said}");
    assert!(said.contains("cannot have --gpus") && said.contains("default-runtime"), "{said}");
    assert_eq!(town.docker(1, &["service", "ls", "-q"]).as_deref(), Some(""));
}

/// The strategy is the master's, which starts anew for each: its list is back within a moment.
fn by_memory_and_by_best_fit(town: &mut Town) {
    // It stays after its task, and so does what was learnt of it.
    let work = ["sh", "-c", "leeway work matmul --n 2048 --json && exec sleep 100000"];
    for (strategy, deadline) in [("memory", "60s"), ("best-fit", "20s")] {
        town.kill_master(1);
        town.start_master(1, &["--strategy", strategy]);
        town.nodes(1, &["n1", "n2", "n3"]);
        town.active(&[1]);
        let first: Vec<NodeRank> =
            town.get(1, &format!("/v1/nodes?strategy={strategy}")).expect("the node list");
        let place = ["place", "--deadline", deadline, "--strategy", strategy, "--json"];
        let dry: PlaceLine = serde_json::from_str(&run(town.leeway(1).args(place))).expect("a dry run");
        let (name, node) = town.run(1, "auto", &["--deadline", deadline, "--expect", "1s"], &work);
        assert_eq!(Some(&node), dry.node.as_ref(), "{strategy}: {dry:?}");
        assert_eq!(node, first[0].node, "{strategy}: {first:?}");
        assert_eq!(node, "n3", "the most memory; then the one float that is limited");
        within(LONG, "a task that is done", || {
            let said = town.docker(1, &["service", "logs", "--raw", &name])?;
            said.contains("\"ok\":true").then_some(())
        });
        let labels = town.docker(1, &["service", "inspect", "--format", "{{json .Spec.Labels}}", &name]);
        assert!(labels.is_some_and(|labels| labels.contains(&format!("\"leeway.deadline\":\"{deadline}\""))));
        let inspected =
            ["service", "inspect", "--format", "{{.Spec.TaskTemplate.Placement.Constraints}}", &name];
        assert!(town.docker(1, &inspected).is_some_and(|text| text.contains("node.id==")));
        eventually("what was measured, in the list", || {
            let list: Vec<NodeRank> = town.get(1, "/v1/nodes")?;
            list.into_iter().find(|node| node.node == "n3" && node.float_us.is_some())
        });
    }
}

fn a_busy_node_is_skipped(town: &Town) {
    let words = ["leeway", "work", "hold", "--memory", "1GiB", "--for", "600s"];
    let (late, node) = town.run(
        1,
        "n3",
        &["--name", "late", "--deadline", "500ms", "--expect", "100ms", "--restart", "always"],
        &words,
    );
    assert_eq!(node, "n3");
    eventually("a node that says that somebody missed there", || {
        let list: Vec<NodeRank> = town.get(1, "/v1/nodes")?;
        list.into_iter().find(|node| node.node == "n3" && node.state == "missed")
    });
    let wanted = PlaceWanted { deadline_us: Some(20_000_000), ..PlaceWanted::default() };
    let dry: PlaceLine = client::send(&town.socket(1), "POST", "/v1/place", &wanted).expect("a dry run");
    let why = dry.nodes.iter().find(|node| node.node == "n3").expect("n3");
    assert_eq!(why.reason, "a container there missed its deadline");
    let (name, node) = town.run(1, "auto", &["--deadline", "20s", "--expect", "1s"], &["true"]);
    assert_ne!(node, "n3", "{name}");
    // Docker's own command removes it, and the node is free again.
    town.docker(1, &["service", "rm", &late]).expect("the service to go");
    town.nodes(1, &["n3"]);
}

/// Of what runs once, too: swarm has stopped it, and starts it nowhere.
fn a_drained_node_is_emptied(town: &Town) {
    let options = ["--migrate", "--deadline", "60s", "--expect", "1s"];
    let kinds = [("stays", &["--restart", "always"][..]), ("once", &[])];
    for (name, restart) in kinds {
        town.run(1, "n2", &[&["--name", name], restart, &options].concat(), &["sleep", "100000"]);
        town.runs_on(2, name);
    }
    town.docker(1, &["node", "update", "--availability", "drain", "n2"]).expect("to drain");
    for (name, _) in kinds {
        let moved =
            within(LONG, "a service that left a drained node", || town.happened(1, "moved", name).pop());
        assert!(
            moved["reason"].as_str().is_some_and(|why| why.starts_with("from n2, which is drained")),
            "{moved}"
        );
        let there = if moved["node"] == "n1" { 1 } else { 3 };
        town.runs_on(there, name);
        assert!(town.running(2, name).is_empty());
    }
    town.docker(1, &["node", "update", "--availability", "active", "n2"]).expect("to use it again");
    for (name, _) in kinds {
        town.docker(1, &["service", "rm", name]).expect("the service to go");
    }
    eventually("a node that the master may use again", || {
        let dry: PlaceLine =
            client::send(&town.socket(1), "POST", "/v1/place", &PlaceWanted::default()).ok()?;
        let why = dry.nodes.into_iter().find(|node| node.node == "n2")?.reason;
        (!why.contains("swarm does not use it")).then_some(())
    });
}

fn who_misses_again_and_again_moves_once(town: &Town) {
    // On n2, where nobody has a deadline yet; it can make its own nowhere.
    let words = ["sh", "-c", "while true; do leeway work matmul --n 1024; done"];
    let options =
        ["--name", "misser", "--migrate", "--restart", "always", "--deadline", "20ms", "--expect", "5ms"];
    town.run(1, "n2", &options, &words);
    let moved = within(LONG, "a service that moved", || town.happened(1, "moved", "misser").pop());
    let why = moved["reason"].as_str().unwrap_or_default();
    assert!(why.contains("tasks missed their deadlines"), "{moved}");
    assert_eq!(
        moved["node"], "n1",
        "n3 has residents with deadlines, and refuses who needs more than there is"
    );
    town.runs_on(1, "misser");
    // It misses there, too, and stays: the tasks that miss are counted, and nothing moves.
    within(LONG, "a node that says so", || {
        let list: Vec<NodeRank> = town.get(1, "/v1/nodes")?;
        list.into_iter().find(|node| node.node == "n1" && node.state == "missed")
    });
    assert_eq!(town.happened(1, "moved", "misser").len(), 1);
    assert!(town.running(2, "misser").is_empty());
}

/// The containers of a Docker that crashed run on, until the agent hears that swarm has lost the node.
fn a_node_whose_docker_died_is_emptied(town: &Town) {
    town.docker(1, &["service", "rm", "misser"]).expect("the service to go");
    town.nodes(1, &["n1", "n2"]);
    let options =
        ["--name", "orphan", "--migrate", "--restart", "always", "--deadline", "60s", "--expect", "1s"];
    town.run(1, "n2", &options, &["sleep", "100000"]);
    let container = town.runs_on(2, "orphan");
    let pid = town.docker(2, &["inspect", "--format", "{{.State.Pid}}", &container]).expect("a process");
    let lives = || std::fs::exists(format!("/proc/{pid}")).expect("an answer");
    let crashed = Instant::now();
    town.network("crash", 2);
    std::thread::sleep(Duration::from_secs(1));
    assert!(lives(), "its container runs on");
    let moved = town.moved(&[1], "orphan");
    println!(
        "what ran under a Docker that died was placed again after {:.0} s",
        crashed.elapsed().as_secs_f64()
    );
    assert!(!lives(), "before that the agent stopped it");
    let why = moved["reason"].as_str().unwrap_or_default();
    assert!(why.starts_with("from n2, which swarm has lost"), "{moved}");
    town.runs_on(if moved["node"] == "n1" { 1 } else { 3 }, "orphan");
}
