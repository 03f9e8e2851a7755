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

/// Whether each figure of this part is told of some case, and whatever that case is known by.
pub(super) fn all_is_told(part: &str, results: &[Value]) {
    let output = Command::new(script("goals-on-a-gpu")).arg("--goals").output().expect("python3 runs");
    let told = String::from_utf8_lossy(&output.stdout).into_owned();
    let goals = told.lines().map(|line| serde_json::from_str::<Value>(line).expect("one JSON object a line"));
    let goals: Vec<Value> = goals.filter(|goal| goal["part"] == part).collect();
    assert!(!goals.is_empty(), "there is no part {part}: {told}");
    for goal in goals {
        let figure = goal["figure"].as_str().expect("a name");
        let case = goal["case"].as_object().expect("what a case is known by");
        let tells = |result: &Value| {
            result.get(figure).is_some() && case.keys().all(|name| result.get(name).is_some())
        };
        assert!(results.iter().any(tells), "{goal} is told of none of {results:?}");
    }
}

fn script(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../scripts").join(name)
}
