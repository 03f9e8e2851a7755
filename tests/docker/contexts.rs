//! The daemon is the one the Docker CLI would talk to.

use crate::daemon::{IMAGE, folder, output, refused, shared, stderr, stdout};
use std::process::Command;

#[test]
fn a_context_names_the_daemon() {
    let configuration = folder();
    let daemon = shared();
    let id = daemon.create(&["-dl", "2", IMAGE]);
    let program = |name: &str, words: &[&str]| {
        let mut command = Command::new(name);
        command.args(words).env_remove("DOCKER_HOST").env_remove("DOCKER_CONTEXT");
        command.env("DOCKER_CONFIG", configuration.path()).env("LEEWAY_STATE_DIR", configuration.path());
        command
    };
    let leeway = |words: &[&str]| program(crate::daemon::leeway_program(), words);
    let lists_it = |command: &mut Command| stdout(&output(command)).contains(&id);
    let address = format!("host={}", daemon.host());
    output(&mut program("docker", &["context", "create", "far", "--docker", &address]));
    let list = ["ps", "-aq", "--no-trunc"];
    assert!(lists_it(&mut leeway(&[&["--context", "far"], &list[..]].concat())));
    assert!(lists_it(&mut leeway(&[&["-c=far"], &list[..]].concat())));
    assert!(lists_it(leeway(&list).env("DOCKER_CONTEXT", "far")));
    assert!(lists_it(&mut leeway(&[&["-H", daemon.host()], &list[..]].concat())));
    output(&mut leeway(&["-c", "far", "create", "-dl", "2", IMAGE]));
    // A variable that names a daemon beats one that names a context.
    let host =
        leeway(&list).env("DOCKER_CONTEXT", "far").env("DOCKER_HOST", "unix:///nowhere").output().unwrap();
    assert!(stderr(&host).contains("unix:///nowhere"), "{}", stderr(&host));
    output(&mut program("docker", &["context", "use", "far"]));
    assert!(lists_it(&mut leeway(&list)));
    output(&mut leeway(&["run", "--rm", "--net=none", "-dl", "2", IMAGE, "true"]));
    let unknown = refused(&mut leeway(&["--context", "nowhere", "ps"]));
    assert!(stderr(&unknown).contains("context 'nowhere'"), "{}", stderr(&unknown));
    let both = refused(&mut leeway(&["--context", "far", "-H", daemon.host(), "ps"]));
    assert_eq!(both.status.code(), Some(2));
}
