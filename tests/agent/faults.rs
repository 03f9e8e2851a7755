//! What is missing is said in one line, and the agent goes on with what it has, or ends with a documented code.

use crate::copy::copy_program;
use crate::daemon::{leeway_program, output, refused, shared, stderr, stdout};
use crate::scene::{Running, Scene, eventually};
use serde_json::Value;
use std::process::Command;

#[test]
fn without_a_gpu_the_agent_goes_on_and_without_docker_too() {
    let scene = Scene::new(shared(), 0);
    std::fs::create_dir(scene.place("gpu")).unwrap();
    let mut command = scene.leeway(["agent"]);
    command.env("DOCKER_HOST", "unix:///nowhere/docker.sock").arg("--driver").arg(scene.place("gpu"));
    let _agent = Running::start(command.stderr(scene.new_log()));
    let node = eventually("an agent", || scene.node());
    assert_eq!((&node["tier"], &node["docker"]), (&"none".into(), &false.into()));
    eventually("both lines", || (scene.log().matches("goes on without").count() == 2).then_some(()));
    // Said once, however long it lasts.
    std::thread::sleep(std::time::Duration::from_secs(3));
    assert_eq!(scene.log().matches("goes on without").count(), 2, "{}", scene.log());
}

#[test]
fn without_root_the_agent_watches_where_its_places_can_be_written() {
    use std::os::unix::fs::PermissionsExt;
    use std::os::unix::process::CommandExt;
    const NOBODY: u32 = 65_534;
    let scene = Scene::new(shared(), 1);
    let open = std::fs::Permissions::from_mode(0o777);
    std::fs::set_permissions(scene.places.path(), open).unwrap();
    // Where the program was built, others may not be let in.
    let program = scene.place("leeway");
    copy_program(&program);
    let as_nobody = |words: &[&str]| {
        let model = scene.leeway(words.iter().copied());
        let mut command = Command::new(&program);
        command.args(model.get_args()).arg("--driver").arg(scene.place("gpu")).uid(NOBODY).gid(NOBODY);
        command.envs(model.get_envs().filter_map(|(name, value)| Some((name, value?))));
        command
    };
    scene.config();
    // With the usual places: one line, what to do, and the documented code.
    let refusal = refused(as_nobody(&["agent"]).env("LEEWAY_SOCKET", "/run/leeway-of-root/agent.sock"));
    assert_eq!(refusal.status.code(), Some(1), "{}", stderr(&refusal));
    assert!(stderr(&refusal).contains("Permission denied") && stderr(&refusal).contains("help: "));
    let _agent = Running::start(as_nobody(&["agent"]).stderr(scene.new_log()));
    eventually("an agent that sees a GPU", || scene.node().filter(|node| node["tier"] == "polling"));
    let mut work = Command::new(leeway_program());
    work.args(["work", "matmul", "--n", "1024"]).env("LD_LIBRARY_PATH", scene.place("gpu"));
    output(&mut work);
    eventually("a task", || {
        let tasks = stdout(&output(&mut scene.leeway(["tasks", "--json"])));
        let task: Value = serde_json::from_str(tasks.lines().next()?).unwrap();
        (!task["end"].is_null()).then_some(())
    });
}

#[test]
fn a_gpu_that_is_lost_while_it_runs_comes_back() {
    let scene = Scene::new(shared(), 2);
    let _agent = scene.agent();
    let gpu = |word: &str| {
        output(scene.leeway(["gpu", word, "--device", "1", "--dir"]).arg(scene.place("gpu")));
    };
    let lost = |number: usize| scene.node().map(|node| node["gpus"][number]["lost"] == true);
    gpu("lose");
    eventually("a lost GPU", || lost(1).filter(|lost| *lost));
    assert_eq!(lost(0), Some(false));
    let name = format!("other-gpu-{}", std::process::id());
    scene.start(0, &["--name", &name, "-dl", "60s"], &["leeway", "work", "matmul", "--n", "1024"]);
    scene.finished(&name, 1);
    gpu("recover");
    eventually("a GPU that is back", || lost(1).filter(|lost| !lost));
    scene.remove(&name);
}

