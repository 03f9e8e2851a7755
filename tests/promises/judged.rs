//! What `scripts/goals-on-a-gpu` judges is told, under that name: a figure that was renamed would be missed where measuring it is dear.

use super::playing::simulated_gpu;
use super::{alone, daemon, is_root};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A matrix product is traced as it is on a real GPU; the rest needs `PyTorch`, too.
#[test]
fn a_trace_of_a_matrix_product_tells_what_is_judged() {
    /// What the script ends with: all agrees, something does not, or all that can be shown without `PyTorch` does.
    const TRACED: [Option<i32>; 3] = [Some(0), Some(1), Some(3)];
    if !is_root() {
        eprintln!("left out: it needs root, for cgroups");
        return;
    }
    let _alone = alone();
    let folder = daemon::folder();
    let (driver, out) = (folder.path().join("gpu"), folder.path().join("trace"));
    let _gpu = simulated_gpu(&driver);
    let mut trace = Command::new(script("trace-on-a-gpu"));
    trace.arg(&out).env("LEEWAY", daemon::leeway_program()).env("DRIVER", &driver).env("REQUESTS", "1");
    let output = trace.output().expect("python3 runs");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(TRACED.contains(&output.status.code()), "{:?}: {said}", output.status);
    let told = std::fs::read_to_string(out.join("trace.json")).expect("what was seen");
    let told: Value = serde_json::from_str(&told).expect("one JSON object");
    let results = told["results"].as_array().expect("results");
    all_is_told("trace", results);
    let product = results.iter().find(|result| result["case"] == "a matrix product").expect("it was traced");
    assert_eq!((&product["tasks"], &product["belong_together"]), (&1.into(), &1.into()), "{results:?}");
}

/// What a benchmark's tests measure less of than the script, and so by other numbers.
const SMALLER: [&str; 3] = ["tasks", "work", "deadlines"];

/// Whether each figure of this part is told of the case that the script looks for, as far as it was measured.
pub(super) fn all_is_told(part: &str, results: &[Value]) {
    let output = Command::new(script("goals-on-a-gpu")).arg("--goals").output().expect("python3 runs");
    let told = String::from_utf8_lossy(&output.stdout).into_owned();
    let goals = told.lines().map(|line| serde_json::from_str::<Value>(line).expect("one JSON object a line"));
    let goals: Vec<Value> = goals.filter(|goal| goal["part"] == part).collect();
    assert!(!goals.is_empty(), "there is no part {part}: {told}");
    let known_as = |goal: &Value| -> Vec<(String, Value)> {
        let case = goal["case"].as_object().expect("what a case is known by");
        case.iter().map(|(name, value)| (name.clone(), value.clone())).collect()
    };
    let is_of = |result: &Value, goal: &Value| {
        known_as(goal).iter().all(|(name, value)| {
            result.get(name).is_some_and(|told| told == value || SMALLER.contains(&name.as_str()))
        })
    };
    let tells = |result: &Value, goal: &Value| {
        result.get(goal["figure"].as_str().expect("a name")).is_some_and(|figure| !figure.is_null())
    };
    let mut found = 0;
    for goal in goals {
        let mut of_it = results.iter().filter(|result| is_of(result, &goal)).peekable();
        if of_it.peek().is_none() && is_left_out(part, &goal) {
            continue;
        }
        assert!(of_it.any(|result| tells(result, &goal)), "{goal} is told of none of {results:?}");
        found += 1;
    }
    assert!(found > 0, "nothing that is judged in {part} was measured: {results:?}");
}

/// Whether a case is measured by the script alone: other batches, and what needs `PyTorch`.
fn is_left_out(part: &str, goal: &Value) -> bool {
    part == "latency" || (part == "trace" && goal["case"]["case"].to_string().contains("PyTorch"))
}

fn script(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../scripts").join(name)
}
