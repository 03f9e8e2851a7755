//! `leeway bench agents`: what one master takes, with up to ten thousand agents over real connections.
//!
//! The master is a process of its own; the agents are simulated in this one, each with its certificate, its TLS and its
//! stream. First all of them only say that they live, then each reports a change a second, and at last containers are placed
//! meanwhile.

mod crowd;
mod master;

use super::report::{Output, Plot, Report, Scale, Series, Table, svg};
use super::{Interruption, Progress};
use crate::commands::tasks::quantile;
use anyhow::{Context, Result};
use crowd::Crowd;
use master::{Master, Used};
use serde::Serialize;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use wire::cluster::{MasterLine, PlaceWanted, Placed};

/// How long after a placement the next is asked for.
const PLACEMENT_GAP: Duration = Duration::from_millis(5);
/// What each container that is placed asks for: the numbers matter little, as long as there is room.
const DEADLINE_US: i64 = 60_000_000;
const EXPECT_US: i64 = 10_000;

/// Measure a master with many simulated agents over real connections
#[derive(clap::Args)]
pub(super) struct Agents {
    /// How many nodes there are, one measurement each
    #[arg(long, value_name = "COUNTS", value_delimiter = ',', default_value = "10,100,1000,10000", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    nodes: Vec<u32>,
    /// How long each of the three phases lasts, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=3600))]
    seconds: u64,
    /// How many containers are placed
    #[arg(long, value_name = "COUNT", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    placements: u32,
    /// Draw the curves as a picture
    #[arg(long, value_name = "FILE")]
    plot: Option<PathBuf>,
    #[command(flatten)]
    output: Output,
}

/// One measurement.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Measured {
    case: String,
    nodes: usize,
    /// All agents connecting at once, until the list has them all.
    connected_ms: u64,
    /// The same after the master was killed and started again.
    rebuilt_ms: u64,
    idle_cpu_percent: f64,
    busy_cpu_percent: f64,
    memory_mib: f64,
    /// Both directions, with every header; only where nothing else uses the loopback.
    idle_bytes_per_node_second: f64,
    busy_bytes_per_node_second: f64,
    /// From the moment an agent speaks until the list has it: an upper bound. Nothing if no report said when it was sent.
    report_lag_p99_us: Option<u64>,
    placement_p50_us: u64,
    placement_p99_us: u64,
    placed: usize,
}

impl Agents {
    pub(crate) fn run(self) -> Result<()> {
        self.output.prepare()?;
        allow_many_files();
        let interruption = Interruption::expect()?;
        // Three phases, and what it takes until all are connected.
        let about = |nodes: u32| 3.0 * self.seconds as f64 + f64::from(nodes) / 300.0;
        let progress = Progress::new(self.nodes.iter().map(|nodes| about(*nodes)).sum());
        let mut all = Vec::new();
        for nodes in &self.nodes {
            progress.now(&format!("{nodes} nodes"));
            let measured = self.measure(*nodes as usize, &interruption);
            // Ctrl-C ends the master, too, and that is no failure of its own.
            interruption.check()?;
            all.push(measured.with_context(|| format!("could not measure {nodes} nodes"))?);
            progress.done(about(*nodes));
        }
        progress.end();
        if let Some(file) = &self.plot {
            let drawn = svg(&curves(&all))?;
            std::fs::write(file, drawn).with_context(|| format!("could not write {}", file.display()))?;
        }
        let mut report = Report::without_gpu("agents", "none: agents are simulated");
        report.plot(curves(&all));
        report.table(table(&all)?);
        self.output.show(&report)
    }

