//! What a benchmark found: cases and tables, curves, and the ways they are shown.
//!
//! Every benchmark fills one of these and hands it over. It becomes text for people, JSON or CSV for programs, and with `--report DIR` a
//! page with pictures that needs nothing but itself.

mod csv;
mod page;
mod plot;

use crate::commands::tasks::aligned;
use crate::failure::Failure;
use anyhow::{Context, Result};
use serde_json::Value;
use std::path::{Path, PathBuf};
use wire::agent::NodeLine;
use wire::bench::{BenchMachine, BenchReport};

pub(super) use plot::{Plot, Scale, Series, svg};

/// How the results are wanted.
#[derive(clap::Args)]
pub(super) struct Output {
    /// Print one JSON object
    #[arg(long, conflicts_with = "csv")]
    json: bool,
    /// Print one line of comma-separated values for each case
    #[arg(long)]
    csv: bool,
    /// Also write a page, pictures, JSON and CSV into this folder
    #[arg(long, value_name = "DIR")]
    report: Option<PathBuf>,
}

/// All of it, in the order it is shown.
pub(super) struct Report {
    benchmark: &'static str,
    machine: BenchMachine,
    parts: Vec<Part>,
    plots: Vec<Plot>,
}

enum Part {
    /// Shown as a list, a line per figure; it has a key `case`.
    Case(Value),
    Table(Table),
}

/// Cases of one kind, one line each.
pub(super) struct Table {
    title: String,
    heading: Vec<&'static str>,
    rows: Vec<(Value, Vec<String>)>,
}

impl Table {
    pub(super) fn new(title: impl Into<String>, heading: &[&'static str]) -> Self {
        Self { title: title.into(), heading: heading.to_vec(), rows: Vec::new() }
    }

    /// A case for programs, which has a key `case`, and its line for people: a cell for each heading. The case is null where another
    /// table's has the same figures.
    pub(super) fn row(&mut self, case: Value, cells: impl Into<Vec<String>>) {
        let cells = cells.into();
        debug_assert_eq!(
            self.heading.len(),
            cells.len(),
            "a row of {} has too many or too few cells",
            self.title
        );
        self.rows.push((case, cells));
    }

    fn text(&self) -> String {
        let heading = self.heading.iter().map(|title| (*title).to_owned()).collect();
        let rows: Vec<Vec<String>> =
            std::iter::once(heading).chain(self.rows.iter().map(|(_, cells)| cells.clone())).collect();
        format!("\n{}\n{}", self.title, aligned(&rows))
    }
}

impl Report {
    /// For what was measured on the first GPU of a machine.
    pub(super) fn new(benchmark: &'static str, node: &NodeLine) -> Self {
        let gpu = node.gpus.first().map(|gpu| gpu.name.clone()).unwrap_or_default();
        let simulated = gpu == ::gpu::NAME;
        let driver = std::fs::read_to_string("/sys/module/nvidia/version").ok();
        let driver = if simulated { Some(::gpu::DRIVER_VERSION.to_owned()) } else { driver };
        let driver = driver.map(|version| version.trim().to_owned());
        Self::on(benchmark, BenchMachine { gpu, driver, simulated })
    }

    /// For what needs no GPU; `gpu` says why.
    pub(super) fn without_gpu(benchmark: &'static str, gpu: &str) -> Self {
        Self::on(benchmark, BenchMachine { gpu: gpu.to_owned(), driver: None, simulated: true })
    }

    fn on(benchmark: &'static str, machine: BenchMachine) -> Self {
        Self { benchmark, machine, parts: Vec::new(), plots: Vec::new() }
    }

    pub(super) fn case(&mut self, case: Value) {
        self.parts.push(Part::Case(case));
    }

    pub(super) fn table(&mut self, table: Table) {
        if !table.rows.is_empty() {
            self.parts.push(Part::Table(table));
        }
    }

    /// Curves. What is no number has no place in one; a curve without points says nothing and is left out.
    pub(super) fn plot(&mut self, mut plot: Plot) {
        plot.series.iter_mut().for_each(Series::leave_out_what_is_no_number);
        plot.series.retain(|series| !series.points.is_empty());
        if !plot.series.is_empty() {
            self.plots.push(plot);
        }
    }

    /// What `--json` prints.
    fn wire(&self) -> BenchReport {
        let words: Vec<String> = std::env::args().skip(1).collect();
        let results = self.parts.iter().flat_map(|part| match part {
            Part::Case(case) => vec![case.clone()],
            Part::Table(table) => table.rows.iter().map(|(case, _)| case.clone()).collect(),
        });
        BenchReport {
            benchmark: self.benchmark.to_owned(),
            command: format!("leeway {}", words.join(" ")),
            machine: self.machine.clone(),
            results: results.filter(|case| !case.is_null()).collect(),
        }
    }

