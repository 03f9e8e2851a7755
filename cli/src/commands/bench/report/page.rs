//! The report as one page that needs nothing else: no script, no font, no picture from elsewhere.

use super::{Part, Report, Table, figures, svg};
use anyhow::{Context, Result};
use wire::bench::BenchReport;

const STYLE: &str = "body { font: 15px/1.5 system-ui, sans-serif; max-width: 75rem; margin: 2rem auto; padding: 0 1rem; color: #222 }
table { border-collapse: collapse; margin: .5rem 0 2rem; font-variant-numeric: tabular-nums }
th, td { text-align: left; padding: .2rem .9rem .2rem 0; border-bottom: 1px solid #ddd; white-space: nowrap }
th { font-size: .8rem; color: #555 } h1 { margin-bottom: 0 } svg { max-width: 100%; height: auto }
.wide { overflow-x: auto } code, pre { font-size: .85rem } pre { white-space: pre-wrap; word-break: break-all }";

pub(super) fn of(report: &Report, wire: &BenchReport) -> Result<String> {
    let name = escaped(&wire.benchmark);
    let driver =
        wire.machine.driver.as_deref().map_or_else(String::new, |driver| format!(", driver {driver}"));
    let when = jiff::Timestamp::now().strftime("%Y-%m-%d %H:%M UTC");
    let mut body = format!(
        "<h1>leeway bench {name}</h1>\n<p>On {}{}, {when}.<br><code>{}</code></p>\n",
        escaped(&wire.machine.gpu),
        escaped(&driver),
        escaped(&wire.command)
    );
    for plot in &report.plots {
        body += &format!("<figure>{}</figure>\n", svg(plot)?);
    }
    for part in &report.parts {
        body += &match part {
            Part::Table(table) => tabled(table),
            Part::Case(case) => {
                let rows = figures(case).into_iter().map(|(name, value)| vec![name.to_owned(), value]);
                let title = case["case"].as_str().unwrap_or_default();
                section(title, None, &rows.collect::<Vec<_>>())
            }
        };
    }
    let json = serde_json::to_string(wire).context("could not write the report as JSON")?;
    body +=
        &format!("<details><summary>All figures as JSON</summary><pre>{}</pre></details>\n", escaped(&json));
    Ok(format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<title>leeway bench {name}</title>\n\
         <style>{STYLE}</style>\n</head>\n<body>\n{body}</body>\n</html>\n"
    ))
}

fn tabled(table: &Table) -> String {
    let rows: Vec<Vec<String>> = table.rows.iter().map(|(_, cells)| cells.clone()).collect();
    section(&table.title, Some(&table.heading), &rows)
}

fn section(title: &str, heading: Option<&[&'static str]>, rows: &[Vec<String>]) -> String {
    let row = |tag: &str, cells: &[String]| {
        let cells: String =
            cells.iter().map(|cell| format!("<{tag}>{}</{tag}>", escaped(cell))).collect::<Vec<_>>().concat();
        format!("<tr>{cells}</tr>\n")
    };
    let heading = heading.map_or_else(String::new, |titles| {
        row("th", &titles.iter().map(|title| (*title).to_owned()).collect::<Vec<_>>())
    });
    let rows = rows.iter().map(|cells| row("td", cells)).collect::<Vec<_>>().concat();
    format!("<h2>{}</h2>\n<div class=\"wide\"><table>\n{heading}{rows}</table></div>\n", escaped(title))
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
