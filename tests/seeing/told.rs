//! Events by time and kind, the webhook, and the timeline as a trace and a picture.

use crate::scene::{Scene, eventually};
use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

/// How long news may take to be posted on a machine with other work to do.
const POSTED_MAX: Duration = Duration::from_secs(30);

fn lines(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).expect(line)).collect()
}

/// Somebody to post to, who answers each try with the next of these codes, and the last for ever. What was posted.
fn receiver(codes: &'static [u16]) -> (String, Receiver<Value>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}/hook", listener.local_addr().expect("an address"));
    let (sender, posted) = channel();
    std::thread::spawn(move || {
        for (tried, stream) in listener.incoming().enumerate() {
            let mut reader = BufReader::new(stream.expect("a connection"));
            let (mut line, mut length) = (String::new(), 0);
            while reader.read_line(&mut line).expect("a line") > 2 {
                if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                    length = value.trim().parse().expect("a number");
                }
                line.clear();
            }
            let mut body = vec![0; length];
            reader.read_exact(&mut body).expect("a body");
            let code = codes[tried.min(codes.len() - 1)];
            let answer = format!("HTTP/1.1 {code} so\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
            reader.get_mut().write_all(answer.as_bytes()).expect("a reader");
            if sender.send(serde_json::from_slice(&body).expect("JSON")).is_err() {
                return;
            }
        }
    });
    (url, posted)
}

#[test]
fn events_are_found_by_time_kind_and_container() {
    let scene = Scene::new();
    let _agent = scene.agent("policy = \"none\"\n");
    let _late = scene.start("late", &[("deadline", "10ms")], &["hold", "--for", "300ms"]);
    let _free = scene.start("free", &[("manage", "true")], &["hold", "--for", "300ms"]);
    let told = |words: &[&str]| lines(&scene.said(&[&["events", "--json", "--no-follow"], words].concat()));
    let count = |words: &[&str]| told(words).len();
    eventually("two tasks that are over", || (count(&["-f", "event=finished"]) == 2).then_some(()));
    let missed = told(&["--filter", "event=missed"]);
    assert_eq!((missed.len(), &missed[0]["name"]), (1, &"late".into()));
    assert_eq!(count(&["-f", "event=missed", "-f", "event=started", "-f", "container=late"]), 2);
    assert_eq!(count(&["-f", "container=free", "-f", "gpu=0"]), 2);
    assert_eq!(count(&["-f", "gpu=1"]), 0);
    let at = missed[0]["time"].as_str().expect("a time");
    assert!(told(&["--until", at]).iter().all(|event| event["event"] != "finished"));
    assert!(
        told(&["--since", at]).iter().all(|event| event["event"] != "started" || event["name"] == "free")
    );
    // Until a moment that has passed, the stream ends by itself, although it follows.
    assert!(
        lines(&scene.said(&["events", "--json", "--until", at]))
            .iter()
            .any(|event| event["event"] == "missed")
    );
    let wrong = scene.leeway(&["events", "--filter", "event=late"]).output().expect("a program");
    assert_eq!(wrong.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&wrong.stderr).contains("'late'"));
}

#[test]
fn a_miss_is_posted_again_until_it_is_taken_and_not_for_ever() {
    let scene = Scene::new();
    let (url, posted) = receiver(&[503, 503, 200]);
    let agent = scene.agent(&format!("policy = \"none\"\n[webhook]\nurl = \"{url}\"\n"));
    let _late = scene.start("late", &[("deadline", "10ms")], &["hold", "--for", "100ms"]);
    for _ in 0..3 {
        let post = posted.recv_timeout(POSTED_MAX).expect("a post");
        assert_eq!(
            (&post["event"], &post["name"], &post["node"]),
            (&"missed".into(), &"late".into(), &"here".into())
        );
        assert_eq!(post["text"], "late on here: its deadline of 10ms passed");
    }
    assert!(scene.get("/metrics").contains("leeway_webhooks_lost_total{node=\"here\"} 0\n"));
    agent.stop();
    assert!(posted.try_recv().is_err(), "what was taken is not posted again");
    let (url, posted) = receiver(&[400]);
    let _agent =
        scene.agent(&format!("policy = \"none\"\n[webhook]\nurl = \"{url}\"\nevents = [\"started\"]\n"));
    let _other = scene.start("other", &[("deadline", "1m")], &["hold", "--for", "100ms"]);
    assert_eq!(posted.recv_timeout(POSTED_MAX).expect("a post")["event"], "started");
    eventually("a count of what was lost", || {
        scene.get("/metrics").contains("leeway_webhooks_lost_total{node=\"here\"} 1\n").then_some(())
    });
}

#[test]
fn trace_and_picture_have_tasks_holds_and_deadlines() {
    let scene = Scene::new();
    let _agent = scene.agent("policy = \"fifo\"\n");
    let matmul = ["matmul", "--n", "8192", "--repeat", "3"];
    let _first = scene.start("first", &[("deadline", "1m")], &matmul);
    eventually("a first task", || (lines(&scene.said(&["tasks", "--json"])).len() == 1).then_some(()));
    let _second = scene.start("second", &[("deadline", "10ms")], &matmul);
    eventually("two tasks that are over", || {
        let tasks = lines(&scene.said(&["tasks", "--json"]));
        (tasks.iter().filter(|task| !task["end"].is_null()).count() == 2).then_some(())
    });
    let file = |name: &str| scene.place(name).display().to_string();
    scene.said(&["tasks", "--trace", &file("trace.json"), "--svg", &file("timeline.svg")]);
    let trace = std::fs::read_to_string(file("trace.json")).expect("a trace");
    let trace: Value = serde_json::from_str(&trace).expect("JSON");
    let events = trace["traceEvents"].as_array().expect("a list");
    let tasks = lines(&scene.said(&["tasks", "--json"]));
    for task in &tasks {
        let drawn = |event: &&Value| event["cat"] == "task" && event["args"]["process"] == task["pid"];
        let drawn = events.iter().find(drawn).expect("every task");
        assert_eq!((&drawn["dur"], &drawn["args"]["float_us"]), (&task["run_us"], &task["float_us"]));
    }
    // What the holds in the trace add up to is what the agent says.
    let held: i64 =
        events.iter().filter(|event| event["cat"] == "hold").filter_map(|event| event["dur"].as_i64()).sum();
    let said: i64 = tasks.iter().filter_map(|task| task["held_us"].as_i64()).sum();
    assert!(said > 0 && (held - said).abs() < 5_000, "{held} and {said}");
    let named = |name: &str| events.iter().any(|event| event["ph"] == "M" && event["args"]["name"] == name);
    assert!(named("GPU 0") && named("first") && named("second"));
    assert!(events.iter().any(|event| event["name"] == "deadline missed"));
    let picture = std::fs::read_to_string(file("timeline.svg")).expect("a picture");
    assert!(picture.starts_with("<svg") && picture.contains("second is held, late for"), "{picture}");
}
