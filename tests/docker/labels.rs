//! A deadline is part of the container's own configuration.

use crate::daemon::{Daemon, IMAGE, output, refused, shared, stderr, stdout};
use crate::inspect::{inspect, take_label};

#[test]
fn a_deadline_is_a_label_in_the_containers_own_configuration() {
    let daemon = shared();
    let id = daemon.create(&["-dl", "2", IMAGE]);
    assert_eq!(take_label(&mut inspect(daemon, &id), "leeway.deadline").as_deref(), Some("2s"));
    let on_disk = daemon.configuration_on_disk(&id);
    assert!(on_disk.contains(r#""leeway.deadline":"2s""#), "{on_disk}");
}

#[test]
fn a_deadline_survives_a_restart_of_the_daemon() {
    let daemon = Daemon::start();
    let id = daemon.create(&["--deadline", "1m30s", "--name", "trainer", IMAGE]);
    output(&mut daemon.leeway(["deadline", "set", "trainer", "5s"]));
    daemon.restart();
    assert!(daemon.configuration_on_disk(&id).contains(r#""leeway.deadline":"1m30s""#));
    let deadline = |action| stdout(&output(&mut daemon.leeway(["deadline", action, "trainer"])));
    assert_eq!(deadline("get"), "5s");
    assert_eq!(deadline("clear"), "1m30s");
}

#[test]
fn every_option_of_ours_becomes_its_label_and_nothing_else_does() {
    let daemon = shared();
    let line = "--deadline 90 --task burst --expect 800ms --gpu-memory 24g --hold-max 2 --swap --migrate";
    let id = daemon.create(&line.split(' ').chain([IMAGE]).collect::<Vec<_>>());
    let inspected = inspect(daemon, &id);
    let expected = serde_json::json!({
        "leeway.deadline": "90s", "leeway.task": "burst", "leeway.expect": "800ms", "leeway.gpu.memory": "24GiB",
        "leeway.hold.max": "2s", "leeway.swap": "true", "leeway.migrate": "true",
    });
    assert_eq!(inspected["Config"]["Labels"], expected);
    let plain = inspect(daemon, &daemon.create(&[IMAGE]));
    assert_eq!(plain["Config"]["Labels"], serde_json::json!({}));
}

#[test]
fn where_a_deadline_is_given_twice_the_last_one_counts() {
    let daemon = shared();
    for words in [
        ["-dl", "2", "--deadline=3", "--rm"],
        ["--label", "leeway.deadline=2s", "-dl", "3"],
        ["-dl", "2", "--label", "leeway.deadline=3s"],
    ] {
        let id = daemon.create(&[&words[..], &[IMAGE]].concat());
        assert_eq!(
            take_label(&mut inspect(daemon, &id), "leeway.deadline").as_deref(),
            Some("3s"),
            "{words:?}"
        );
    }
}

#[test]
fn a_bad_deadline_is_named_and_no_container_is_created() {
    let daemon = shared();
    for (number, value) in ["0", "-1", "abc", "1e99", "25h", ""].into_iter().enumerate() {
        let name = format!("refused-{number}");
        for command in ["run", "create"] {
            for deadline in
                [vec!["-dl", value], vec!["--deadline", value], vec![&*format!("--deadline={value}")]]
            {
                let words = [&[command, "--name", &name], &deadline[..], &[IMAGE]].concat();
                let output = refused(&mut daemon.leeway(words));
                assert_eq!(output.status.code(), Some(2), "{deadline:?}");
                let line = stderr(&output);
                assert!(
                    line.contains(&format!("'{value}'")) && line.contains("2 or 2s, 250ms, 1m30s"),
                    "{line}"
                );
                assert_eq!(line.lines().count(), 1, "{line}");
            }
        }
        let set = refused(&mut daemon.leeway(["deadline", "set", "anything", value]));
        assert_eq!(set.status.code(), Some(2), "{value}");
        assert_eq!(stderr(&set).lines().count(), 1, "{}", stderr(&set));
        let filter = format!("name=^/{name}$");
        assert_eq!(stdout(&output(&mut daemon.docker(["ps", "-aq", "--filter", &filter]))), "");
    }
}

#[test]
fn a_bad_value_of_another_option_creates_nothing_either() {
    let daemon = shared();
    for option in ["--task=server", "--expect=soon", "--gpu-memory=24GB", "--hold-max=0", "--swap=perhaps"] {
        let output = refused(&mut daemon.leeway(["create", "--name", "refused-option", option, IMAGE]));
        assert_eq!(output.status.code(), Some(2), "{option}");
        assert_eq!(stderr(&output).lines().count(), 1, "{}", stderr(&output));
    }
    let node = refused(&mut daemon.leeway(["create", "--name", "refused-option", "--node", "auto", IMAGE]));
    assert!(stderr(&node).contains("leeway run"), "{}", stderr(&node));
    assert_eq!(stdout(&output(&mut daemon.docker(["ps", "-aq", "--filter", "name=refused-option"]))), "");
}
