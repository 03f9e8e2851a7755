//! `leeway bench latency`: how long a request waits beside batches that keep the GPU full.
//!
//! A server with a deadline has one kernel of ten milliseconds to run ten times a second. It runs alone, beside two batches that the GPU's own
//! time slicing shares it with (no agent runs), and beside the same two with an agent. What that costs the batches is compared, too.

use super::cgroup::Cgroup;
use super::figures::round;
use super::report::{Output, Report, Table};
use super::{Interruption, progress_bar};
use crate::failure::Failure;
use crate::stage::{Folder, Setting, Stage, Tier};
use anyhow::{Context, Result};
use serde_json::{Value, json};
use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::time::Duration;

/// Memory of the simulated GPU.
const MEMORY: &str = "80GiB";
/// How many batches there are.
const NEIGHBOURS: usize = 2;
/// How long each request's kernel takes.
const REQUEST_US: &str = "10000";
/// How often one arrives.
const EVERY: Duration = Duration::from_millis(100);
/// How long the batches are alone with each other before the first arrives: a program takes a while to come up.
const FIRST_AFTER: Duration = Duration::from_secs(2);
/// How many requests are not counted: while the first are served, the agent learns what the neighbours' kernels take.
const WARM: usize = 10;

/// Measure a request's time beside batches, and what that costs them
#[derive(clap::Args)]
pub(super) struct Latency {
    /// How long the batches' kernels take, in microseconds, and how many each queues ahead; may be given several times
    #[arg(long = "case", value_name = "US:DEPTH", value_parser = Case::parse, default_values = ["5000:1", "5000:8", "5000:64", "100:1000"])]
    cases: Vec<Case>,
    /// Each request's deadline: with much time to spare the policy has no reason to make anybody wait
    #[arg(long, value_name = "D", default_value = "20ms", value_parser = wire::duration::parse)]
    deadline: Duration,
    /// How many requests arrive; the first ten are not counted
    #[arg(long, value_name = "N", default_value_t = 200, value_parser = clap::value_parser!(u32).range(20..=100_000))]
    requests: u32,
    /// The folder of the driver's libraries; without it, a simulated GPU is started
    #[arg(long, value_name = "DIR")]
    driver: Option<PathBuf>,
    #[command(flatten)]
    output: Output,
}

/// What the neighbours do.
#[derive(Clone, Copy)]
struct Case {
    kernel_us: u64,
    depth: u64,
}

impl Case {
    fn parse(text: &str) -> Result<Self, String> {
        let positive = |text: &str| text.parse().ok().filter(|number| *number > 0);
        let parts = text.split_once(':').and_then(|(us, depth)| Some((positive(us)?, positive(depth)?)));
        let (kernel_us, depth) = parts.ok_or("accepted are two positive numbers, as in 5000:8")?;
        Ok(Self { kernel_us, depth })
    }
}

/// What one run gave.
struct Outcome {
    p50_ms: f64,
    p99_ms: f64,
    /// Kernels of all neighbours together, each second.
    throughput: f64,
}

impl Latency {
    pub(super) fn run(self) -> Result<()> {
        self.output.prepare()?;
        let interruption = Interruption::expect()?;
        let setting = Setting {
            driver: self.driver.as_deref(),
            memory: MEMORY,
            listed_after_ms: 0,
            poll_ms: 5,
            policy: "least-slack",
            run_dir: None,
            tier: Some(Tier::Probes),
            http: None,
        };
        let mut stage = Stage::set_in(Folder::new("leeway")?, &setting)?;
        let node = stage.node().ok_or_else(|| Failure::new("the agent went away"))?;
        let bar = progress_bar(1 + 2 * self.cases.len() as u64);
        let perform = |stage: &Stage, case| {
            let outcome = self.perform(stage, case);
            bar.inc(1);
            interruption.check()?;
            outcome
        };
        stage.leave_agent();
        let alone = perform(&stage, None)?;
        let heading =
            ["BESIDE", "ALONE P50, P99", "TIME SLICING", "LEEWAY", "P99 RATIO", "BATCHES' THROUGHPUT"];
        let mut table =
            Table::new("milliseconds per request; ratios to being alone, and to time slicing", &heading);
        for case in &self.cases {
            stage.leave_agent();
            let sliced = perform(&stage, Some(*case))?;
            stage.enter_agent()?;
            let managed = perform(&stage, Some(*case))?;
            self.compare(&mut table, *case, &alone, &sliced, &managed);
        }
        bar.finish_and_clear();
        let mut report = Report::new("latency", &node);
        report.table(table);
        self.output.show(&report)
    }

