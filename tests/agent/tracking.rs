//! Every task's start, end, float and hit are what the program and its parent recorded.

use crate::daemon::{leeway_program, output, shared, stdout};
use crate::scene::{END_ERROR_S_MAX, START_ERROR_S_MAX, Scene, eventually, seconds};
use serde_json::Value;
use std::process::Command;

/// Compares a finished task with what its program printed and when its container ended.
fn check(task: &Value, program: &Value, ended: f64) {
    let (start, end) = (seconds(&task["start"]), seconds(&task["end"]));
    let late = start - seconds(&program["init"]);
    assert!((-0.001..START_ERROR_S_MAX).contains(&late), "start is off by {late} s: {task} {program}");
    assert!(end >= seconds(&program["end"]) - 0.001, "it ended before the program did: {task} {program}");
    assert!(end <= ended + 0.05, "it ended after its container: {task} {ended}");
    assert!(ended - end < END_ERROR_S_MAX, "its container ended {} s later: {task}", ended - end);
    let run_us = task["run_us"].as_i64().expect("a run time");
    assert!((run_us as f64 / 1e6 - (end - start)).abs() < 0.001, "{task}");
    assert_eq!(task["approximate"], false, "{task}");
    if let Some(deadline_us) = task["deadline_us"].as_i64() {
        assert_eq!(task["float_us"].as_i64(), Some(deadline_us - run_us), "{task}");
        assert_eq!(task["hit"].as_bool(), Some(run_us <= deadline_us), "{task}");
    }
}

#[test]
fn ten_containers_whose_tasks_overlap_on_two_gpus() {
    let scene = Scene::new(shared(), 2);
    let _agent = scene.agent();
    let names: Vec<String> = (0..10).map(|n| format!("ten-{n}-{}", std::process::id())).collect();
    for (n, name) in names.iter().enumerate() {
        let deadline = if n % 3 == 0 { "500ms" } else { "60s" };
        let words = ["leeway", "work", "matmul", "--n", "4096", "--repeat", "8", "--json"];
        scene.start(n % 2, &["--name", name, "-dl", deadline], &words);
    }
    for (n, name) in names.iter().enumerate() {
        let (printed, ended) = scene.outcome(name);
        let tasks = scene.finished(name, 1);
        check(&tasks[0], &printed[0], ended);
        assert_eq!((&tasks[0]["name"], &tasks[0]["mode"]), (&name.as_str().into(), &"process".into()));
        assert_eq!(tasks[0]["gpu"], n % 2);
        assert!(tasks[0]["gpu_memory_bytes"].as_u64().unwrap() >= 3 * 4096 * 4096 * 4, "{}", tasks[0]);
        scene.remove(name);
    }
}

#[test]
fn a_miss_is_told_when_the_deadline_passes_and_not_at_the_end() {
    let scene = Scene::new(shared(), 1);
    let _agent = scene.agent();
    let name = format!("late-{}", std::process::id());
    scene.start(0, &["--name", &name, "-dl", "300ms"], &["leeway", "work", "hold", "--for", "5s"]);
    let missed = eventually("a miss", || {
        let told = stdout(&output(&mut scene.leeway(["events", "--json", "--no-follow", "--since", "1m"])));
        let events = told.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        events.into_iter().find(|event| event["event"] == "missed" && event["name"] == name.as_str())
    });
    let running = scene.running(&name);
    assert_eq!((&running["hit"], &running["end"]), (&false.into(), &Value::Null));
    let after = seconds(&missed["time"]) - seconds(&running["start"]);
    assert!((after - 0.3).abs() < 0.01, "{after}");
    let ps = output(&mut scene.leeway(["ps", "--json", "--filter", &format!("name={name}")]));
    let line: Value = serde_json::from_str(&stdout(&ps)).unwrap();
    assert_eq!((&line["state"], &line["gpu"]), (&"running".into(), &0.into()));
    assert!(line["float_us"].as_i64().unwrap() < 0);
    // The table says the same, without the agent.
    let table = stdout(&output(&mut scene.leeway(["tasks", "--shm", "--json", &name])));
    let table: Value = serde_json::from_str(&table).unwrap();
    assert_eq!((&table["pid"], &table["hit"]), (&running["pid"], &false.into()));
    // Killed in the middle, it ends there and then; removed, its container is forgotten.
    output(&mut scene.daemon.docker(["kill", &name]));
    let (_, ended) = scene.outcome(&name);
    let task = &scene.finished(&name, 1)[0];
    assert!((ended - seconds(&task["end"])).abs() < END_ERROR_S_MAX, "{task} {ended}");
    scene.remove(&name);
    eventually("container that is gone", || {
        let table = stdout(&output(&mut scene.leeway(["tasks", "--shm", &name])));
        (table.lines().count() == 1).then_some(())
    });
}

