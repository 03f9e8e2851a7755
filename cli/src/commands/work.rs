//! `leeway work`: a CUDA program to share a GPU with.

use super::tasks::quantile;
use crate::failure::Failure;
use crate::work::{self, Device};
use anyhow::{Context, Result};
use clap::Args;
use sim::luck::Luck;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};
use wire::work::WorkReport;

/// The largest side of a matrix: three of them are 120 GB.
const SIDE_MAX: i64 = 100_000;
/// The longest kernel: a minute.
const KERNEL_US_MAX: u64 = 60_000_000;

/// Run a CUDA program on a GPU, real or simulated
#[derive(Args)]
pub struct Work {
    #[command(subcommand)]
    what: What,
}

#[derive(clap::Subcommand)]
enum What {
    /// Multiply two square matrices, as the paper does
    Matmul {
        /// Rows and columns of each matrix
        #[arg(long, default_value_t = 4_096, value_parser = clap::value_parser!(u32).range(1..=SIDE_MAX))]
        n: u32,
        /// How many times to multiply
        #[arg(long, value_name = "R", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
        repeat: u32,
        #[command(flatten)]
        on: On,
    },
    /// Serve requests of one short kernel each
    Serve {
        /// How many requests arrive
        #[arg(long, value_name = "COUNT", default_value_t = 100)]
        requests: u64,
        /// How long each one's kernel runs, in microseconds
        #[arg(long, value_name = "US", default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(1..=KERNEL_US_MAX))]
        kernel_us: u64,
        /// How long after each request the next arrives
        #[arg(long, value_name = "D", default_value = "100ms", value_parser = wire::duration::parse)]
        every: Duration,
        /// How long after each request is done the next arrives, as of somebody who asks again: from half of that to one and a half
        #[arg(long, value_name = "D", conflicts_with = "every", value_parser = wire::duration::parse)]
        pause: Option<Duration>,
        /// What the pauses are drawn from: the same ones with the same seed
        #[arg(long, value_name = "N", default_value_t = 1, requires = "pause")]
        seed: u64,
        /// How long after the program's start the first arrives
        #[arg(long, value_name = "D", value_parser = wire::duration::parse)]
        after: Option<Duration>,
        #[command(flatten)]
        on: On,
    },
    /// Run kernel after kernel, several queued ahead
    Batch {
        /// How long each kernel runs, in microseconds; 0: as short as there are
        #[arg(long, value_name = "US", default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(..=KERNEL_US_MAX))]
        kernel_us: u64,
        /// How many are queued before the program waits for them
        #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..))]
        depth: u64,
        /// How long to do something else before it waits for them, as one does that prepares its next input
        #[arg(long, value_name = "D", value_parser = wire::duration::parse)]
        prepare: Option<Duration>,
        /// How long to go on
        #[arg(long = "for", value_name = "D", default_value = "10s", value_parser = wire::duration::parse)]
        span: Duration,
        /// How many kernels to run, however long that takes
        #[arg(long, value_name = "COUNT", conflicts_with = "span", value_parser = clap::value_parser!(u64).range(1..))]
        count: Option<u64>,
        /// How long to do nothing before the first
        #[arg(long, value_name = "D", value_parser = wire::duration::parse)]
        after: Option<Duration>,
        /// Run all that once for each line of the standard input, and print how many seconds it took
        #[arg(long)]
        each_line: bool,
        #[command(flatten)]
        on: On,
    },
    /// Take GPU memory and keep it for a while
    Hold {
        /// How much
        #[arg(long, value_name = "M", default_value = "1GiB", value_parser = held)]
        memory: u64,
        /// Managed memory, which cannot be swapped out
        #[arg(long)]
        managed: bool,
        /// How long
        #[arg(long = "for", value_name = "D", default_value = "10s", value_parser = wire::duration::parse)]
        span: Duration,
        #[command(flatten)]
        on: On,
    },
    /// Fork, and keep a little GPU memory for a while
    Fork {
        /// Before or after the driver is initialised
        #[arg(long, value_name = "WHEN", default_value = "before")]
        when: work::fork::When,
        /// How long the parent stays
        #[arg(long = "for", value_name = "D", default_value = "1s", value_parser = wire::duration::parse)]
        span: Duration,
        /// How long the child stays; nobody waits for it
        #[arg(long, value_name = "D", default_value = "2s", value_parser = wire::duration::parse)]
        child_for: Duration,
        #[command(flatten)]
        on: On,
    },
}

