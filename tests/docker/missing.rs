//! A machine without Docker, or with half of it.

use crate::daemon::{IMAGE, folder, refused, shared, stderr};

#[test]
fn without_the_docker_cli_the_message_says_so_and_how_to_get_it() {
    let empty = folder();
    for words in [&["run", IMAGE][..], &["create", "-it", IMAGE], &["run", "-dl", "2", "--rm", IMAGE]] {
        let refusal = refused(shared().leeway(words.iter().copied()).env("PATH", empty.path()));
        let message = stderr(&refusal);
        assert!(
            message.contains("the Docker CLI is missing") && message.contains("help: install it"),
            "{message}"
        );
    }
}

#[test]
fn without_a_daemon_the_message_says_so_and_how_to_get_one() {
    let nowhere = format!("unix://{}/docker.sock", folder().path().display());
    for (words, code) in [
        (&["run", "-it", IMAGE][..], 125),
        (&["create", IMAGE], 1),
        (&["ps"], 1),
        (&["deadline", "get", "x"], 1),
    ] {
        let refusal = refused(shared().leeway(words.iter().copied()).env("DOCKER_HOST", &nowhere));
        let message = stderr(&refusal);
        assert!(message.contains("the Docker daemon is missing") && message.contains(&nowhere), "{message}");
        assert!(message.contains("help: start it with"), "{message}");
        assert_eq!(refusal.status.code(), Some(code), "{words:?}");
    }
}