#[test]
fn a_container_that_is_removed_takes_its_task_with_it() {
    let scene = Scene::new(shared(), 1);
    let _agent = scene.agent();
    let name = format!("removed-{}", std::process::id());
    scene.start(0, &["--name", &name, "-dl", "60s"], &["leeway", "work", "hold", "--for", "60s"]);
    scene.running(&name);
    scene.remove(&name);
    let task = &scene.finished(&name, 1)[0];
    assert!(task["run_us"].as_i64().unwrap() < 30_000_000, "{task}");
}

#[test]
fn each_process_of_a_container_has_a_task_of_its_own() {
    let scene = Scene::new(shared(), 1);
    let _agent = scene.agent();
    let name = format!("several-{}", std::process::id());
    let script = "leeway work matmul --n 2048 --json & leeway work matmul --n 4096 --json & wait";
    scene.start(0, &["--name", &name, "-dl", "60s"], &["sh", "-c", script]);
    let (printed, ended) = scene.outcome(&name);
    let tasks = scene.finished(&name, 2);
    assert_ne!(tasks[0]["pid"], tasks[1]["pid"]);
    for task in &tasks {
        let started = |program: &&Value| (seconds(&program["init"]) - seconds(&task["start"])).abs();
        let program = printed.iter().min_by(|a, b| started(a).total_cmp(&started(b))).unwrap();
        assert!(started(&program) < START_ERROR_S_MAX, "{task} {printed:?}");
        assert!(seconds(&task["end"]) <= ended + 0.05, "{task}");
    }
    scene.remove(&name);
}

#[test]
fn in_memory_mode_a_task_is_as_long_as_its_memory() {
    let scene = Scene::new(shared(), 1);
    let _agent = scene.agent();
    let name = format!("memory-{}", std::process::id());
    let words = ["leeway", "work", "matmul", "--n", "8192", "--repeat", "4", "--json"];
    scene.start(0, &["--name", &name, "-dl", "60s", "--task", "memory"], &words);
    let (printed, _) = scene.outcome(&name);
    let task = &scene.finished(&name, 1)[0];
    assert_eq!(task["mode"], "memory");
    let (start, end) = (seconds(&task["start"]), seconds(&task["end"]));
    assert!((start - seconds(&printed[0]["allocated"])).abs() < START_ERROR_S_MAX, "{task} {printed:?}");
    assert!((end - seconds(&printed[0]["end"])).abs() < START_ERROR_S_MAX, "{task} {printed:?}");
    scene.remove(&name);
}

#[test]
fn a_deadline_that_is_set_counts_for_the_task_that_runs() {
    let scene = Scene::new(shared(), 1);
    let _agent = scene.agent();
    let name = format!("changed-{}", std::process::id());
    scene.start(0, &["--name", &name, "-dl", "60s"], &["leeway", "work", "hold", "--for", "60s"]);
    assert_eq!(scene.running(&name)["deadline_us"], 60_000_000);
    output(&mut scene.leeway(["deadline", "set", &name, "90s"]));
    eventually("new deadline", || (scene.running(&name)["deadline_us"] == 90_000_000).then_some(()));
    output(&mut scene.leeway(["deadline", "clear", &name]));
    eventually("old deadline", || (scene.running(&name)["deadline_us"] == 60_000_000).then_some(()));
    scene.remove(&name);
}