#[derive(Args)]
struct On {
    /// Which of the GPUs that the driver shows
    #[arg(long, value_name = "I", default_value_t = 0, value_parser = clap::value_parser!(u32).range(..1_024))]
    device: u32,
    /// The folder of the driver's library [default: where the loader finds it]
    #[arg(long, value_name = "DIR")]
    driver: Option<PathBuf>,
    /// Wait until this moment, in seconds since 1970, before the first call of the driver: so that several begin together
    #[arg(long, value_name = "SECONDS", value_parser = moment)]
    at: Option<Duration>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

impl Work {
    pub(crate) fn run(self) -> Result<()> {
        let (doing, on) = match &self.what {
            What::Matmul { on, .. } => ("could not multiply", on),
            What::Serve { on, .. } => ("could not serve", on),
            What::Batch { on, .. } => ("could not run the batch", on),
            What::Hold { on, .. } => ("could not hold memory", on),
            What::Fork { on, .. } => ("could not fork and hold memory", on),
        };
        let json = on.json;
        let report = self.what.run().with_context(|| format!("{doing} on the GPU"))?;
        let text = if json { format!("{}\n", serde_json::to_string(&report)?) } else { in_words(&report) };
        super::print_all(text.as_bytes())?;
        if report.ok { Ok(()) } else { Err(Failure::new("the GPU's result is wrong").into()) }
    }
}

impl What {
    fn run(self) -> Result<WorkReport> {
        match self {
            Self::Matmul { n, repeat, on } => {
                on.open().and_then(|(device, phases)| work::matmul::run(device, phases, n, repeat))
            }
            Self::Serve { requests, kernel_us, every, pause, seed, after, on } => {
                let next = pause.map_or(work::serve::Next::Every(every), work::serve::Next::Pause);
                let (luck, after) = (Luck(seed), after.unwrap_or_default());
                let serve = work::serve::Serve { requests, kernel_us, next, luck, after };
                on.open().and_then(|(device, phases)| work::serve::run(device, phases, &serve))
            }
            Self::Batch { kernel_us, depth, prepare, span, count, after, each_line, on } => {
                let until = count.map_or(work::batch::Until::Elapsed(span), work::batch::Until::Count);
                let (prepare, after) = (prepare.unwrap_or_default(), after.unwrap_or_default());
                let batch = work::batch::Batch { kernel_us, depth, prepare, until, after, each_line };
                on.open().and_then(|(device, phases)| work::batch::run(device, phases, &batch))
            }
            Self::Hold { memory, managed, span, on } => {
                let hold = work::hold::Hold { bytes: memory, managed, span };
                on.open().and_then(|(device, phases)| work::hold::run(device, phases, &hold))
            }
            Self::Fork { when, span, child_for, on } => {
                let stay = work::fork::Stay { parent: span, child: child_for };
                work::fork::run(|| on.open(), when, stay)
            }
        }
    }
}

impl On {
    fn open(&self) -> Result<(Device, work::Phases)> {
        if let Some(at) = self.at {
            let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
            std::thread::sleep(at.saturating_sub(now));
        }
        Device::open(self.driver.as_deref(), self.device)
    }
}

/// One line per phase: when it was over, in seconds from the start.
fn in_words(report: &WorkReport) -> String {
    let mut text = format!("{}\n", report.device);
    let phases = [
        ("context", report.context),
        ("allocated", report.allocated),
        ("input", report.input),
        ("kernel", report.kernel),
        ("output", report.output),
        ("end", report.end),
    ];
    for (name, moment) in phases {
        text += &format!("{name:<10}{:>9.3} s\n", moment.seconds_since(report.init));
    }
    if report.kernels > 0 {
        text += &format!("{} kernels, {:.1} per second\n", report.kernels, report.kernels_per_second);
    }
    let mut latencies_ms: Vec<f64> =
        report.requests.iter().map(|request| request.end.seconds_since(request.arrived) * 1e3).collect();
    latencies_ms.sort_by(f64::total_cmp);
    if let Some((p50, p99)) = quantile(&latencies_ms, 50).zip(quantile(&latencies_ms, 99)) {
        text += &format!("requests: p50 {p50:.1} ms, p99 {p99:.1} ms\n");
    }
    text
}

fn moment(text: &str) -> Result<Duration, String> {
    let seconds = text.parse().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    seconds.ok_or_else(|| "accepted are seconds since 1970, with or without decimals".to_owned())
}

fn held(text: &str) -> Result<u64, String> {
    let bytes = wire::bytes::parse(text).map_err(|wrong| wrong.to_string())?;
    let enough = bytes >= work::hold::BYTES_MIN;
    enough
        .then_some(bytes)
        .ok_or_else(|| format!("too little, accepted are {} bytes or more", work::hold::BYTES_MIN))
}