    fn text(&self) -> String {
        let mut text = format!("on: {}\n", self.machine.gpu);
        for part in &self.parts {
            text += &match part {
                Part::Table(table) => table.text(),
                Part::Case(case) => listed(case),
            };
        }
        text
    }
}

/// The name of a case, then a line for each of its figures.
fn listed(case: &Value) -> String {
    let mut text = format!("\n{}\n", case["case"].as_str().unwrap_or_default());
    for (name, value) in figures(case) {
        text += &format!("  {name:<28} {value}\n");
    }
    text
}

/// The figures of a case, as text.
fn figures(case: &Value) -> Vec<(&str, String)> {
    let all = case.as_object().into_iter().flatten().filter(|(name, _)| *name != "case");
    all.map(|(name, value)| (name.as_str(), worded(value))).collect()
}

fn worded(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

impl Output {
    /// Makes the folder of the report, if one is wanted: better now than after minutes of measuring.
    pub(super) fn prepare(&self) -> Result<()> {
        let Some(folder) = &self.report else { return Ok(()) };
        std::fs::create_dir_all(folder)
            .map_err(|error| {
                Failure::input(format!("--report: could not make {}: {error}", folder.display()))
            })
            .map_err(Into::into)
    }

    /// On stdout, and into the folder; in this order, so that a full disk costs nobody what was measured.
    pub(super) fn show(&self, report: &Report) -> Result<()> {
        let wire = report.wire();
        let json = || serde_json::to_string(&wire).context("could not write the report as JSON");
        let text = match (self.json, self.csv) {
            (true, _) => json()? + "\n",
            (_, true) => csv::of(&wire.results),
            _ => report.text(),
        };
        crate::commands::print_all(text.as_bytes())?;
        if let Some(folder) = &self.report {
            self.prepare()?;
            write(folder, report, ".json", &(json()? + "\n"))?;
            write(folder, report, ".csv", &csv::of(&wire.results))?;
            write(folder, report, ".html", &page::of(report, &wire)?)?;
            for plot in &report.plots {
                write(folder, report, &format!("-{}.svg", plot.name), &svg(plot)?)?;
            }
        }
        Ok(())
    }
}

/// Files are named after the benchmark, so that several share a folder.
fn write(folder: &Path, report: &Report, ending: &str, text: &str) -> Result<()> {
    let file = folder.join(format!("{}{ending}", report.benchmark));
    std::fs::write(&file, text).with_context(|| format!("could not write {}", file.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::bench::figures::Spread;
    use serde_json::json;

    fn example() -> Report {
        let mut report = Report::without_gpu("example", "none");
        let mut table = Table::new("walls", &["TASKS", "WALL"]);
        table.row(json!({ "case": "ten", "wall_s": 10.5 }), ["10".to_owned(), "10.5 s".to_owned()]);
        report.table(table);
        report.case(json!({ "case": "alone, <first>", "note": "quick, \"very\"" }));
        let points = vec![(1.0, 1.0), (5.0, f64::NAN), (10.0, 10.5)];
        let series = vec![Series::line("wall", points), Series::line("nothing", vec![(1.0, f64::NAN)])];
        report.plot(Plot::new("wall", "Wall time", ("tasks", Scale::Linear), ("s", Scale::Log), series));
        report.plot(Plot::bars("kinds", "Kinds", "s", vec![("first".to_owned(), Spread::of([1.0, 2.0]))]));
        report
    }

    #[test]
    fn one_report_is_text_json_csv_and_a_page() {
        let folder = tempfile::tempdir().unwrap();
        let output = Output { json: false, csv: false, report: Some(folder.path().join("new")) };
        let report = example();
        assert!(report.text().contains("TASKS   WALL\n10      10.5 s\n"), "{}", report.text());
        assert!(report.text().contains("alone, <first>\n  note"), "{}", report.text());
        output.show(&report).unwrap();
        let read = |name: &str| std::fs::read_to_string(folder.path().join("new").join(name)).unwrap();
        let json: Value = serde_json::from_str(&read("example.json")).unwrap();
        assert_eq!(json["results"][0]["wall_s"], 10.5);
        assert_eq!(
            read("example.csv"),
            "case,wall_s,note\nten,10.5,\n\"alone, <first>\",,\"quick, \"\"very\"\"\"\n"
        );
        let page = read("example.html");
        assert!(page.contains("<svg") && page.contains("alone, &lt;first&gt;"), "{page}");
        assert!(!page.contains("src=") && !page.contains("href="), "the page asks somebody: {page}");
        let wall = read("example-wall.svg");
        assert!(wall.contains("Wall time") && !wall.contains("nothing"), "{wall}");
        assert!(read("example-kinds.svg").contains("first"));
    }
}
