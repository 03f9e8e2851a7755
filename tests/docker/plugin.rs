//! `docker leeway …` is `leeway …`.

use crate::daemon::{IMAGE, folder, output, refused, shared, stderr, stdout};
use crate::terminal::ended;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use tempfile::TempDir;

/// A Docker configuration with the plugin in it.
fn installed() -> TempDir {
    let configuration = folder();
    output(shared().leeway(["plugin", "install"]).env("DOCKER_CONFIG", configuration.path()));
    configuration
}

/// `docker WORDS`, with that configuration.
fn docker(configuration: &TempDir, words: &[&str]) -> Command {
    let mut docker = shared().docker(words.iter().copied());
    docker.env("DOCKER_CONFIG", configuration.path());
    docker
}

#[test]
fn docker_lists_the_plugin_while_it_is_installed() {
    let configuration = installed();
    let listed = || stdout(&output(&mut docker(&configuration, &["--help"]))).contains("leeway*");
    assert!(listed());
    output(shared().leeway(["plugin", "install"]).env("DOCKER_CONFIG", configuration.path()));
    assert!(listed());
    output(shared().leeway(["plugin", "uninstall"]).env("DOCKER_CONFIG", configuration.path()));
    assert!(!listed());
    output(shared().leeway(["plugin", "uninstall"]).env("DOCKER_CONFIG", configuration.path()));
}

#[test]
fn the_plugin_runs_lists_and_changes() {
    let configuration = installed();
    let run = |words: &[&str]| stdout(&output(&mut docker(&configuration, words)));
    let id = run(&["leeway", "create", "--name", "plugged", "-dl", "2", IMAGE]);
    let shown = ["leeway", "ps", "-a", "--filter", "name=^/plugged$", "--format", "{{.ID}} {{.Deadline}}"];
    assert_eq!(run(&shown), format!("{} 2s", &id[..12]));
    assert_eq!(run(&["leeway", "deadline", "get", "plugged"]), "2s");
    assert_eq!(run(&["leeway", "run", "--rm", "--net=none", "-dl", "2", "--", IMAGE, "echo", "-dl"]), "-dl");
    let code = docker(&configuration, &["leeway", "run", "--rm", "--net=none", IMAGE, "sh", "-c", "exit 7"]);
    assert_eq!({ code }.output().unwrap().status.code(), Some(7));
}

#[test]
fn dockers_global_options_reach_docker_again() {
    let configuration = installed();
    let host = shared().host();
    let at_host = |words: &[&str]| {
        let mut docker = docker(&configuration, words);
        output(docker.env("DOCKER_HOST", "unix:///nowhere"))
    };
    let id = stdout(&at_host(&["-D", "-H", host, "leeway", "create", "-dl", "2", IMAGE]));
    let listed = stdout(&at_host(&["--host", host, "leeway", "ps", "-aq", "--no-trunc"]));
    assert!(listed.contains(&id), "{listed}");
    let missing = refused(docker(&configuration, &["leeway", "ps"]).env("DOCKER_HOST", "unix:///nowhere"));
    assert!(stderr(&missing).contains("unix:///nowhere"), "{}", stderr(&missing));
}

#[test]
fn a_signal_to_docker_reaches_the_plugins_container() {
    let configuration = installed();
    if !tells_plugins_about_signals(&configuration) {
        println!("this Docker CLI dies without a word to its plugins: there is nothing to pass on");
        return;
    }
    let story = "trap 'exit 9' TERM; echo ready; while :; do sleep 0.1; done";
    let words = ["leeway", "run", "--rm", "--net=none", "-dl", "2", IMAGE, "sh", "-c", story];
    let mut child = docker(&configuration, &words).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert_eq!(lines.next().unwrap().unwrap(), "ready");
    output(Command::new("kill").args(["-s", "TERM", &child.id().to_string()]));
    assert_eq!(ended(&mut child), Some(9));
}

#[test]
fn a_file_that_is_not_ours_is_left_alone() {
    let plugins = folder();
    let file = plugins.path().join("docker-leeway");
    std::fs::write(&file, "somebody's").unwrap();
    for action in ["install", "uninstall"] {
        let refusal = refused(shared().leeway(["plugin", action, "--dir"]).arg(plugins.path()));
        assert!(stderr(&refusal).contains("docker-leeway"), "{}", stderr(&refusal));
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "somebody's");
    }
}

/// Whether this Docker gives its plugins the socket by which they learn of its end; those before 25 do not.
fn tells_plugins_about_signals(configuration: &TempDir) -> bool {
    let plugin = configuration.path().join("cli-plugins/docker-tell");
    let metadata = r#"{"SchemaVersion":"0.1.0","Vendor":"test"}"#;
    let script = format!(
        "#!/bin/sh\ncase $1 in docker-cli*) echo '{metadata}';; *) echo $DOCKER_CLI_PLUGIN_SOCKET;; esac\n"
    );
    std::fs::write(&plugin, script).expect("a plugin to be written");
    output(Command::new("chmod").arg("+x").arg(&plugin));
    !stdout(&output(&mut docker(configuration, &["tell"]))).is_empty()
}
