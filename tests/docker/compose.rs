//! The Compose file of the documentation works as it is printed there.

use crate::daemon::{IMAGE, folder, output, shared, stdout};
use std::process::Command;

/// The first example of the page.
fn documented() -> &'static str {
    let page = include_str!("../../docs/compose.md");
    page.split("```yaml\n").nth(1).and_then(|rest| rest.split("```").next()).expect("an example")
}

/// What this machine lacks: the images and a network. Services and labels stay as documented.
fn for_this_machine() -> String {
    let service = |name: &str| {
        format!("  {name}:\n    image: {IMAGE}\n    command: sleep 1000\n    network_mode: none\n")
    };
    format!("version: \"2.4\"\nservices:\n{}{}{}", service("infer"), service("train"), service("web"))
}

#[test]
fn the_documented_compose_file_gives_its_services_their_deadlines() {
    let (daemon, project) = (shared(), folder());
    let file = |name: &str, text: &str| {
        let path = project.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.to_string_lossy().into_owned()
    };
    let files = [file("compose.yaml", documented()), file("machine.yaml", &for_this_machine())];
    let compose = |words: &[&str]| {
        let options = ["-p", "leeway-documented", "-f", &files[0], "-f", &files[1]];
        let mut command = compose_program();
        let daemon = daemon.program("true", []);
        command.args(options).args(words);
        command.envs(daemon.get_envs().filter_map(|(name, value)| Some((name, value?))));
        command
    };
    output(&mut compose(&["up", "-d"]));
    let words = [
        "ps",
        "--filter",
        "label=com.docker.compose.project=leeway-documented",
        "--format",
        "{{.Label \"com.docker.compose.service\"}} {{.Deadline}} {{.Mode}}",
    ];
    let shown = stdout(&output(&mut daemon.leeway(words)));
    output(&mut compose(&["down", "-t", "0"]));
    let mut lines: Vec<&str> = shown.lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, ["infer 250ms burst", "train 1m30s process", "web - process"]);
}

/// Compose is a plugin of newer Dockers, and a program of its own before.
fn compose_program() -> Command {
    let plugin = Command::new("docker").args(["compose", "version"]).output();
    if plugin.is_ok_and(|output| output.status.success()) {
        let mut docker = Command::new("docker");
        docker.arg("compose");
        return docker;
    }
    Command::new("docker-compose")
}
