//! `leeway tasks`: finished and running tasks, from the agent or straight from shared memory.

mod picture;
mod summary;
mod trace;

pub(crate) use summary::quantile;

use crate::ask::{self, Socket};
use crate::docker::containers::SHORT_ID;
use crate::failure::Failure;
use crate::timeline::Timeline;
use anyhow::{Context, Result};
use sched::Span;
use std::path::{Path, PathBuf};
use wire::agent::{EventLine, TaskLine};
use wire::client;
use wire::table::{Reader, TableTask, unpadded};

/// List finished and running tasks
#[derive(clap::Args)]
pub struct Tasks {
    /// Only those of one container: its name, its id or the start of its id
    container: Option<String>,
    /// Print one JSON object a line, with stable keys
    #[arg(long)]
    json: bool,
    /// Finished tasks since: how long ago (1h, 10m), or a time such as 2026-11-15T09:00:00Z; a day if not given
    #[arg(long, value_name = "WHEN", value_parser = ask::since)]
    since: Option<i64>,
    /// Per container: tasks, hit rate, and quantiles of run time and float
    #[arg(long)]
    summary: bool,
    /// Read the table in shared memory, without asking the agent: what runs, and each container's latest task
    #[arg(long, conflicts_with_all = ["since", "summary"])]
    shm: bool,
    /// Write a trace of tasks, holds and deadlines, for Perfetto (ui.perfetto.dev) or Chrome
    #[arg(long, value_name = "FILE", conflicts_with_all = ["json", "summary", "shm"])]
    trace: Option<PathBuf>,
    /// Write the timeline as a picture
    #[arg(long, value_name = "FILE", conflicts_with_all = ["json", "summary", "shm"])]
    svg: Option<PathBuf>,
    /// The table in shared memory
    #[arg(long, value_name = "FILE", env = "LEEWAY_TABLE", default_value = wire::table::PATH)]
    table: PathBuf,
    #[command(flatten)]
    socket: Socket,
}

impl Tasks {
    pub(crate) fn run(self) -> Result<()> {
        let tasks = if self.shm {
            let mut tasks = from_table(&self.table)?;
            tasks.retain(|task| self.is_wanted(task));
            tasks
        } else {
            self.ask()?
        };
        if self.trace.is_some() || self.svg.is_some() {
            return self.draw(tasks);
        }
        let text = match (self.summary, self.json) {
            (true, true) => lines(&summary::of(&tasks))?,
            (true, false) => summary::table(&summary::of(&tasks)),
            (false, true) => lines(&tasks)?,
            (false, false) => table(&tasks),
        };
        super::print_all(text.as_bytes())
    }

    fn ask(&self) -> Result<Vec<TaskLine>, Failure> {
        let mut query = Vec::new();
        query.extend(self.since.map(|since_us| format!("since_us={since_us}")));
        query.extend(self.container.as_ref().map(|name| format!("container={}", client::escaped(name))));
        let path = format!("/v1/tasks?{}", query.join("&"));
        client::get(&self.socket.path, &path).map_err(|error| ask::failure(&error))
    }

    /// Writes the timeline to the files that were named.
    fn draw(&self, tasks: Vec<TaskLine>) -> Result<()> {
        let now_us = jiff::Timestamp::now().as_microsecond();
        let timeline = Timeline::of(tasks, &self.news()?);
        for (file, drawn) in [
            (&self.trace, trace::write as fn(&Timeline, i64) -> String),
            (&self.svg, picture::draw as fn(&Timeline, i64) -> String),
        ] {
            if let Some(file) = file {
                let what = || format!("could not write {}", file.display());
                std::fs::write(file, drawn(&timeline, now_us)).with_context(what)?;
            }
        }
        Ok(())
    }

    /// What the agent has to say of holds.
    fn news(&self) -> Result<Vec<EventLine>, Failure> {
        let mut events = Vec::new();
        let path = format!("/v1/events?follow=false&since_us={}", self.since.unwrap_or(0));
        client::follow(&self.socket.path, &path, |data| {
            events.extend(serde_json::from_str(data).ok());
            true
        })
        .map_err(|error| ask::failure(&error))?;
        Ok(events)
    }

    fn is_wanted(&self, task: &TaskLine) -> bool {
        self.container.as_ref().is_none_or(|wanted| {
            task.name.as_ref() == Some(wanted)
                || task.container.as_ref().is_some_and(|id| id.starts_with(wanted.as_str()))
        })
    }
}

