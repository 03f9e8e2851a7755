//! What the agent costs grows no faster than what it watches.

use crate::daemon::{leeway_program, output, stdout};
use serde_json::Value;
use std::process::Command;

/// How much more a look at ten times as many containers may take. In proportion it would be ten; a quiet machine measures less than two.
const TENFOLD_RATIO_MAX: f64 = 15.0;

#[test]
fn a_look_at_ten_times_as_many_containers_costs_at_most_about_ten_times_as_much() {
    let mut bench = Command::new(leeway_program());
    bench.args(["bench", "detect", "--tier", "polling", "--rounds", "1", "--tasks", "0", "--lone", "0"]);
    bench.args(["--containers", "10,100", "--plain", "--cost-for", "2s", "--json"]);
    let printed = stdout(&output(&mut bench));
    let report: Value = serde_json::from_str(&printed).unwrap();
    let results = report["results"].as_array().unwrap().iter();
    let costs: Vec<&Value> = results.filter(|result| result["case"] == "cost of the agent").collect();
    let figure = |name: &str| costs.iter().map(|cost| cost[name].as_f64().unwrap()).collect::<Vec<_>>();
    assert_eq!(figure("containers"), [10.0, 100.0], "{printed}");
    let looks = figure("look_cpu_us");
    assert!(looks[0] > 0.0 && looks[1] / looks[0] < TENFOLD_RATIO_MAX, "{printed}");
    // Quiet looks are spaced by what they cost, so the whole stays about the same, whoever is there.
    let whole = figure("agent_cpu_ratio");
    assert!(whole[1] / whole[0] < TENFOLD_RATIO_MAX, "{printed}");
}
