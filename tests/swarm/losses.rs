//! What is lost is placed again, once, and what is not lost is left alone: masters, networks and nodes that go.

use crate::hall::{eventually, within};
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
/// The same without a restart.
const ONCE: [&str; 5] = ["--migrate", "--deadline", "60s", "--expect", "1s"];

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
    what_runs_once_and_was_stopped_in_a_short_cut_runs_again(&mut town);
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
    town.run(1, "n3", &[&["--name", "alone"], &ONCE[..]].concat(), &["sleep", "100000"]);
    town.runs_on(3, "alone");
    never_twice(town, &["web", "alone"], || {
        let started = Instant::now();
        town.network("cut", 3);
        // Placements go on meanwhile.
        let (_, node) =
            town.run(1, "auto", &["--name", "during", "--deadline", "60s", "--expect", "1s"], &["true"]);
        println!("a placement during the cut went to {node}");
        for name in ["web", "alone"] {
            let moved =
                within(LONG, "a service that left a lost node", || town.happened(1, "moved", name).pop());
            println!("{name} was placed again {:.0} s after the cut", started.elapsed().as_secs_f64());
            let lost = moved["reason"].as_str().is_some_and(|why| why.contains("which swarm has lost"));
            assert!(lost, "{moved}");
            let there = if moved["node"] == "n1" { 1 } else { 2 };
            town.runs_on(there, name);
            println!("{name} ran again {:.0} s after the cut", started.elapsed().as_secs_f64());
        }
        assert!(!town.running(3, "web").contains(&web.to_owned()), "its agent stopped it");
        town.network("heal", 3);
        town.nodes(1, &["n1", "n2", "n3"]);
        swarm_uses_all_nodes(town);
    });
    for name in ["web", "alone"] {
        assert_eq!(everywhere(town, name).len(), 1, "{}", tasks_of(town, name));
    }
    eventually("a service that is gone", || town.docker(1, &["service", "rm", "alone"]));
}

/// The containers of a service, on all nodes.
fn everywhere(town: &Town, service: &str) -> Vec<String> {
    NODES.map(|node| town.running(node, service)).concat()
}

/// What swarm says of a service's tasks.
fn tasks_of(town: &Town, service: &str) -> String {
    let words = ["service", "ps", "--no-trunc", "--format"];
    let format = "{{.ID}} {{.Node}} wanted {{.DesiredState}} is {{.CurrentState}} {{.Error}}";
    town.docker(town.active(&NODES), &[&words[..], &[format, service]].concat()).unwrap_or_default()
}

/// Looks all the while whether a service runs twice at once, of these.
fn never_twice(town: &Town, services: &[&str], meanwhile: impl FnOnce()) {
    let ended = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let doubled = scope.spawn(|| {
            let mut doubled = Vec::new();
            while doubled.is_empty() && !ended.load(Ordering::Relaxed) {
                let twice = services.iter().filter(|service| everywhere(town, service).len() > 1);
                doubled.extend(twice.map(|service| format!("{service}:\n{}", tasks_of(town, service))));
                std::thread::sleep(LOOK_EVERY);
            }
            doubled
        });
        let ends = EndsOnDrop(&ended);
        meanwhile();
        drop(ends);
        let doubled = doubled.join().expect("to have looked");
        assert!(doubled.is_empty(), "these ran twice at once: {}", doubled.join("\n"));
    });
}

fn swarm_uses_all_nodes(town: &Town) {
    eventually("a swarm of three", || {
        let nodes = town.docker(1, &["node", "ls", "--format", "{{.Status}}"])?;
        (nodes.lines().filter(|status| *status == "Ready").count() == 3).then_some(())
    });
}

/// Nobody is there who could place anything elsewhere, and they said so.
fn masters_that_are_stopped_on_purpose_stop_nothing(town: &mut Town) {
    let before = everywhere(town, "web");
    for node in NODES {
        town.stop_master(node);
    }
    std::thread::sleep(LONGER_THAN_A_CUT);
    assert_eq!(everywhere(town, "web"), before, "the same container");
    town.start_masters();
    let active = town.active(&NODES);
    town.nodes(active, &["n1", "n2", "n3"]);
}

/// The cut ends before anybody places it elsewhere, and its agent dies before it can tell. Swarm does not start it again.
fn what_runs_once_and_was_stopped_in_a_short_cut_runs_again(town: &mut Town) {
    let options = [&["--name", "once"], &ONCE[..]].concat();
    town.run(town.active(&NODES), "n3", &options, &["sleep", "100000"]);
    let once = town.runs_on(3, "once");
    let started = Instant::now();
    town.network("cut", 3);
    eventually("a container that its agent stopped", || town.running(3, "once").is_empty().then_some(()));
    println!("a container that runs once was stopped {:.0} s after the cut", started.elapsed().as_secs_f64());
    town.restart_agent(3);
    let town = &*town;
    never_twice(town, &["once"], || {
        town.network("heal", 3);
        let again = within(LONG, "container of once that runs again", || everywhere(town, "once").pop());
        println!("it ran again {:.0} s after the cut", started.elapsed().as_secs_f64());
        assert_ne!(again, once);
        // Whoever would start it once more would do so by now.
        std::thread::sleep(LONGER_THAN_A_CUT);
        assert_eq!(everywhere(town, "once"), [again], "{}", tasks_of(town, "once"));
    });
    let moved: Vec<_> = NODES.iter().flat_map(|node| town.happened(*node, "moved", "once")).collect();
    let says =
        |line: &serde_json::Value| line["reason"].as_str().is_some_and(|why| why.contains("and stopped it"));
    assert!(moved.len() == 1 && moved.iter().all(says), "{moved:?}");
    eventually("a service that is gone", || town.docker(town.active(&NODES), &["service", "rm", "once"]));
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
    let moved =
        within(LONG, "a service that left a dead node", || town.happened(next, "moved", "gone").pop());
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