    /// One run: the server, and its neighbours if it has any.
    fn perform(&self, stage: &Stage, case: Option<Case>) -> Result<Outcome> {
        let millis = |span: Duration| format!("{}ms", span.as_millis());
        let deadline = millis(self.deadline);
        let server = Cgroup::new("server", &[("leeway.deadline", &deadline), ("leeway.task", "burst")])?;
        let count = if case.is_some() { NEIGHBOURS } else { 0 };
        let cgroup = |number| Cgroup::new(&format!("batch{number}"), &[("leeway.manage", "true")]);
        let cgroups = (0..count).map(cgroup).collect::<Result<Vec<Cgroup>>>()?;
        let spawn = |cgroup: &Cgroup, words: &[&str]| -> Result<Program> {
            let mut command = cgroup.inside(&stage.work(words)?);
            Ok(Program(command.stdout(Stdio::piped()).spawn().context("could not start a CUDA program")?))
        };
        let span = millis(FIRST_AFTER + EVERY * self.requests);
        let mut batches = Vec::new();
        if let Some(Case { kernel_us, depth }) = case {
            let (kernel, depth) = (kernel_us.to_string(), depth.to_string());
            let words = ["batch", "--json", "--kernel-us", &kernel, "--depth", &depth, "--for", &span];
            for cgroup in &cgroups {
                batches.push(spawn(cgroup, &words)?);
            }
        }
        let (every, after, requests) = (millis(EVERY), millis(FIRST_AFTER), self.requests.to_string());
        let words = ["serve", "--json", "--kernel-us", REQUEST_US, "--every", &every];
        let words = [words.as_slice(), &["--after", &after, "--requests", &requests]].concat();
        let served = spawn(&server, &words)?.report()?;
        let mut throughput = 0.0;
        for batch in batches {
            throughput += batch.report()?["kernels_per_second"].as_f64().unwrap_or_default();
        }
        let served = served["requests"].as_array().ok_or_else(|| Failure::new("a server served nobody"))?;
        let took = |request: &Value| Some((request["end"].as_f64()? - request["start"].as_f64()?) * 1e3);
        let mut times: Vec<f64> = served.iter().skip(WARM).filter_map(took).collect();
        times.sort_by(f64::total_cmp);
        let at = |percent: usize| times.get((times.len() * percent).div_ceil(100).saturating_sub(1)).copied();
        Ok(Outcome { p50_ms: at(50).unwrap_or_default(), p99_ms: at(99).unwrap_or_default(), throughput })
    }

    fn compare(&self, table: &mut Table, case: Case, alone: &Outcome, sliced: &Outcome, managed: &Outcome) {
        let Case { kernel_us, depth } = case;
        let figures = json!({
            "case": format!("beside {NEIGHBOURS} batches of {kernel_us} us kernels, {depth} queued"),
            "requests": self.requests as usize - WARM,
            "alone_ms_p50": round(alone.p50_ms),
            "alone_ms_p99": round(alone.p99_ms),
            "time_slicing_ms_p50": round(sliced.p50_ms),
            "time_slicing_ms_p99": round(sliced.p99_ms),
            "leeway_ms_p50": round(managed.p50_ms),
            "leeway_ms_p99": round(managed.p99_ms),
            "time_slicing_p99_ratio": round(sliced.p99_ms / alone.p99_ms),
            "leeway_p99_ratio": round(managed.p99_ms / alone.p99_ms),
            "batch_throughput_ratio": round(managed.throughput / sliced.throughput),
        });
        let times = |outcome: &Outcome| format!("{:.1}, {:.1}", outcome.p50_ms, outcome.p99_ms);
        let cells = [
            format!("{NEIGHBOURS} × {kernel_us} us, {depth} deep"),
            times(alone),
            times(sliced),
            times(managed),
            format!("{:.2}", managed.p99_ms / alone.p99_ms),
            format!("{:.2}", managed.throughput / sliced.throughput),
        ];
        table.row(figures, cells);
    }
}

/// A program that prints a report when it ends, and ends with us.
struct Program(Child);

impl Program {
    fn report(mut self) -> Result<Value> {
        let mut printed = String::new();
        if let Some(mut stdout) = self.0.stdout.take() {
            std::io::Read::read_to_string(&mut stdout, &mut printed)
                .context("could not read what a CUDA program printed")?;
        }
        serde_json::from_str(&printed).map_err(|_| {
            Failure::new(format!("a CUDA program failed and printed: {}", printed.trim())).into()
        })
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