#[test]
fn a_simulated_driver_without_its_device_is_a_library_without_a_driver() {
    let scene = Scene::new(shared(), 1);
    let elsewhere = scene.place("no-device");
    std::fs::create_dir(&elsewhere).unwrap();
    std::fs::copy(scene.place("gpu/libnvidia-ml.so.1"), elsewhere.join("libnvidia-ml.so.1")).unwrap();
    let doctor = scene.leeway(["doctor", "--json", "--driver"]).arg(&elsewhere).output().unwrap();
    assert_eq!(doctor.status.code(), Some(3), "{}", stderr(&doctor));
    let report: Value = serde_json::from_str(&stdout(&doctor)).unwrap();
    let check = |name: &str| {
        let checks = report["checks"].as_array().unwrap();
        checks.iter().find(|check| check["name"] == name).unwrap().clone()
    };
    assert_eq!((&check("nvml")["ok"], &check("driver")["ok"]), (&true.into(), &false.into()));
    assert!(check("driver")["help"].is_string());
    let agent = Running::start(scene.leeway(["agent", "--driver"]).arg(&elsewhere).stderr(scene.new_log()));
    eventually("an agent", || scene.node().filter(|node| node["tier"] == "none"));
    eventually("a line", || scene.log().contains("but no driver is loaded; load it with").then_some(()));
    agent.stop();
    let doctor = output(scene.leeway(["doctor", "--json", "--driver"]).arg(scene.place("gpu")));
    let report: Value = serde_json::from_str(&stdout(&doctor)).unwrap();
    assert_eq!(report["tier"], "polling");
}

#[test]
fn a_second_agent_ends_with_its_own_code() {
    let scene = Scene::new(shared(), 1);
    let _agent = scene.agent();
    let second = refused(scene.leeway(["agent", "--driver"]).arg(scene.place("gpu")));
    assert_eq!(second.status.code(), Some(3));
    assert!(stderr(&second).contains("already answers"), "{}", stderr(&second));
    assert!(scene.node().is_some());
}

#[test]
fn a_socket_that_cannot_be_had_is_one_line_and_help() {
    let scene = Scene::new(shared(), 0);
    let refusal = refused(scene.leeway(["agent", "--driver", "/nowhere"]).env("LEEWAY_SOCKET", "/proc/x/s"));
    assert_eq!(refusal.status.code(), Some(1));
    assert!(stderr(&refusal).contains("/proc/x/s") && stderr(&refusal).contains("help: "));
}

#[test]
fn a_configuration_is_checked_and_read_again() {
    let scene = Scene::new(shared(), 1);
    let check = ["agent", "--check-config"];
    output(&mut scene.leeway(check));
    let file = scene.config();
    std::fs::write(&file, "polcy = \"none\"\n").unwrap();
    let refusal = refused(&mut scene.leeway(check));
    assert_eq!(refusal.status.code(), Some(2));
    assert!(stderr(&refusal).contains("'polcy'") && stderr(&refusal).contains("'policy'"));
    std::fs::write(&file, "policy = \"fifo\"\n").unwrap();
    let agent = scene.agent();
    assert_eq!(scene.node().unwrap()["policy"], "fifo");
    std::fs::write(&file, "policy = \"least-slack\"\n").unwrap();
    agent.signal(rustix::process::Signal::HUP);
    eventually("new policy", || scene.node().filter(|node| node["policy"] == "least-slack"));
    std::fs::write(&file, "nonsense").unwrap();
    agent.signal(rustix::process::Signal::HUP);
    eventually("complaint", || scene.log().contains("stays as it was").then_some(()));
    assert_eq!(scene.node().unwrap()["policy"], "least-slack");
    assert!(agent.pid() > 0);
    agent.stop();
    assert!(!scene.place("run/agent.sock").exists());
    let nobody = refused(&mut scene.leeway(["tasks"]));
    assert!(stderr(&nobody).contains("no agent answers") && stderr(&nobody).contains("help: "));
}
