//! One request of a long-lived server is one task.

use crate::daemon::shared;
use crate::errors::{alone, check};
use crate::scene::{Scene, eventually_or, seconds};
use serde_json::Value;

const REQUESTS: usize = 200;
/// Requests that the program's own record has further apart than this are two tasks for sure; the agent's gap is 2 ms.
const APART_S: f64 = 0.003;
/// And a request is one task for sure if its launch follows its input sooner than this.
const TOGETHER_S: f64 = 0.001;

/// How many tasks the program's requests are at least, and at most. On a busy machine some follow each other at once, and some
/// programs lose their processor between input and launch.
pub(crate) fn expected(requests: &[Value]) -> (usize, usize) {
    let apart = requests.windows(2).filter(|two| are_apart(&two[0], &two[1])).count();
    (1 + apart, requests.len() + requests.iter().filter(|request| is_parted(request)).count())
}

fn are_apart(before: &Value, after: &Value) -> bool {
    seconds(&after["start"]) - seconds(&before["end"]) > APART_S
}

fn is_parted(request: &Value) -> bool {
    seconds(&request["launch"]) - seconds(&request["start"]) > TOGETHER_S
}

/// The requests that are a task each for sure: what others became says nothing of when they began and ended.
fn lone(requests: &[Value]) -> impl Iterator<Item = &Value> {
    requests.iter().enumerate().filter_map(|(number, request)| {
        let (before, after) = (&requests[..number], &requests[number + 1..]);
        let apart = before.last().is_none_or(|before| are_apart(before, request))
            && after.first().is_none_or(|after| are_apart(request, after));
        (apart && !is_parted(request)).then_some(request)
    })
}

/// The requests during which no task began, or more than one, with what was there.
fn differences(requests: &[Value], tasks: &[Value]) -> String {
    let spans: Vec<(f64, Option<f64>)> = tasks
        .iter()
        .map(|task| (seconds(&task["start"]), task["end"].as_str().map(|_| seconds(&task["end"]))))
        .collect();
    let mut said = String::new();
    let mut from = f64::MIN;
    for (number, request) in requests.iter().enumerate() {
        let (start, end) = (seconds(&request["start"]), seconds(&request["end"]));
        let begun: Vec<_> = spans.iter().filter(|span| span.0 > from && span.0 <= end).collect();
        if begun.len() != 1 {
            said += &format!("request {number}, {start:.6} to {end:.6} ({request}), has {begun:.6?}\n");
            let near = spans.iter().filter(|span| (span.0 - start).abs() < 0.2);
            said += &format!("  near: {:.6?}\n", near.collect::<Vec<_>>());
        }
        from = end;
    }
    said
}

#[test]
fn two_hundred_requests_are_two_hundred_tasks() {
    let _turn = alone();
    let scene = Scene::new(shared(), 1);
    let _agent = scene.agent();
    let name = "requests".to_owned();
    let number = REQUESTS.to_string();
    // The first comes when the probes are long there.
    let script = ["leeway", "work", "serve", "--after", "2s", "--requests", &number, "--kernel-us", "2000"];
    let words = [script.as_slice(), &["--every", "40ms", "--json"]].concat();
    scene.start(0, &["--name", &name, "-dl", "25ms", "--task", "burst"], &words);
    let (printed, _) = scene.outcome(&name);
    let requests = printed[0]["requests"].as_array().expect("requests");
    let (least, most) = expected(requests);
    let mut tasks = eventually_or("a task for each request", || {
        let tasks = scene.tasks(&name);
        let ended = tasks.iter().all(|task| !task["end"].is_null());
        if ended && (least..=most).contains(&tasks.len()) {
            return Ok(tasks);
        }
        let differences = differences(requests, &tasks);
        Err(format!("but {} of {least} to {most}; {differences}\nagent: {}", tasks.len(), scene.log()))
    });
    eprintln!(
        "{} requests, {} tasks; between {least} and {most} by the program's record",
        requests.len(),
        tasks.len()
    );
    tasks.sort_by(|a, b| seconds(&a["start"]).total_cmp(&seconds(&b["start"])));
    let (mut starts, mut ends) = (Vec::new(), Vec::new());
    for request in lone(requests) {
        let (start, end) = (seconds(&request["start"]), seconds(&request["end"]));
        let nearest = |task: &&Value| (seconds(&task["start"]) - start).abs();
        let task = tasks.iter().min_by(|a, b| nearest(a).total_cmp(&nearest(b))).expect("a task");
        starts.push(nearest(&task));
        ends.push((seconds(&task["end"]) - end).abs());
    }
    for task in &tasks {
        let run_us = task["run_us"].as_i64().expect("a run time");
        assert_eq!((&task["mode"], &task["deadline_us"]), (&"burst".into(), &25_000.into()), "{task}");
        assert_eq!(task["float_us"], 25_000 - run_us, "{task}");
        assert_eq!(task["hit"], run_us <= 25_000, "{task}");
        assert_eq!(task["approximate"], false, "{task}");
    }
    assert!(starts.len() > REQUESTS / 10, "a machine too busy to tell: {} of {REQUESTS}", starts.len());
    check("start of a request", starts);
    check("end of a request", ends);
    scene.remove(&name);
}
