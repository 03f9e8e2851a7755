//! What is shown: the agent's own account, on every ground.

use crate::daemon::{output, stderr, stdout};
use crate::theatre::{On, Theatre};
use rustix::process::Signal;
use serde_json::Value;
use std::process::{Command, Stdio};

const PARTS: [&str; 5] = ["batch", "serve", "train", "render", "report"];

fn is(line: &Value, kind: &str) -> bool {
    line["demo"] == kind
}

/// Everything that was told of a part.
fn events(lines: &[Value], who: &str) -> Vec<String> {
    let own = lines.iter().filter(|line| is(line, "event") && line["who"] == who);
    own.map(|line| line["event"].as_str().expect("words").to_owned()).collect()
}

fn rows(lines: &[Value]) -> Vec<&Value> {
    lines.iter().filter(|line| is(line, "row")).collect()
}

/// Shows it whole, and compares the closing table with the agent's ledger.
fn whole_show(on: On) -> Vec<Value> {
    let theatre = Theatre::new(on);
    let mut showing = theatre.start(&["--stay"]);
    let lines = showing.until(|line| is(line, "end"));
    let stage = &lines[0];
    let socket = stage["socket"].as_str().expect("words");
    assert!(socket.starts_with(theatre.temporary().to_str().expect("a path")), "{socket}");
    let asked = output(Command::new(theatre.program()).args(["tasks", "--json", "--socket", socket]));
    let tasks: Vec<Value> =
        stdout(&asked).lines().map(|line| serde_json::from_str(line).expect(line)).collect();
    let rows = rows(&lines);
    assert_eq!(rows.iter().map(|row| row["who"].as_str().expect("words")).collect::<Vec<_>>(), PARTS);
    for row in rows {
        let who = row["who"].as_str().expect("words");
        let pid =
            &lines.iter().find(|line| is(line, "event") && line["who"] == who).expect("what was told")["pid"];
        let task = tasks.iter().find(|task| task["pid"] == *pid).expect("what was told");
        for key in ["container", "run_us", "deadline_us", "float_us"] {
            assert_eq!(row[key], task[key], "{key} of {who}");
        }
        let hits = (task["hit"] == true, task["hit"] == false);
        assert_eq!(
            (row["hits"] == 1, row["misses"] == 1, row["tasks"] == 1),
            (hits.0, hits.1, true),
            "{row}"
        );
    }
    showing.signal(Signal::INT);
    assert!(showing.end().success(), "Ctrl-C is how one that stays is to end: {}", showing.complaints());
    assert_eq!(showing.complaints(), "");
    assert_eq!(theatre.left_of(showing.pid()), Vec::<String>::new(), "nothing is left once it has ended");
    lines
}

/// The story where there are deadlines: one is missed, at the moment it passes.
fn one_is_missed(lines: &[Value]) {
    assert_eq!(events(lines, "render"), ["started", "missed", "finished"]);
    for who in ["batch", "serve", "train", "report"] {
        assert_eq!(events(lines, who), ["started", "finished"], "{who}");
    }
    let end = lines.last().expect("a last line");
    assert_eq!((&end["hits"], &end["misses"]), (&3.into(), &1.into()));
    let missed = lines.iter().position(|line| line["event"] == "missed").expect("what was told");
    let finished = lines
        .iter()
        .position(|line| line["event"] == "finished" && line["who"] == "render")
        .expect("what was told");
    assert!(missed < finished, "it is told when the deadline passes, not when the task ends");
}

#[test]
fn the_closing_table_is_what_the_ledger_says_on_docker() {
    let lines = whole_show(On::Docker);
    assert_eq!((&lines[0]["on"], &lines[0]["because"]), (&"docker".into(), &Value::Array(Vec::new())));
    one_is_missed(&lines);
}

#[test]
fn the_closing_table_is_what_the_ledger_says_on_cgroups() {
    let lines = whole_show(On::Cgroups);
    assert_eq!(lines[0]["on"], "cgroups");
    one_is_missed(&lines);
}

#[test]
fn without_rights_it_shows_what_it_can() {
    let lines = whole_show(On::Processes);
    assert_eq!(lines[0]["on"], "processes");
    let because: Vec<&str> =
        lines[0]["because"].as_array().unwrap().iter().map(|why| why.as_str().unwrap()).collect();
    assert!(because[0].starts_with("no docker: ") && because[1].starts_with("no cgroups: "), "{because:?}");
    for who in PARTS {
        assert_eq!(events(&lines, who), ["started", "finished"], "{who}");
    }
    let end = lines.last().unwrap();
    assert_eq!((&end["hits"], &end["misses"]), (&0.into(), &0.into()));
}

#[test]
fn cgroups_of_version_2_will_do() {
    let theatre = Theatre::new(On::Cgroups);
    let alone = "mount --make-rprivate / && umount -R /sys/fs/cgroup && mount -t cgroup2 none /sys/fs/cgroup \
                 && exec \"$0\" demo --on cgroups --json";
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", alone]).arg(theatre.program()).env("TMPDIR", theatre.temporary());
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let pid = child.id();
    let shown = child.wait_with_output().unwrap();
    assert!(shown.status.success(), "{}", stderr(&shown));
    let lines: Vec<Value> = stdout(&shown).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    one_is_missed(&lines);
    theatre.is_empty_after(pid);
}

#[test]
fn what_cannot_be_is_one_line_and_help() {
    let theatre = Theatre::new(On::Docker);
    let refused = |words: &[&str], host: &str| {
        let refused = theatre.demo(words).env("DOCKER_HOST", host).output().unwrap();
        (refused.status.code(), stderr(&refused))
    };
    let (code, said) = refused(&["--on", "docker"], "unix:///nowhere/docker.sock");
    assert_eq!(code, Some(1));
    assert!(
        said.contains("/nowhere/docker.sock") && said.contains("\nhelp: ") && said.lines().count() == 2,
        "{said}"
    );
    let (code, said) = refused(&["--on", "docker"], "tcp://192.0.2.1:2375");
    assert!(code == Some(1) && said.contains("192.0.2.1"), "{said}");
    let (code, said) = refused(&["--on", "podman"], "");
    assert_eq!(code, Some(2));
    assert!(said.contains("'podman'") && said.contains("docker, cgroups, processes"), "{said}");
    assert_eq!(theatre.left_of(0), Vec::<String>::new());
}
