//! What is lost is placed again, once, and what is not lost is left alone: masters, networks and nodes that go.

use crate::hall::eventually;
use crate::town::{LONG, NODES, Town};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use wire::cluster::MasterLine;

/// How often it is looked whether a container runs twice.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// An agent that is cut off stops what may move within 20 s.
const LONGER_THAN_A_CUT: Duration = Duration::from_secs(21);
const SERVER: [&str; 8] =
    ["--migrate", "--restart", "always", "--deadline", "60s", "--expect", "1s", "--gpu-memory=1GiB"];

#[test]
fn nothing_is_lost_or_doubled_when_masters_networks_and_nodes_go() {
    let mut town = Town::found();
    town.start_masters();
    town.settle();
    assert_eq!(town.active(&NODES), 1, "swarm's leader is where it was made");
    for node in NODES {
        town.nodes(node, &["n1", "n2", "n3"]);
    }
    town.run(1, "n3", &[&["--name", "web"], &SERVER[..]].concat(), &["sleep", "100000"]);
    let web = town.runs_on(3, "web");
    only_the_active_master_places(&town);
    a_master_that_is_killed_comes_back_and_knows_everything(&mut town, &web);
    a_node_that_is_cut_off_stops_what_runs_elsewhere(&town, &web);
    masters_that_are_stopped_on_purpose_stop_nothing(&mut town);
    what_runs_once_and_was_stopped_in_a_short_cut_runs_again(&town);
    a_second_master_takes_over_with_the_leader(&mut town);
}

fn only_the_active_master_places(town: &Town) {
    let refused =
        town.leeway(2).args(["run", "-d", "--node", "auto", "leeway-test"]).output().expect("leeway");
    let said = String::from_utf8_lossy(&refused.stderr);
    assert!(!refused.status.success() && said.contains("ask the one on n1"), "{said}");
}

fn a_master_that_is_killed_comes_back_and_knows_everything(town: &mut Town, web: &str) {
    town.kill_master(1);
    // Without a master everything runs on.
    assert_eq!(town.running(3, "web"), [web]);
    town.start_master(1, &[]);
    let started = Instant::now();
    eventually("the list, rebuilt", || {
        town.get::<MasterLine>(1, "/v1/master").filter(|about| about.agents == 3)
    });
    println!("the list was rebuilt {:.1} s after the master was started", started.elapsed().as_secs_f64());
    town.active(&[1]);
    town.nodes(1, &["n1", "n2", "n3"]);
    town.run(1, "auto", &["--name", "after", "--deadline", "60s", "--expect", "1s"], &["true"]);
    assert_eq!(town.running(3, "web"), [web], "the same container");
}

/// Its agent stops the container before it is placed again; nobody ever sees two.
fn a_node_that_is_cut_off_stops_what_runs_elsewhere(town: &Town, web: &str) {
    let ended = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let doubled = scope.spawn(|| {
            let mut doubled = 0;
            while !ended.load(Ordering::Relaxed) {
                let count: usize = NODES.iter().map(|node| town.running(*node, "web").len()).sum();
                doubled += usize::from(count > 1);
                std::thread::sleep(LOOK_EVERY);
            }
            doubled
        });
        let _ends = EndsOnDrop(&ended);
        let started = Instant::now();
        town.network("cut", 3);
        // Placements go on meanwhile.
        let (_, node) =
            town.run(1, "auto", &["--name", "during", "--deadline", "60s", "--expect", "1s"], &["true"]);
        println!("a placement during the cut went to {node}");
        let moved = crate::hall::within(LONG, "a service that left a lost node", || {
            town.happened(1, "moved", "web").pop()
        });
        println!("web was placed again {:.0} s after the cut", started.elapsed().as_secs_f64());
        assert!(moved["reason"].as_str().is_some_and(|why| why.contains("which swarm has lost")), "{moved}");
        let there = if moved["node"] == "n1" { 1 } else { 2 };
        town.runs_on(there, "web");
        assert!(!town.running(3, "web").contains(&web.to_owned()), "its agent stopped it");
        town.network("heal", 3);
        town.nodes(1, &["n1", "n2", "n3"]);
        ended.store(true, Ordering::Relaxed);
        assert_eq!(doubled.join().expect("to have looked"), 0, "it ran twice at once");
    });
    let count: usize = NODES.iter().map(|node| town.running(*node, "web").len()).sum();
    assert_eq!(count, 1);
    swarm_uses_all_nodes(town);
}

