//! What `leeway bench … --json` prints: one object.

use serde::Serialize;
use serde_json::Value;

/// One benchmark.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct BenchReport {
    /// Its name on the command line.
    pub benchmark: String,
    /// How it was run.
    pub command: String,
    /// What it ran on.
    pub machine: BenchMachine,
    /// One object per measured case; each has a key `case`.
    pub results: Vec<Value>,
}

/// What a benchmark ran on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct BenchMachine {
    /// The GPU's name.
    pub gpu: String,
    /// The driver's version; null if it does not say.
    pub driver: Option<String>,
    /// Whether the GPU is a simulated one.
    pub simulated: bool,
}
