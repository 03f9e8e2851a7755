//! A deadline can be changed while the container exists.

use crate::daemon::{Daemon, IMAGE, folder, output, refused, shared, stderr, stdout};
use serde_json::Value;
use std::path::Path;
use tempfile::TempDir;

/// `leeway deadline WORDS`, with a state folder of the test's own.
fn deadline(daemon: &Daemon, state: &TempDir, words: &[&str]) -> String {
    stdout(&output(daemon.leeway([&["deadline"], words].concat()).env("LEEWAY_STATE_DIR", state.path())))
}

fn kept(state: &TempDir) -> Value {
    let text = std::fs::read_to_string(state.path().join("deadlines.json")).expect("the file");
    serde_json::from_str(&text).expect("JSON")
}

#[test]
fn what_is_set_counts_instead_of_the_label_until_it_is_cleared() {
    let (daemon, state) = (shared(), folder());
    let id = daemon.create(&["--name=changed", "-dl", "2", IMAGE]);
    for container in ["changed", &id[..12], &id] {
        assert_eq!(deadline(daemon, &state, &["get", container]), "2s");
        assert_eq!(deadline(daemon, &state, &["set", container, "90"]), "90s");
        assert_eq!(deadline(daemon, &state, &["get", container]), "90s");
        let words = ["ps", "-a", "--filter", "name=^/changed$", "--format={{.Deadline}}"];
        let shown = output(daemon.leeway(words).arg("--state-dir").arg(state.path()));
        assert_eq!(stdout(&shown), "90s");
        assert_eq!(deadline(daemon, &state, &["clear", container]), "2s");
    }
}

#[test]
fn a_container_without_a_label_can_be_given_a_deadline() {
    let (daemon, state) = (shared(), folder());
    let id = daemon.create(&["--name=unlabelled", IMAGE]);
    assert_eq!(deadline(daemon, &state, &["get", "unlabelled"]), "-");
    assert_eq!(deadline(daemon, &state, &["set", "unlabelled", "1m30s"]), "1m30s");
    assert_eq!(kept(&state)["containers"][&id]["deadline"], "1m30s");
    assert_eq!(deadline(daemon, &state, &["clear", "unlabelled"]), "-");
    assert_eq!(deadline(daemon, &state, &["clear", "unlabelled"]), "-");
}

#[test]
fn what_was_set_goes_when_the_container_goes() {
    let (daemon, state) = (shared(), folder());
    let gone = daemon.create(&["--name=gone", IMAGE]);
    let stays = daemon.create(&["--name=stays", IMAGE]);
    deadline(daemon, &state, &["set", "gone", "2s"]);
    deadline(daemon, &state, &["set", "stays", "3s"]);
    // Another daemon's container is unknown here, which does not make it gone.
    let file = state.path().join("deadlines.json");
    let mut elsewhere = kept(&state);
    elsewhere["containers"]["ee"] = serde_json::json!({"deadline": "4s", "daemon": "another"});
    std::fs::write(&file, elsewhere.to_string()).unwrap();
    output(&mut daemon.docker(["rm", "gone"]));
    deadline(daemon, &state, &["clear", "stays"]);
    deadline(daemon, &state, &["set", "stays", "5s"]);
    let kept = kept(&state);
    assert!(kept["containers"][&gone].is_null(), "{kept}");
    assert_eq!(kept["containers"][&stays]["deadline"], "5s");
    assert_eq!(kept["containers"]["ee"]["deadline"], "4s");
}

#[test]
fn two_who_set_at_once_lose_nothing() {
    let (daemon, state) = (shared(), folder());
    let containers: Vec<String> = (0..8).map(|n| format!("at-once-{n}")).collect();
    std::thread::scope(|scope| {
        for name in &containers {
            scope.spawn(|| {
                daemon.create(&["--name", name, IMAGE]);
                for value in ["3s", "4s", "5s"] {
                    deadline(daemon, &state, &["set", name, value]);
                }
            });
        }
    });
    for name in &containers {
        assert_eq!(deadline(daemon, &state, &["get", name]), "5s", "{name}");
    }
}

#[test]
fn an_ambiguous_start_of_an_id_lists_the_candidates() {
    let (daemon, state) = (shared(), folder());
    // Seventeen containers cannot all start with different digits; two of them share one.
    let ids: Vec<String> = (0..17).map(|_| daemon.create(&["-l", "ambiguous", IMAGE])).collect();
    let digit = |id: &String| id[..1].to_owned();
    let shares = |id: &&String| ids.iter().filter(|other| digit(other) == digit(id)).count() > 1;
    let start = ids.iter().find(shares).map(digit).expect("two ids that start alike");
    let words = ["deadline", "set", &start, "2s"];
    let refusal = refused(daemon.leeway(words).env("LEEWAY_STATE_DIR", state.path()));
    for id in ids.iter().filter(|id| id.starts_with(&start)) {
        assert!(stderr(&refusal).contains(&id[..12]), "{id}: {}", stderr(&refusal));
    }
    assert!(!state.path().join("deadlines.json").exists());
}

#[test]
fn a_container_that_is_not_there_is_named() {
    let (daemon, state) = (shared(), folder());
    for words in [&["get", "nobody"][..], &["set", "nobody", "2s"], &["clear", "nobody"]] {
        let command = &mut daemon.leeway([&["deadline"], words].concat());
        let refusal = refused(command.env("LEEWAY_STATE_DIR", state.path()));
        assert_eq!(refusal.status.code(), Some(1));
        assert!(stderr(&refusal).contains("no container 'nobody'"), "{}", stderr(&refusal));
    }
}

#[test]
fn a_damaged_file_is_reported_and_left_as_it_is() {
    let (daemon, state) = (shared(), folder());
    daemon.create(&["--name=damaged", IMAGE]);
    let file = state.path().join("deadlines.json");
    for damage in ["", "{\"version\":1,", "{\"version\":99,\"containers\":{}}"] {
        std::fs::write(&file, damage).unwrap();
        for words in [&["deadline", "set", "damaged", "2s"][..], &["deadline", "get", "damaged"], &["ps"]] {
            let refusal = refused(daemon.leeway(words.iter().copied()).env("LEEWAY_STATE_DIR", state.path()));
            let message = stderr(&refusal);
            assert!(message.contains("deadlines.json") && message.contains("help: repair"), "{message}");
            assert_eq!(std::fs::read_to_string(&file).unwrap(), damage);
        }
    }
}

#[test]
fn a_state_folder_that_cannot_be_written_is_named() {
    let daemon = shared();
    daemon.create(&["--name=unwritable", IMAGE]);
    let nowhere = Path::new("/proc/leeway");
    let words = ["deadline", "set", "unwritable", "2s", "--state-dir"];
    let refusal = refused(daemon.leeway(words).arg(nowhere));
    assert!(stderr(&refusal).contains("could not write /proc/leeway/deadlines.json"), "{}", stderr(&refusal));
}