fn swarm_uses_all_nodes(town: &Town) {
    eventually("a swarm of three", || {
        let nodes = town.docker(1, &["node", "ls", "--format", "{{.Status}}"])?;
        (nodes.lines().filter(|status| *status == "Ready").count() == 3).then_some(())
    });
}

/// Nobody is there who could place anything elsewhere, and they said so.
fn masters_that_are_stopped_on_purpose_stop_nothing(town: &mut Town) {
    let running = |town: &Town| NODES.map(|node| town.running(node, "web")).concat();
    let before = running(town);
    for node in NODES {
        town.stop_master(node);
    }
    std::thread::sleep(LONGER_THAN_A_CUT);
    assert_eq!(running(town), before, "the same container");
    town.start_masters();
    let active = town.active(&NODES);
    town.nodes(active, &["n1", "n2", "n3"]);
}

/// The cut ends before anybody places it elsewhere, and swarm does not start it again.
fn what_runs_once_and_was_stopped_in_a_short_cut_runs_again(town: &Town) {
    let options = ["--name", "once", "--migrate", "--deadline", "60s", "--expect", "1s"];
    town.run(town.active(&NODES), "n3", &options, &["sleep", "100000"]);
    let once = town.runs_on(3, "once");
    let started = Instant::now();
    town.network("cut", 3);
    eventually("a container that its agent stopped", || town.running(3, "once").is_empty().then_some(()));
    println!("a container that runs once was stopped {:.0} s after the cut", started.elapsed().as_secs_f64());
    town.network("heal", 3);
    let moved = town.moved(&NODES, "once");
    println!("it was placed again {:.0} s after the cut", started.elapsed().as_secs_f64());
    assert!(moved["reason"].as_str().is_some_and(|why| why.contains("and stopped it")), "{moved}");
    let there = NODES.into_iter().find(|node| moved["node"] == format!("n{node}")).expect("a node");
    assert_ne!(town.runs_on(there, "once"), once);
    let count: usize = NODES.iter().map(|node| town.running(*node, "once").len()).sum();
    assert_eq!(count, 1);
    eventually("a service that is gone", || town.docker(there, &["service", "rm", "once"]));
    swarm_uses_all_nodes(town);
}

/// Lets who looks end, also when something else fails.
struct EndsOnDrop<'a>(&'a AtomicBool);

impl Drop for EndsOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// The leader's machine dies: swarm elects another, and the master there goes on.
fn a_second_master_takes_over_with_the_leader(town: &mut Town) {
    // A node that comes back may make swarm elect anew.
    let leader = town.active(&NODES);
    let others: Vec<usize> = NODES.into_iter().filter(|node| *node != leader).collect();
    let names: Vec<String> = others.iter().map(|node| format!("n{node}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let dying = format!("n{leader}");
    town.run(leader, &dying, &[&["--name", "gone"], &SERVER[..]].concat(), &["sleep", "100000"]);
    town.runs_on(leader, "gone");
    let before = Instant::now();
    town.kill_node(leader);
    let next = town.active(&others);
    println!("master {next} was active {:.1} s after the leader's death", before.elapsed().as_secs_f64());
    town.nodes(next, &names);
    let (_, node) =
        town.run(next, "auto", &["--name", "later", "--deadline", "60s", "--expect", "1s"], &["true"]);
    assert_ne!(node, dying);
    let moved = crate::hall::within(LONG, "a service that left a dead node", || {
        town.happened(next, "moved", "gone").pop()
    });
    println!("what it ran was placed again after {:.0} s", before.elapsed().as_secs_f64());
    let there = others.iter().find(|node| moved["node"] == format!("n{node}")).expect("a living node");
    town.runs_on(*there, "gone");
    for service in ["gone", "web"] {
        eventually(&format!("one container of {service}"), || {
            let count: usize = others.iter().map(|node| town.running(*node, service).len()).sum();
            (count == 1).then_some(())
        });
    }
}
