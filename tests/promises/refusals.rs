//! What a benchmark cannot measure is refused at once, with a line that says which word was wrong.

use std::process::{Command, Stdio};

/// The words of benchmarks, and what the refusal names.
const REFUSED: [(&str, &str); 23] = [
    ("agents --nodes 0", "--nodes"),
    ("agents --seconds 0", "--seconds"),
    ("agents --placements 0", "--placements"),
    ("contention --tasks 13312:0", "--tasks"),
    ("contention --preset 001-figure-8 --counts 0", "--counts"),
    ("contention --rounds 0", "--rounds"),
    ("contention --memory much", "--memory"),
    // A simulated GPU has no such service: what would be measured is plain time slicing.
    ("contention --mode mps", "--mode mps"),
    ("deadlines --load 0", "--load"),
    ("deadlines --tasks 1001", "--tasks"),
    ("deadlines --staggered 0 --tasks 0 --worlds 0", "--staggered, --tasks and --worlds"),
    ("detect --at-once 0", "--at-once"),
    ("detect --containers 1001", "--containers"),
    ("detect --rounds 0", "--rounds"),
    ("detect --poll-ms 0", "--poll-ms"),
    ("hold --rounds 0", "--rounds"),
    ("hold --containers 1", "--containers"),
    ("latency --case 5000:0", "--case"),
    ("latency --rounds 0", "--rounds"),
    ("latency --batch-deadline 0s", "--batch-deadline"),
    ("launches --launches 0", "--launches"),
    ("nodelist --nodes 0", "--nodes"),
    ("overhead --n 0", "--n"),
];

#[test]
fn a_benchmark_of_nothing_is_refused() {
    for (words, wrong) in REFUSED {
        let mut bench = Command::new(env!("CARGO_BIN_EXE_leeway"));
        let output = bench.arg("bench").args(words.split(' ')).stdin(Stdio::null()).output();
        let output = output.expect("leeway runs");
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "leeway bench {words}: {said}");
        let first = said.lines().next().unwrap_or_default();
        assert!(first.starts_with("error: ") && first.contains(wrong), "leeway bench {words}: {said}");
    }
}
