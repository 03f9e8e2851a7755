//! Who stands, as the kernel says: not as the agent believes.

use crate::daemon::{output, stdout};
use crate::scene::{Scene, eventually};
use node::actuator::freezer::Freezer;
use serde_json::Value;
use std::time::Duration;

/// A container of a test: its name, its first process, and its cgroup.
pub(crate) struct Box {
    pub(crate) name: String,
    pub(crate) pid: u32,
    pub(crate) freezer: Freezer,
}

impl Box {
    pub(crate) fn start(scene: &Scene, name: &str, options: &[&str], words: &[&str]) -> Self {
        let name = format!("{name}-{}", std::process::id());
        let id = scene.start(0, &[&["--name", &name], options].concat(), words);
        let pid = output(&mut scene.daemon.docker(["inspect", "--format", "{{.State.Pid}}", &id]));
        let pid = stdout(&pid).parse().expect("a pid");
        Self { name, pid, freezer: Freezer::of(pid, &id).expect("a cgroup with a freezer") }
    }

    /// Whether its first process stands at its gate, whatever its cgroup does.
    pub(crate) fn stands(&self) -> bool {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.pid)).unwrap_or_default();
        stat.rsplit_once(')').is_some_and(|(_, rest)| rest.trim_start().starts_with('T'))
    }

    pub(crate) fn stands_after(&self, a_while: Duration) -> bool {
        std::thread::sleep(a_while);
        self.stands()
    }

    pub(crate) fn is_frozen(&self) -> bool {
        self.freezer.is_frozen().unwrap_or(false)
    }

    pub(crate) fn comes_to_stand(&self) {
        eventually(&format!("{} at its gate", self.name), || self.stands().then_some(()));
    }

    pub(crate) fn comes_to_run(&self) {
        let runs = || (!self.stands() && !self.is_frozen()).then_some(());
        eventually(&format!("{} that runs", self.name), runs);
    }
}

/// Two that launch without end: the first is due first, so the second stands at its gate.
pub(crate) fn one_runs_and_one_stands(scene: &Scene, name: &str) -> (Box, Box) {
    let words = ["leeway", "work", "batch", "--kernel-us", "1000", "--for", "10m"];
    let first = Box::start(scene, &format!("{name}-first"), &["-dl", "30m"], &words);
    let second = Box::start(scene, &format!("{name}-second"), &["-dl", "1h"], &words);
    second.comes_to_stand();
    assert!(!first.stands());
    (first, second)
}

/// Whether a process stands, again and again.
pub(crate) fn looks(of: &Box) -> impl Iterator<Item = bool> {
    (0..100).map(|_| of.stands_after(Duration::from_millis(2)))
}

/// The bound of what is in flight lets a process go and stops it soon after; a hold would last.
pub(crate) fn stands_again_and_again(one: &Box) {
    eventually("process that stands again and again", || {
        let stood = looks(one).filter(|stands| *stands).count();
        (30..100).contains(&stood).then_some(())
    });
}

pub(crate) fn remove(scene: &Scene, boxes: &[&Box]) {
    let names = boxes.iter().map(|one| one.name.as_str());
    output(&mut scene.daemon.docker(["rm", "-f"].into_iter().chain(names)));
}

/// What happened so far, in order.
pub(crate) fn events(scene: &Scene) -> Vec<Value> {
    let told = stdout(&output(&mut scene.leeway(["events", "--json", "--no-follow"])));
    told.lines().map(|line| serde_json::from_str(line).expect("an event")).collect()
}

pub(crate) fn now() -> f64 {
    jiff::Timestamp::now().as_microsecond() as f64 / 1e6
}