fn from_table(path: &Path) -> Result<Vec<TaskLine>> {
    let unreadable = |error: wire::table::Unreadable| {
        let cause = std::error::Error::source(&error).map_or_else(String::new, |cause| format!(": {cause}"));
        Failure::new(format!("could not read the task table {}: {error}{cause}", path.display()))
            .help("an agent publishes it; name another one's with --table")
    };
    let reader = Reader::open(path).map_err(unreadable)?;
    let mut words = Vec::new();
    reader.read(&mut words).map_err(unreadable)?;
    let now_us = jiff::Timestamp::now().as_microsecond();
    Ok(words.iter().map(TableTask::from_words).map(|task| told(&task, now_us)).collect())
}

fn told(task: &TableTask, now_us: i64) -> TaskLine {
    let text = |bytes| Some(unpadded(bytes)).filter(|text: &String| !text.is_empty());
    let time = |us| jiff::Timestamp::from_microsecond(us).unwrap_or_default().to_string();
    let float_us = task.float_us(now_us);
    TaskLine {
        container: text(&task.container),
        name: text(&task.name),
        pid: task.pid,
        gpu: task.gpu,
        mode: task.mode,
        start: time(task.start_us),
        end: task.end_us.map(time),
        run_us: task.end_us.unwrap_or(now_us) - task.start_us,
        deadline_us: task.deadline_us,
        float_us,
        hit: task.hit.or_else(|| float_us.filter(|float| *float < 0).map(|_| false)),
        held_us: task.held_us,
        held: task.held,
        gpu_memory_bytes: task.gpu_memory_bytes,
        gpu_core_ratio: f64::from(task.core_permille) / 1000.0,
        approximate: task.approximate,
    }
}

fn lines<T: serde::Serialize>(values: &[T]) -> Result<String> {
    let mut text = String::new();
    for value in values {
        text += &serde_json::to_string(value).context("could not write a task as JSON")?;
        text.push('\n');
    }
    Ok(text)
}

fn table(tasks: &[TaskLine]) -> String {
    let heading =
        ["CONTAINER", "PID", "GPU", "STARTED", "STATE", "RUN", "DEADLINE", "FLOAT", "HELD", "MEMORY"];
    let mut rows = vec![heading.map(str::to_owned).to_vec()];
    rows.extend(tasks.iter().map(row));
    aligned(&rows)
}

fn row(task: &TaskLine) -> Vec<String> {
    let short = |id: &String| id.get(..SHORT_ID).unwrap_or(id).to_owned();
    let who = task.name.clone().or_else(|| task.container.as_ref().map(short));
    let state = match (&task.end, task.hit) {
        (None, Some(false)) if task.held => "held, late",
        (None, _) if task.held => "held",
        (None, Some(false)) => "running late",
        (None, _) => "running",
        (Some(_), Some(true)) => "hit",
        (Some(_), Some(false)) => "missed",
        (Some(_), None) => "done",
    };
    let span = |us: Option<i64>| us.map_or_else(|| "-".to_owned(), in_words);
    let start = format!("{}{}", if task.approximate { "~" } else { "" }, clock_time(&task.start));
    vec![
        who.unwrap_or_else(|| "-".to_owned()),
        task.pid.to_string(),
        task.gpu.to_string(),
        start,
        state.to_owned(),
        in_words(task.run_us),
        span(task.deadline_us),
        span(task.float_us),
        in_words(task.held_us),
        format!("{} MiB", task.gpu_memory_bytes.div_ceil(1 << 20)),
    ]
}

/// A span as people read it: nobody reads the microseconds of a second.
pub(crate) fn in_words(us: i64) -> String {
    let step = if us.abs() >= 1_000_000 { 1_000 } else { 10 };
    Span::from_micros(us / step * step).to_string()
}

/// The time of day, on this machine's clock.
fn clock_time(time: &str) -> String {
    let time: Option<jiff::Timestamp> = time.parse().ok();
    time.map_or_else(String::new, |time| {
        time.to_zoned(jiff::tz::TimeZone::system()).strftime("%H:%M:%S%.3f").to_string()
    })
}

/// Columns as wide as their widest cell.
pub(crate) fn aligned(rows: &[Vec<String>]) -> String {
    let columns = rows.first().map_or(0, Vec::len);
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut text = String::new();
    for row in rows {
        let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}"));
        text += cells.collect::<Vec<_>>().join("   ").trim_end();
        text.push('\n');
    }
    text
}
