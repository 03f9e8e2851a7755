//! Arrivals from a public trace, with run times and deadlines put to them.
//!
//! Two kinds of file are read, told apart by their header:
//!
//! - inference requests (`TIMESTAMP,ContextTokens,GeneratedTokens`): the run time is modelled as
//!   20 ms + 0.1 ms per token of context + 10 ms per generated token, as on one large model;
//! - pods of a cluster (`…,gpu_milli,…,creation_time,deletion_time,scheduled_time`): the run time is from
//!   scheduling to deletion; days of it are shrunk to seconds, and pods without a GPU are left out.
//!
//! Neither has deadlines: a deadline is α times the run time, α drawn from 1.5 to 4.

use super::{ALPHA_MAX, ALPHA_MIN, GPU_MEMORY, Phases, TaskSpec, Workload};
use crate::luck::{Luck, Purpose};
use rand::RngExt;
use sched::{Mode, Span};

const REQUEST_US: f64 = 20_000.0;
const CONTEXT_TOKEN_US: f64 = 100.0;
const GENERATED_TOKEN_US: f64 = 10_000.0;
/// A second of a pod's life is simulated as this many microseconds.
const POD_SECOND_US: f64 = 100.0;
const KERNEL: Span = Span::from_millis(10);
/// A task has about so many kernels at most: hours in steps of 10 ms would take hours to simulate.
const KERNELS_MAX: i64 = 500;
/// A request or a pod that shares a GPU needs little of it; the traces do not say how much memory.
const MEMORY: u64 = 1 << 24;
/// The longest task: a day.
const RUN_MAX_US: f64 = 24.0 * 3600.0 * 1e6;
const GAP: Span = Span::from_micros(10);

/// What is wrong with an arrivals file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {what}")]
pub struct ArrivalsError {
    /// The line, counted from one.
    pub line: usize,
    /// Which value, and what is accepted.
    pub what: String,
}

/// Arrival and run time, in microseconds.
type Row = (f64, f64);

/// Reads one line's cells; none for a line that is no GPU task.
type ReadRow = dyn Fn(&[&str]) -> Result<Option<Row>, String>;

/// Reads arrivals, scaled in time so that the GPU's load is `load` if that is given, `tasks` at most.
pub fn arrivals(
    name: &str,
    text: &str,
    seed: u64,
    load: Option<f64>,
    tasks: Option<usize>,
) -> Result<Workload, ArrivalsError> {
    let mut rows = rows(text)?;
    rows.sort_by(|a, b| a.0.total_cmp(&b.0));
    rows.truncate(tasks.unwrap_or(usize::MAX));
    let stretch = load.map_or(1.0, |load| stretch(&rows, load));
    let first = rows.first().map_or(0.0, |row| row.0);
    let mut luck = Luck(seed).stream(Purpose::Deadlines);
    let tasks: Vec<TaskSpec> = rows
        .iter()
        .enumerate()
        .map(|(index, (arrives, run))| {
            let work = Span::from_micros(*run as i64);
            let kernel = KERNEL.max(work.scaled(1, KERNELS_MAX));
            let phases = Phases { gap: GAP, ..Phases::kernels_of(work, kernel) };
            let alpha = luck.random_range(ALPHA_MIN..=ALPHA_MAX);
            let deadline = Span::from_micros((phases.solo().as_micros() as f64 * alpha) as i64);
            TaskSpec {
                name: format!("task-{}", index + 1),
                container: format!("task-{}", index + 1),
                gpu: 0,
                arrives: Span::from_micros(((arrives - first) * stretch) as i64),
                deadline: Some(deadline.min(sched::Deadline::MAX)),
                expect: Some(phases.solo()),
                mode: Mode::Process,
                managed: true,
                memory_declared: true,
                memory: MEMORY,
                phases,
            }
        })
        .collect();
    let name = format!("{} arrivals of {name}", tasks.len());
    Ok(Workload { name, gpus: vec![GPU_MEMORY], tasks, alpha: Some([ALPHA_MIN, ALPHA_MAX]) })
}

/// By how much time must be stretched for the work to load the GPU that much.
fn stretch(rows: &[Row], load: f64) -> f64 {
    let work: f64 = rows.iter().map(|row| row.1).sum();
    let length = rows.last().map_or(0.0, |last| last.0 - rows[0].0);
    if length > 0.0 { work / load / length } else { 1.0 }
}

