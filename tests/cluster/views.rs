//! What a master shows of its cluster: a frame, a terminal, figures; and what it shows on TCP only to those who may see it.

use crate::hall::{Hall, Running, eventually, failed, leeway, succeeded};
use crate::tmux::Tmux;
use serde_json::Value;

fn two_nodes() -> (Hall, Vec<Running>) {
    Hall::with_nodes(&[("small", "8GiB"), ("large", "16GiB")])
}

/// The nodes as they stand in a text, from above.
fn order(text: &str) -> Vec<String> {
    let first = text.lines().filter_map(|line| line.split_whitespace().find(|word| *word != "▌"));
    first.filter(|word| ["small", "large"].contains(word)).map(str::to_owned).collect()
}

fn ranked(hall: &Hall) -> Vec<String> {
    hall.nodes().into_iter().map(|node| node.node).collect()
}

#[test]
fn one_frame_has_the_ranked_nodes_and_what_was_placed() {
    let (hall, _running) = two_nodes();
    let placed = hall.find_place();
    let frame = eventually("a frame in the order of the node list", || {
        let before = ranked(&hall);
        let frame = succeeded(hall.leeway(&["top", "--once", "--master", "--theme", "ascii"]));
        (order(&frame) == before && ranked(&hall) == before).then_some(frame)
    });
    assert!(frame.is_ascii() && frame.contains("2 agents, 2 GPUs") && frame.contains("1 placed"), "{frame}");
    assert!(frame.contains("8.0 GiB of 8.0 GiB") && frame.contains("16.0 GiB of 16.0 GiB"), "{frame}");
    let news = format!("placed  {} on {}: in ", placed.placement, placed.node);
    assert!(frame.contains(&news) && frame.contains(&placed.reason), "{frame}");
    // The socket alone says whom it asks, as with `leeway events`.
    let socket = hall.socket().display().to_string();
    let other = succeeded(hall.leeway(&["top", "--once", "--theme", "ascii", "--socket", &socket]));
    assert!(other.contains("2 agents, 2 GPUs"), "{other}");
    let picture = hall.place("top.svg").display().to_string();
    succeeded(hall.leeway(&["top", "--master", "--svg", &picture]));
    assert!(std::fs::read_to_string(&picture).expect("a picture").contains("small"));
    let told = hall.leeway(&["events", "--master", "--json", "--no-follow", "--filter", "event=placed"]);
    let told: Value = serde_json::from_str(&succeeded(told)).expect("one event");
    assert_eq!((told["event"].as_str(), told["node"].as_str()), (Some("placed"), Some(placed.node.as_str())));
    let moved = hall.leeway(&["events", "--master", "--no-follow", "--filter", "event=moved"]);
    assert_eq!(succeeded(moved), "");
    let mut nobody = leeway();
    nobody.args(["top", "--once", "--master"]).env("LEEWAY_MASTER_SOCKET", "/nowhere/master.sock");
    let refused = failed(nobody);
    assert!(refused.contains("no master answers at /nowhere/master.sock"), "{refused}");
}

#[test]
fn a_terminal_shows_who_leaves_and_comes_back_with_its_master() {
    let (mut hall, mut running) = two_nodes();
    let line = format!(
        "LEEWAY_MASTER_SOCKET={} {} top --master",
        hall.socket().display(),
        env!("CARGO_BIN_EXE_leeway")
    );
    let tmux = Tmux::start(hall.places.path(), (130, 20), &line);
    tmux.until("two nodes that are ready", |screen| screen.matches(" ready ").count() == 2);
    let placed = hall.find_place();
    tmux.until("word of a placement", |screen| screen.contains(&format!(" on {}: in ", placed.node)));
    tmux.keys(&["/", "l", "a", "r", "Enter"]);
    tmux.until("filter", |screen| order(screen) == ["large"]);
    tmux.keys(&["Down", "Enter"]);
    tmux.until("explanation", |screen| screen.contains("It takes another container."));
    tmux.keys(&["x", "Escape"]);
    // The agent of `large` dies.
    running.pop();
    tmux.until("silent node, which comes last", |screen| {
        order(screen) == ["small", "large"] && screen.contains("its agent says nothing")
    });
    hall.kill_master();
    tmux.until("word of the loss", |screen| screen.contains("trying again") && screen.contains("small"));
    hall.start_master();
    tmux.until("nodes of the next master", |screen| {
        order(screen) == ["small"] && screen.contains(" ready ") && !screen.contains("trying again")
    });
    tmux.keys(&["q"]);
    eventually("an end", || tmux.has_ended().then_some(()));
}

#[test]
fn over_tcp_a_master_is_looked_at_and_no_more() {
    let (hall, _running) = two_nodes();
    hall.find_place();
    let url = |path: &str| format!("http://{}{path}", hall.http);
    let get = |path: &str| ureq::get(url(path)).call().expect("an answer").body_mut().read_to_string();
    let figures = get("/metrics").expect("text");
    for line in ["leeway_placement_seconds_count 1\n", "leeway_placement_seconds{quantile=\"0.99\"} 0.0"] {
        assert!(figures.contains(line), "{line} in\n{figures}");
    }
    assert_eq!(get("/v1/access").expect("JSON"), r#"{"may_change":false}"#);
    let agent: ureq::Agent = ureq::Agent::config_builder().http_status_as_error(false).build().into();
    let post = |path: &str| {
        let sent = agent.post(url(path)).header("Content-Type", "application/json").send("{}");
        sent.expect("an answer").status().as_u16()
    };
    assert_eq!((post("/v1/place"), post("/v1/placements"), post("/v1/services")), (200, 404, 404));
    let named = agent.get(url("/v1/nodes")).header("Host", "example.org").call().expect("an answer");
    assert_eq!(named.status().as_u16(), 403, "a name that was made to mean this machine");
    let mut open = leeway();
    open.args(["master", "--engine", "none", "--http", "0.0.0.0:0", "--state-dir"]).arg(hall.place("master"));
    let refused = failed(open);
    assert!(refused.contains("not on loopback") && refused.contains("--http-token-file"), "{refused}");
}