    fn measure(&self, nodes: usize, interruption: &Interruption) -> Result<Measured> {
        let mut master = Master::new(nodes)?;
        master.start(interruption)?;
        let started = Instant::now();
        let crowd = Crowd::start(&master, nodes)?;
        let connected_ms = master.wait_for(nodes, started, interruption)?;
        let phase = Duration::from_secs(self.seconds);
        // Who interrupts us is seen by whoever called this.
        let pass = |span: Duration| drop(interruption.sleep(span));
        let idle = master.over(|| pass(phase))?;
        crowd.become_busy();
        let reporting = master.over(|| pass(phase))?;
        let mut latencies = Vec::new();
        let mut failed = None;
        let busy = master.over(|| {
            let started = Instant::now();
            match self.place(&master, interruption) {
                Ok(taken) => latencies = taken,
                Err(error) => failed = Some(error),
            }
            pass(phase.saturating_sub(started.elapsed()));
        })?;
        interruption.check()?;
        if let Some(error) = failed {
            return Err(error);
        }
        let about: MasterLine = master.get("/v1/master")?;
        let restarted = Instant::now();
        master.restart(interruption)?;
        let rebuilt_ms = master.wait_for(nodes, restarted, interruption)?;
        drop(crowd);
        latencies.sort_unstable();
        let at = |percent| quantile(&latencies, percent).unwrap_or(0);
        let per_node = |used: &Used| used.loopback_bytes as f64 / nodes as f64 / used.seconds;
        Ok(Measured {
            case: format!("{nodes} nodes"),
            nodes,
            connected_ms,
            rebuilt_ms,
            idle_cpu_percent: idle.cpu_percent(),
            busy_cpu_percent: busy.cpu_percent(),
            memory_mib: busy.memory_kib as f64 / 1024.0,
            idle_bytes_per_node_second: per_node(&idle),
            busy_bytes_per_node_second: per_node(&reporting),
            report_lag_p99_us: about.report_lag_p99_us,
            placement_p50_us: at(50),
            placement_p99_us: at(99),
            placed: latencies.len(),
        })
    }

    /// Places containers one after the other; how long each took, in order.
    fn place(&self, master: &Master, interruption: &Interruption) -> Result<Vec<u64>> {
        let wanted = PlaceWanted {
            deadline_us: Some(DEADLINE_US),
            expect_us: Some(EXPECT_US),
            ..PlaceWanted::default()
        };
        let mut latencies = Vec::with_capacity(self.placements as usize);
        for _ in 0..self.placements {
            interruption.check()?;
            let started = Instant::now();
            let _: Placed = wire::client::send(master.socket(), "POST", "/v1/placements", &wanted)?;
            latencies.push(started.elapsed().as_micros() as u64);
            std::thread::sleep(PLACEMENT_GAP);
        }
        Ok(latencies)
    }
}

/// Each agent is a file, and so is each end of it.
fn allow_many_files() {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    let most = rustix::process::Rlimit { current: limit.maximum, ..limit };
    let _ = rustix::process::setrlimit(rustix::process::Resource::Nofile, most);
}

/// How long placements and reports take, by the number of nodes.
fn curves(all: &[Measured]) -> Plot {
    let curve = |name: &str, us: fn(&Measured) -> Option<u64>| {
        let points = all.iter().filter_map(|one| Some((one.nodes as f64, us(one)? as f64 / 1e3)));
        Series::line(name, points.collect())
    };
    let series = vec![
        curve("placement p99", |one| Some(one.placement_p99_us)),
        curve("placement p50", |one| Some(one.placement_p50_us)),
        curve("report lag p99", |one| one.report_lag_p99_us),
    ];
    let title = "One master: time by the number of nodes that report";
    Plot::new("times", title, ("nodes", Scale::Log), ("ms", Scale::Log), series)
}

fn table(all: &[Measured]) -> Result<Table> {
    let heading = [
        "NODES",
        "CONNECTED",
        "REBUILT",
        "CPU IDLE",
        "CPU BUSY",
        "MEMORY",
        "BYTES IDLE",
        "BYTES BUSY",
        "LAG P99",
        "PLACED P50",
        "PLACED P99",
    ];
    let mut table = Table::new("one master; bytes are per node and second", &heading);
    let ms = |us: u64| format!("{:.1} ms", us as f64 / 1000.0);
    for one in all {
        let cells = [
            one.nodes.to_string(),
            format!("{:.1} s", one.connected_ms as f64 / 1000.0),
            format!("{:.1} s", one.rebuilt_ms as f64 / 1000.0),
            format!("{:.1} %", one.idle_cpu_percent),
            format!("{:.1} %", one.busy_cpu_percent),
            format!("{:.0} MiB", one.memory_mib),
            format!("{:.0}", one.idle_bytes_per_node_second),
            format!("{:.0}", one.busy_bytes_per_node_second),
            one.report_lag_p99_us.map_or_else(|| "-".to_owned(), ms),
            ms(one.placement_p50_us),
            ms(one.placement_p99_us),
        ];
        table.row(serde_json::to_value(one).context("could not write a measurement as JSON")?, cells);
    }
    Ok(table)
}
