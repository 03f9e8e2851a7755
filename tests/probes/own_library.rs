//! An image may bring a libcuda of its own: another file, which is found and probed, once.

use crate::daemon::shared;
use crate::errors::alone;
use crate::scene::{Running, Scene, eventually, eventually_or, seconds};
use crate::stand::{Box, remove};

/// How many links of the agent's are on any process: each file has one for calls, and one for returns.
fn links_for_everybody(agent: &Running) -> usize {
    let files = std::fs::read_dir(format!("/proc/{}/fdinfo", agent.pid())).expect("an agent");
    let texts = files.flatten().filter_map(|file| std::fs::read_to_string(file.path()).ok());
    let of_all = |text: &String| {
        text.contains("probe_multi") && text.lines().any(|line| line.split_whitespace().eq(["pid:", "0"]))
    };
    texts.filter(of_all).count()
}

#[test]
fn a_library_of_the_images_own_is_probed_and_only_once() {
    let _turn = alone();
    let scene = Scene::new(shared(), 1);
    let agent = scene.agent();
    let own = scene.place("own");
    std::fs::create_dir(&own).expect("a folder");
    std::fs::copy(scene.place("gpu/libcuda.so.1"), own.join("libcuda.so.1")).expect("a copy");
    let mount = format!("type=bind,source={},target=/own,readonly", own.display());
    let options = ["-dl", "1s", "--task", "burst", "--mount", &mount];
    let serve = |requests: &'static str| {
        let words = ["leeway", "work", "serve", "--driver", "/own", "--json", "--every", "50ms"];
        [words.as_slice(), &["--kernel-us", "1000", "--after", "2s", "--requests", requests]].concat()
    };
    let one = Box::start(&scene, "own-one", &options, &serve("100000"));
    eventually("request of a program with its own library", || {
        scene.tasks(&one.name).iter().any(|task| !task["end"].is_null() && task["hit"] == true).then_some(())
    });
    // The file is known now, so the next one is seen from its first call on.
    let two = Box::start(&scene, "own-two", &options, &serve("20"));
    let (printed, _) = scene.outcome(&two.name);
    let requests = printed[0]["requests"].as_array().expect("requests");
    // A program that loses its processor between its input and its launch has two for one request.
    let tasks = eventually_or("task for each request", || {
        let tasks = scene.tasks(&two.name);
        let all = tasks.len() >= requests.len() && tasks.iter().all(|task| !task["end"].is_null());
        if all { Ok(tasks) } else { Err(format!("{} of {}: {tasks:?}", tasks.len(), requests.len())) }
    });
    for request in requests {
        let start = seconds(&request["start"]);
        let is_near = |task: &serde_json::Value| (seconds(&task["start"]) - start).abs() < 0.05;
        assert!(tasks.iter().any(is_near), "no task for {request}");
    }
    // A link of a process that has ended looks like one for everybody, until it is taken out.
    eventually_or("two files' links, of calls and returns", || match links_for_everybody(&agent) {
        4 => Ok(()),
        links => Err(format!("{links} links")),
    });
    remove(&scene, &[&one, &two]);
    agent.stop();
}
