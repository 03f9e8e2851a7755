//! Telling the story as it happens: lines for people, with live bars where there is a terminal; or lines of JSON.

use super::cast::{CAST, Part};
use super::ground::On;
use crate::commands::print_if_read;
use crate::commands::tasks::{aligned, in_words};
use anyhow::{Context, Result};
use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use std::collections::BTreeMap;
use std::time::Instant;
use wire::agent::{EventLine, TaskLine};
use wire::demo::{DemoEnd, DemoEvent, DemoLine, DemoRow, DemoStage};

/// What a plain process without root lacks.
const WITHOUT_DEADLINES: &str = "Plain processes have no labels, and so no deadlines. \
    As root (`sudo`), each part runs in a cgroup with its deadline; with Docker, in a container.";

/// Who tells it.
pub(super) struct Narrator {
    json: bool,
    start: Instant,
    /// On standard error, and only where that is a terminal.
    bars: MultiProgress,
    by_part: BTreeMap<&'static str, ProgressBar>,
    /// Nobody reads any more.
    pub(super) unread: bool,
}

impl Narrator {
    pub(super) fn new(json: bool) -> Self {
        let (bars, by_part) = (MultiProgress::new(), BTreeMap::new());
        Self { json, start: Instant::now(), bars, by_part, unread: false }
    }

    /// Who and what is on the stage; from here on time counts.
    pub(super) fn opens(&mut self, stage: DemoStage, on: On) -> Result<()> {
        self.start = Instant::now();
        if self.json {
            return self.line(&DemoLine::Stage(stage));
        }
        let gib = stage.gpu_memory_bytes >> 30;
        let mut text = format!(
            "One GPU ({}, {gib} GiB), an agent that watches it (policy {}), and {} containers that share it.\n",
            stage.gpu,
            stage.policy,
            CAST.len()
        );
        text += match on {
            On::Docker => "The containers are Docker's, from an empty image.\n",
            On::Cgroups => "The containers are plain processes in cgroups.\n",
            On::Processes => "The containers are plain processes.\n",
        };
        for reason in stage.because {
            text += &format!("({reason})\n");
        }
        if on == On::Processes {
            text += &format!("{WITHOUT_DEADLINES}\n");
        }
        let deadline = |part: &Part| match part.deadline {
            Some(deadline) if on != On::Processes => format!("deadline {deadline}"),
            _ => "no deadline".to_owned(),
        };
        let rows: Vec<Vec<String>> = CAST
            .iter()
            .map(|part| vec![format!("  {}", part.name), deadline(part), part.does.to_owned()])
            .collect();
        self.say(&format!("{text}\n{}\n", aligned(&rows)))
    }

    /// One piece of the agent's news.
    pub(super) fn event(&mut self, part: &Part, event: EventLine) -> Result<()> {
        if self.json {
            return self.line(&DemoLine::Event(DemoEvent { who: part.name.to_owned(), event }));
        }
        let seconds = self.start.elapsed().as_secs_f64();
        self.say(&format!("{seconds:>5.1} s  {:<9} {:<7} {}\n", event.event, part.name, event.reason))
    }

    /// How a part's task stands now.
    pub(super) fn live(&mut self, part: &'static Part, task: &TaskLine) {
        if self.json || self.bars.is_hidden() {
            return;
        }
        let bar = self.by_part.entry(part.name).or_insert_with(|| self.bars.add(new_bar(part, task)));
        bar.set_style(style(task));
        bar.set_message(standing(task));
        bar.set_position(task.run_us.try_into().unwrap_or_default());
    }

