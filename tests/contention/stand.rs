//! Who stands, as the kernel says: not as the agent believes.

use crate::daemon::{output, stdout};
use crate::scene::{Scene, eventually};
use node::actuator::freezer::Freezer;
use serde_json::Value;

/// A container of a test, and its cgroup.
pub(crate) struct Box {
    pub(crate) name: String,
    pub(crate) freezer: Freezer,
}

impl Box {
    /// Starts a container that runs kernel after kernel, with a deadline far away.
    pub(crate) fn busy(scene: &Scene, name: &str, options: &[&str]) -> Self {
        let words = ["leeway", "work", "batch", "--for", "10m"];
        Self::start(scene, name, &[&["-dl", "1h"], options].concat(), &words)
    }

    pub(crate) fn start(scene: &Scene, name: &str, options: &[&str], words: &[&str]) -> Self {
        let name = format!("{name}-{}", std::process::id());
        let id = scene.start(0, &[&["--name", &name], options].concat(), words);
        let pid = output(&mut scene.daemon.docker(["inspect", "--format", "{{.State.Pid}}", &id]));
        let freezer =
            Freezer::of(stdout(&pid).parse().expect("a pid"), &id).expect("a cgroup with a freezer");
        Self { name, freezer }
    }

    /// Whether everything in it stands; one that is gone does not.
    pub(crate) fn stands(&self) -> bool {
        self.freezer.is_frozen().unwrap_or(false)
    }

    /// Its state, as `leeway ps --json` has it.
    pub(crate) fn state(&self, scene: &Scene) -> String {
        let filter = format!("name={}", self.name);
        let ps = stdout(&output(&mut scene.leeway(["ps", "--json", "--filter", &filter])));
        let line: Value = serde_json::from_str(&ps).expect("a container");
        line["state"].as_str().unwrap_or_default().to_owned()
    }
}

pub(crate) fn all_but_one_stand(boxes: &[Box]) {
    eventually("all but one that stand", || (standing(boxes) == boxes.len() - 1).then_some(()));
}

pub(crate) fn nobody_stands(boxes: &[Box]) {
    eventually("everybody running", || (standing(boxes) == 0).then_some(()));
}

pub(crate) fn standing(boxes: &[Box]) -> usize {
    boxes.iter().filter(|one| one.stands()).count()
}

pub(crate) fn remove(scene: &Scene, boxes: &[Box]) {
    let names = boxes.iter().map(|one| one.name.as_str());
    output(&mut scene.daemon.docker(["rm", "-f"].into_iter().chain(names)));
}

/// What happened so far, in order.
pub(crate) fn events(scene: &Scene) -> Vec<Value> {
    let told = stdout(&output(&mut scene.leeway(["events", "--json", "--no-follow"])));
    told.lines().map(|line| serde_json::from_str(line).expect("an event")).collect()
}

/// The names in events of one kind, in order, each the first time.
pub(crate) fn named(events: &[Value], kind: &str) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for event in events.iter().filter(|event| event["event"] == kind) {
        let name = event["name"].as_str().unwrap_or_default();
        if !names.iter().any(|known| known == name) {
            names.push(name.to_owned());
        }
    }
    names
}
