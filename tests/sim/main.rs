//! `leeway sim` as a person or a script meets it: the binary, its output, its exit codes.

use serde_json::Value;
use std::path::PathBuf;
use std::process::{Command, Output};

fn leeway(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_leeway"));
    command.arg("sim").args(arguments).output().expect("the binary was built with this test")
}

fn printed(arguments: &[&str]) -> String {
    let output = leeway(arguments);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("it prints text")
}

fn json(arguments: &[&str]) -> Value {
    serde_json::from_str(&printed(arguments)).expect("it prints one JSON object")
}

/// A file of this test, gone when it ends.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str, text: &str) -> Scratch {
        let path = std::env::temp_dir().join(format!("leeway-sim-{}-{name}", std::process::id()));
        std::fs::write(&path, text).expect("the temporary folder can be written");
        Scratch(path)
    }

    fn path(&self) -> &str {
        self.0.to_str().expect("its name is text")
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

fn policy<'v>(report: &'v Value, name: &str) -> &'v Value {
    let policies = report["policies"].as_array().expect("policies is a list");
    policies.iter().find(|policy| policy["policy"] == name).expect("every policy is there")
}

#[test]
fn the_papers_experiment_is_faster_and_in_time_when_tasks_are_held() {
    let report = json(&["--preset", "paper", "--json"]);
    assert_eq!(report["tasks"], 10);
    let makespan = |name| policy(&report, name)["makespan_us"].as_i64().expect("a time");
    assert!(makespan("none") > makespan("earliest-deadline"));
    assert!(makespan("earliest-deadline") >= report["bound"]["makespan_us"].as_i64().expect("a time"));
    assert_eq!(policy(&report, "earliest-deadline")["hit_rate"], 1.0);
    assert_eq!(policy(&report, "least-slack")["hit_rate"], 1.0);
    assert!(policy(&report, "none")["hit_rate"].as_f64().expect("a rate") <= 0.2);
    let table = printed(&[]);
    for name in sched::policy::NAMES {
        assert!(table.contains(name), "{table}");
    }
}

#[test]
fn the_same_seed_prints_the_same_twice() {
    let arguments = ["--seed", "1", "--tasks", "1000", "--load", "0.9", "--json"];
    let (once, twice) = (printed(&arguments), printed(&arguments));
    assert_eq!(once, twice);
    assert_ne!(once, printed(&["--seed", "2", "--tasks", "1000", "--load", "0.9", "--json"]));
}

#[test]
fn the_json_has_the_keys_that_scripts_rely_on() {
    let report = json(&["--seed", "3", "--tasks", "20", "--json", "--policy", "fifo"]);
    for key in ["tasks", "bound", "policies"] {
        assert!(report.get(key).is_some(), "{key}");
    }
    let bound = report["bound"].as_object().expect("bound is an object");
    assert!(bound.contains_key("hit_rate") && bound.contains_key("makespan_us"));
    let keys =
        ["policy", "makespan_us", "mean_turnaround_us", "p99_turnaround_us", "hit_rate", "holds", "failed"];
    for key in keys {
        assert!(policy(&report, "fifo").get(key).is_some(), "{key}");
    }
}

#[test]
fn bad_input_gets_one_line_and_exit_code_2_and_writes_nothing() {
    let story = Scratch::new("bad", "0ms a work 1s\n\n0ms b wrok 1s\n");
    let negative = Scratch::new("negative", "0ms a work 1s due -1s\n");
    let picture = std::env::temp_dir().join(format!("leeway-sim-{}-never.svg", std::process::id()));
    let picture = picture.to_str().expect("its name is text");
    let wrong: [(&[&str], &str); 9] = [
        (&["--policy", "lifo"], "earliest-deadline"),
        (&["--load", "0"], "0.01 to 10"),
        (&["--load", "-1"], "0.01 to 10"),
        (&["--load", "NaN"], "0.01 to 10"),
        (&["--tasks", "0"], "1 to 100000"),
        (&["--preset", "essay"], "paper"),
        (&[story.path()], "line 3: 'wrok'"),
        (&[negative.path()], "line 1: '-1s'"),
        (&["/no/such/story"], "/no/such/story"),
    ];
    for (arguments, says) in wrong {
        let output = leeway(&[arguments, &["--svg", picture]].concat());
        let error = String::from_utf8(output.stderr).expect("it prints text");
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {error}");
        let lines: Vec<&str> = error.lines().filter(|line| !line.starts_with("help: ")).collect();
        assert!(matches!(lines.as_slice(), [line] if line.contains(says)), "{arguments:?}: {error}");
        assert!(output.stdout.is_empty() && !std::fs::exists(picture).expect("the folder can be read"));
    }
}

#[test]
fn a_story_is_told_as_table_timeline_and_picture() {
    let story = Scratch::new("story", "0ms train work 400ms due 900ms\n100ms infer work 50ms due 200ms\n");
    let picture = Scratch::new("picture.svg", "");
    let told = printed(&[story.path(), "--timeline", "--svg", picture.path()]);
    assert!(told.contains("train") && told.contains("float") && told.contains('█'), "{told}");
    let drawn = std::fs::read_to_string(&picture.0).expect("the picture was drawn");
    assert!(drawn.starts_with("<svg") && drawn.contains("least-slack"));
    assert!(drawn.contains("train is held for"), "the picture shows that train was held");
}

#[test]
fn the_picture_in_the_readme_is_what_the_command_draws() {
    let picture = Scratch::new("paper.svg", "");
    printed(&["--preset", "paper", "--svg", picture.path()]);
    let drawn = std::fs::read_to_string(&picture.0).expect("the picture was drawn");
    let shown = include_str!("../../docs/paper.svg");
    assert!(drawn == shown, "draw it anew: leeway sim --preset paper --svg docs/paper.svg");
}

#[test]
fn arrivals_are_read_from_a_trace() {
    let trace = Scratch::new(
        "trace.csv",
        "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:17:03.50,1000,10\n2023-11-16 18:17:03.60,500,20\n",
    );
    let report = json(&["--arrivals", trace.path(), "--json"]);
    assert_eq!(report["tasks"], 2);
    assert_eq!(report["alpha"], serde_json::json!([1.5, 4.0]));
}