    /// The closing table, and what to do next.
    pub(super) fn closes(&mut self, rows: Vec<DemoRow>) -> Result<()> {
        self.take_bars_away();
        let hits = rows.iter().map(|row| row.hits).sum();
        let misses = rows.iter().map(|row| row.misses).sum();
        let show_us = self.start.elapsed().as_micros() as i64;
        if self.json {
            for row in rows {
                self.line(&DemoLine::Row(row))?;
            }
            return self.line(&DemoLine::End(DemoEnd { hits, misses, show_us }));
        }
        let mut text = format!("\n{}\n", table(&rows));
        if hits + misses > 0 {
            text += &format!("{hits} of {} deadlines were met.\n", hits + misses);
        }
        for row in rows.iter().filter(|row| row.misses > 0) {
            let part = CAST.iter().find(|part| part.name == row.who);
            text += &part.and_then(|part| part.missed).map_or_else(String::new, |why| format!("{why}\n"));
        }
        text += "\nNext:\n\
            \x20 leeway sim --preset paper --timeline   what each policy makes of one GPU, in a simulated world\n\
            \x20 leeway run --deadline 2s IMAGE         give a container of your own a deadline\n\
            \x20 sudo leeway agent                      watch the GPUs of this machine; then: leeway ps, leeway events\n";
        self.say(&text)
    }

    /// Plain words, which JSON has no place for.
    pub(super) fn adds(&mut self, text: &str) -> Result<()> {
        if self.json { Ok(()) } else { self.say(text) }
    }

    fn take_bars_away(&mut self) {
        // Each by itself: one that is only dropped draws the others once more.
        std::mem::take(&mut self.by_part).into_values().for_each(|bar| bar.finish_and_clear());
    }

    fn line(&mut self, line: &DemoLine) -> Result<()> {
        let text = serde_json::to_string(line).context("could not write a line as JSON")?;
        self.say(&format!("{text}\n"))
    }

    fn say(&mut self, text: &str) -> Result<()> {
        self.unread |= !self.bars.suspend(|| print_if_read(text.as_bytes()))?;
        Ok(())
    }
}

impl Drop for Narrator {
    /// A show that ends early leaves no half-drawn bars.
    fn drop(&mut self) {
        self.take_bars_away();
    }
}

/// A bar as long as the deadline.
fn new_bar(part: &'static Part, task: &TaskLine) -> ProgressBar {
    let length = task.deadline_us.unwrap_or(1).try_into().unwrap_or(1);
    ProgressBar::new(length).with_style(style(task)).with_prefix(part.name)
}

/// Red once the deadline is missed; without a deadline, there is nothing to draw.
fn style(task: &TaskLine) -> ProgressStyle {
    let template = match (task.deadline_us, task.hit) {
        (None, _) => "  {prefix:<7} {msg}",
        (Some(_), Some(false)) => "  {prefix:<7} {bar:40.red} {msg}",
        (Some(_), _) => "  {prefix:<7} {bar:40.green} {msg}",
    };
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar())
}

/// How a task stands, in a few words.
fn standing(task: &TaskLine) -> String {
    // Tenths of a second: what changes faster cannot be read.
    let about = |us: i64| in_words(us / 100_000 * 100_000);
    match (&task.end, task.hit, task.float_us) {
        (None, _, Some(float)) if float < 0 => format!("missed, late by {}", about(-float)),
        (None, _, Some(float)) => format!("float {}", about(float)),
        (None, _, None) => format!("runs for {}", about(task.run_us)),
        (Some(_), Some(true), Some(float)) => format!("hit, float {}", about(float)),
        (Some(_), Some(true), None) => "hit".to_owned(),
        (Some(_), Some(false), _) => "missed".to_owned(),
        (Some(_), None, _) => "done".to_owned(),
    }
}

fn table(rows: &[DemoRow]) -> String {
    let heading = ["CONTAINER", "DEADLINE", "TASKS", "RUN", "FLOAT", "RESULT"];
    let span = |us: Option<i64>| us.map_or_else(|| "-".to_owned(), in_words);
    let result = |row: &DemoRow| match (row.tasks, row.hits, row.misses) {
        (0, ..) => "not seen",
        (_, 0, 0) => "done",
        (_, _, 0) => "hit",
        _ => "missed",
    };
    let mut lines = vec![heading.map(str::to_owned).to_vec()];
    lines.extend(rows.iter().map(|row| {
        vec![
            row.who.clone(),
            span(row.deadline_us),
            row.tasks.to_string(),
            in_words(row.run_us),
            span(row.float_us),
            result(row).to_owned(),
        ]
    }));
    aligned(&lines)
}