fn rows(text: &str) -> Result<Vec<Row>, ArrivalsError> {
    let header = text.lines().next().unwrap_or("");
    let columns: Vec<&str> = header.trim_start_matches('\u{feff}').split(',').map(str::trim).collect();
    let at = |name: &str| columns.iter().position(|column| *column == name);
    let requests = (at("TIMESTAMP"), at("ContextTokens"), at("GeneratedTokens"));
    let pods = (at("gpu_milli"), at("scheduled_time"), at("deletion_time"));
    let row: Box<ReadRow> = match (requests, pods) {
        ((Some(time), Some(context), Some(generated)), _) => {
            Box::new(move |cells| request(cells, time, context, generated))
        }
        (_, (Some(gpu), Some(start), Some(end))) => Box::new(move |cells| pod(cells, gpu, start, end)),
        _ => {
            let what = format!(
                "'{header}' is no known header: accepted are TIMESTAMP,ContextTokens,GeneratedTokens, or one \
                 with gpu_milli, scheduled_time and deletion_time"
            );
            return Err(ArrivalsError { line: 1, what });
        }
    };
    let mut rows = Vec::new();
    for (index, line) in text.lines().enumerate().skip(1).filter(|(_, line)| !line.trim().is_empty()) {
        let cells: Vec<&str> = line.split(',').map(str::trim).collect();
        let read = row(&cells).and_then(|row| match row {
            Some((_, run)) if run > RUN_MAX_US => {
                Err(format!("a run of {:.0}s is too long: accepted is at most a day", run / 1e6))
            }
            row => Ok(row),
        });
        rows.extend(read.map_err(|what| ArrivalsError { line: index + 1, what })?);
    }
    if rows.is_empty() {
        return Err(ArrivalsError { line: 1, what: "there is no arrival below the header".to_owned() });
    }
    Ok(rows)
}

fn request(cells: &[&str], time: usize, context: usize, generated: usize) -> Result<Option<Row>, String> {
    let run = REQUEST_US
        + CONTEXT_TOKEN_US * number(cells, context)?
        + GENERATED_TOKEN_US * number(cells, generated)?;
    Ok(Some((timestamp(cells.get(time).copied().unwrap_or(""))?, run)))
}

fn pod(cells: &[&str], gpu: usize, start: usize, end: usize) -> Result<Option<Row>, String> {
    // Pods that were never scheduled have an empty cell there.
    if cells.get(start).is_none_or(|cell| cell.is_empty()) || number(cells, gpu)? == 0.0 {
        return Ok(None);
    }
    let (start, end) = (number(cells, start)?, number(cells, end)?);
    Ok((end > start).then_some((start * POD_SECOND_US, (end - start) * POD_SECOND_US)))
}

fn number(cells: &[&str], column: usize) -> Result<f64, String> {
    let cell = cells.get(column).copied().unwrap_or("");
    let number = cell.parse::<f64>().ok().filter(|number| number.is_finite() && *number >= 0.0);
    number.ok_or_else(|| format!("'{cell}' is no number: accepted are 0 and more"))
}

/// `2023-11-16 18:17:03.9799600` in microseconds since its midnight; the trace covers one hour of one day.
fn timestamp(cell: &str) -> Result<f64, String> {
    let refused = || format!("'{cell}' is no moment: accepted is 2023-11-16 18:17:03.97");
    let clock = cell.split_whitespace().nth(1).ok_or_else(refused)?;
    let parts: Option<Vec<f64>> = clock.split(':').map(|part| part.parse().ok()).collect();
    match parts.as_deref() {
        Some([hours, minutes, seconds]) if [hours, minutes, seconds].iter().all(|part| part.is_finite()) => {
            Ok(((hours * 60.0 + minutes) * 60.0 + seconds) * 1e6)
        }
        _ => Err(refused()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_become_tasks_with_deadlines() {
        let text = "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:17:03.50,1000,10\n\
                    2023-11-16 18:17:04.50,0,0\n";
        let tasks = arrivals("requests", text, 1, None, None).unwrap().tasks;
        assert_eq!(tasks[0].phases.work(), Span::from_millis(220));
        assert_eq!(tasks[1].arrives, Span::from_secs(1));
        let alpha = tasks[0].deadline.unwrap().as_micros() as f64 / tasks[0].phases.solo().as_micros() as f64;
        assert!((1.49..=4.01).contains(&alpha), "{alpha}");
    }

    #[test]
    fn pods_that_never_ran_or_use_no_gpu_are_left_out() {
        let text = "name,gpu_milli,creation_time,deletion_time,scheduled_time\na,500,0,100,10\nb,0,0,100,10\nc,500,0,9,\n";
        assert_eq!(arrivals("pods", text, 1, None, None).unwrap().tasks.len(), 1);
    }

    #[test]
    fn a_wrong_cell_is_named_with_its_line() {
        let text = "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:17:03.50,many,10\n";
        let error = arrivals("requests", text, 1, None, None).unwrap_err().to_string();
        assert!(error.starts_with("line 2: 'many' is no number"), "{error}");
        assert!(
            arrivals("x", "a,b\n1,2\n", 1, None, None).unwrap_err().to_string().starts_with("line 1: 'a,b'")
        );
    }
}