#[test]
fn a_pid_that_is_used_again_is_another_process() {
    let scene = Scene::new(shared(), 1);
    let _agent = scene.agent();
    let work = |pid: Option<u32>| {
        if let Some(pid) = pid {
            // The next process gets the number after this one, unless another is quicker.
            std::fs::write("/proc/sys/kernel/ns_last_pid", (pid - 1).to_string()).unwrap();
        }
        let mut command = Command::new(leeway_program());
        command.args(["work", "matmul", "--n", "1024"]).env("LD_LIBRARY_PATH", scene.place("gpu"));
        let mut child = command.stdout(std::process::Stdio::null()).spawn().unwrap();
        child.wait().unwrap();
        child.id()
    };
    let again = eventually("pid used again", || {
        let pid = work(None);
        (work(Some(pid)) == pid).then_some(pid)
    });
    eventually("two tasks with one pid", || {
        let tasks = stdout(&output(&mut scene.leeway(["tasks", "--json"])));
        let tasks = tasks.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        let same: Vec<Value> = tasks.filter(|task| task["pid"] == again && !task["end"].is_null()).collect();
        assert!(same.iter().all(|task| task["container"].is_null()), "{same:?}");
        (same.len() >= 2 && seconds(&same[0]["end"]) <= seconds(&same[1]["start"])).then_some(())
    });
}

#[test]
fn a_plain_process_in_a_labelled_cgroup_has_a_deadline() {
    let scene = Scene::new(shared(), 1);
    let _agent = scene.agent();
    let root = std::path::Path::new("/sys/fs/cgroup");
    let root = if root.join("freezer").is_dir() { root.join("freezer") } else { root.to_owned() };
    let name = format!("leeway-plain-{}", std::process::id());
    let cgroup = root.join(&name);
    std::fs::create_dir(&cgroup).unwrap();
    // Older kernels have only the trusted kind on cgroup version 1.
    let label = |kind: &str| {
        let flags = rustix::fs::XattrFlags::empty();
        rustix::fs::setxattr(&cgroup, format!("{kind}.leeway.deadline"), b"3s", flags)
    };
    label("user").or_else(|_| label("trusted")).unwrap();
    let mut work = Command::new("sh");
    work.args(["-c", "echo $$ >\"$0/cgroup.procs\" && exec \"$1\" work matmul --n 1024"]);
    work.arg(&cgroup).arg(leeway_program()).env("LD_LIBRARY_PATH", scene.place("gpu"));
    output(&mut work);
    let task = &scene.finished(&name, 1)[0];
    std::fs::remove_dir(&cgroup).unwrap();
    assert_eq!((&task["deadline_us"], &task["hit"]), (&3_000_000.into(), &true.into()));
    assert_eq!(task["container"], format!("/{name}"));
}

#[test]
fn a_server_in_process_mode_is_told_once_that_burst_would_fit() {
    let scene = Scene::new(shared(), 1);
    let _agent = scene.agent();
    let name = format!("server-{}", std::process::id());
    // NVML is asked once a second what a process did, so the gaps are a few of those long.
    let words = ["leeway", "work", "serve", "--requests", "7", "--every", "3500ms", "--kernel-us", "300000"];
    scene.start(0, &["--name", &name, "-dl", "500ms"], &words);
    let suggested = || {
        let told = stdout(&output(&mut scene.leeway(["events", "--json", "--no-follow", "--since", "1h"])));
        let events = told.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        events.filter(|event| event["event"] == "suggested").collect::<Vec<_>>()
    };
    let first = eventually("suggestion", || suggested().pop());
    assert_eq!(first["name"], name.as_str());
    assert!(first["reason"].as_str().unwrap().contains("--task burst"), "{first}");
    scene.finished(&name, 1);
    assert_eq!(suggested().len(), 1);
    scene.remove(&name);
}

#[test]
fn a_start_between_two_looks_that_are_far_apart_is_seen() {
    let scene = Scene::new(shared(), 1);
    let _agent = scene.agent_unready(&["--poll-ms", "800"]);
    eventually("an agent that sees a GPU", || scene.node().filter(|node| node["tier"] == "polling"));
    let mut work = Command::new(leeway_program());
    work.args(["work", "hold", "--for", "2s"]).env("LD_LIBRARY_PATH", scene.place("gpu"));
    output(&mut work);
    let task = eventually("a task", || {
        let tasks = stdout(&output(&mut scene.leeway(["tasks", "--json"])));
        let task: Value = serde_json::from_str(tasks.lines().next()?).unwrap();
        (!task["end"].is_null()).then_some(task)
    });
    assert_eq!(task["approximate"], false, "late, but not unknown: {task}");
}
