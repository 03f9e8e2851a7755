//! `leeway ps` is `docker ps` with deadlines.

use crate::daemon::{Daemon, IMAGE, folder, output, refused, shared, stderr, stdout};
use serde_json::Value;
use std::process::Command;
use std::time::{Duration, Instant};

/// Docker's columns, cut from Leeway's table.
fn without_deadline(table: &str) -> String {
    let heading = table.lines().next().unwrap_or_default();
    let column = heading.find("DEADLINE").expect("a DEADLINE column");
    table
        .lines()
        .map(|line| line.chars().take(column).collect::<String>().trim_end().to_owned() + "\n")
        .collect()
}

#[test]
fn the_table_is_dockers_with_one_more_column() {
    let daemon = shared();
    for words in [["--name=table-1", "--expose=80-82"], ["--name=table-2", "-dl=1m30s"], ["-it", "-dl=2"]] {
        daemon.create(&[&words[..], &["--label=table", IMAGE, "sh", "-c", "echo \"a long\" story"]].concat());
    }
    for options in [&["-a"][..], &["-a", "--no-trunc"], &["-a", "-q"], &["-a", "-q", "--no-trunc"]] {
        let words = [&["ps", "--filter", "label=table"], options].concat();
        // Ages change with the clock, so both are asked until they agree.
        let agree = || {
            let docker = stdout(&output(&mut daemon.docker(words.iter().copied())));
            let leeway = stdout(&output(&mut daemon.leeway(words.iter().copied())));
            let leeway = if options.contains(&"-q") { leeway } else { without_deadline(&leeway) };
            let trimmed = |table: &str| table.lines().map(str::trim_end).collect::<Vec<_>>().join("\n");
            (trimmed(&docker) == trimmed(&leeway)).then_some(()).ok_or((docker, leeway))
        };
        let agreed = (0..5).map(|_| agree()).reduce(Result::or).unwrap();
        assert!(agreed.is_ok(), "{options:?}: {agreed:#?}");
    }
    let words = ["ps", "-a", "--filter", "label=table", "--format", "{{.Deadline}}"];
    assert_eq!(stdout(&output(&mut daemon.leeway(words))), "2s\n1m30s\n-");
}

#[test]
fn templates_use_dockers_names() {
    let daemon = shared();
    daemon.create(&["--name=template", "-dl", "2", "--task=burst", "-l", "my-label=x", IMAGE, "sleep", "1"]);
    let format = "{{.ID}}|{{.Names}}|{{.Image}}|{{.Command}}|{{.CreatedAt}}|{{.Ports}}|{{.State}}|{{.Status}}|\
                  {{.Networks}}|{{.Mounts}}|{{.Label \"my-label\"}}|{{upper .Names}}|{{json .Command}}";
    let both = |format: &str| {
        let words = ["ps", "-a", "--filter", "name=^/template$", "--format", format];
        (stdout(&output(&mut daemon.docker(words))), stdout(&output(&mut daemon.leeway(words))))
    };
    let (docker, leeway) = both(format);
    assert_eq!(leeway, docker);
    let (docker, leeway) = both("table {{.Names}}\\t{{.CreatedAt}}\\t{{.Label \"my-label\"}}");
    assert_eq!(leeway, docker);
    let (docker, leeway) = both("{{json .}}");
    let docker: Value = serde_json::from_str(&docker).unwrap();
    let leeway: Value = serde_json::from_str(&leeway).unwrap();
    for key in ["ID", "Names", "Image", "Command", "CreatedAt", "State"] {
        assert_eq!(leeway[key], docker[key], "{key}");
    }
    assert_eq!((&leeway["Deadline"], &leeway["Mode"]), (&"2s".into(), &"burst".into()));
    let refusal = refused(&mut daemon.leeway(["ps", "--format", "{{.Nonsense}}"]));
    assert_eq!(refusal.status.code(), Some(2));
    assert!(stderr(&refusal).contains("'.Nonsense'") && stderr(&refusal).contains(".Deadline"));
}

#[test]
fn json_has_the_keys_that_scripts_rely_on() {
    let daemon = shared();
    let id =
        daemon.create(&["--name=for-scripts", "-dl", "250ms", "--task=memory", IMAGE, "sh", "-c", "true"]);
    daemon.create(&["--name=for-scripts-2", IMAGE]);
    let words = ["ps", "-a", "--json", "--filter", "name=for-scripts"];
    let text = stdout(&output(&mut daemon.leeway(words)));
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let [without, with] = &lines[..] else { panic!("{text}") };
    assert_eq!((&without["deadline_us"], &without["mode"]), (&Value::Null, &"process".into()));
    let expected = serde_json::json!({
        "id": id, "name": "for-scripts", "image": IMAGE, "command": "sh -c true", "status": "Created",
        "deadline_us": 250_000, "mode": "memory",
    });
    assert_eq!(with, &expected);
}

#[test]
fn a_label_that_says_nonsense_is_reported_and_counts_as_none() {
    let daemon = shared();
    daemon.create(&["--name=nonsense", "-l", "leeway.deadline=soon", "-l", "leeway.task=server", IMAGE]);
    let printed =
        output(&mut daemon.leeway(["ps", "-a", "--filter", "name=^/nonsense$", "--format={{.Deadline}}"]));
    assert_eq!(stdout(&printed), "-");
    let warnings = stderr(&printed);
    assert_eq!(warnings.lines().count(), 2, "{warnings}");
    assert!(warnings.contains("nonsense") && warnings.contains("'soon'"), "{warnings}");
}

#[test]
fn a_reader_who_has_seen_enough_is_no_failure() {
    let line = "\"$0\" ps -a | true; exec \"$0\" ps -a >/dev/null";
    let printed = output(&mut shared().program("sh", ["-c", line, crate::daemon::leeway_program()]));
    assert!(!stderr(&printed).contains("panic"), "{}", stderr(&printed));
}

#[test]
fn two_hundred_containers_are_listed_in_under_twice_dockers_time() {
    let daemon = Daemon::start();
    let create =
        "seq 200 | xargs -P 4 -I@ docker create --name many-@ -l leeway.deadline=@s \"$0\" sleep 1000";
    output(&mut daemon.program("sh", ["-c", create, IMAGE]));
    let listed = stdout(&output(&mut daemon.leeway(["ps", "-a", "--json"])));
    assert_eq!(listed.lines().count(), 200);
    // A machine with other work to do makes single measurements worthless: take medians, and more than one chance.
    let mut measured = Vec::new();
    for _ in 0..5 {
        let (mut docker, mut leeway) = (Vec::new(), Vec::new());
        for _ in 0..15 {
            docker.push(time(&mut daemon.docker(["ps", "-a"])));
            leeway.push(time(&mut daemon.leeway(["ps", "-a", "--json"])));
        }
        let (docker, leeway) = (median(docker), median(leeway));
        println!("200 containers, median of 15: docker ps {docker:?}, leeway ps --json {leeway:?}");
        measured.push((docker, leeway));
        if leeway < docker * 2 {
            return;
        }
    }
    panic!("(docker ps, leeway ps --json): {measured:?}");
}

fn time(command: &mut Command) -> Duration {
    let start = Instant::now();
    output(command);
    start.elapsed()
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times[times.len() / 2]
}

#[test]
fn ps_works_with_no_agent_and_no_state() {
    let nowhere = folder().path().join("missing");
    let printed = output(shared().leeway(["ps", "--state-dir"]).arg(&nowhere));
    assert!(stdout(&printed).starts_with("CONTAINER ID"));
    assert!(!nowhere.exists());
}
