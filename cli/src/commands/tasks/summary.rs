//! Tasks per container: how many, how many made it, and how long they took.

use super::{aligned, in_words};
use serde::Serialize;
use std::collections::BTreeMap;
use wire::agent::TaskLine;

/// One container's finished tasks.
#[derive(Serialize)]
pub(super) struct Summary {
    container: Option<String>,
    name: Option<String>,
    tasks: usize,
    hits: usize,
    misses: usize,
    /// Null without a deadline.
    hit_rate: Option<f64>,
    run_us_p50: i64,
    run_us_p95: i64,
    run_us_p99: i64,
    /// A float is the better the larger, so the quantiles that matter are the low ones.
    float_us_p50: Option<i64>,
    float_us_p5: Option<i64>,
    float_us_p1: Option<i64>,
}

/// The summaries of finished tasks, by the containers' names.
pub(super) fn of(tasks: &[TaskLine]) -> Vec<Summary> {
    let mut by_container: BTreeMap<(&Option<String>, &Option<String>), Vec<&TaskLine>> = BTreeMap::new();
    for task in tasks.iter().filter(|task| task.end.is_some()) {
        by_container.entry((&task.name, &task.container)).or_default().push(task);
    }
    by_container.into_values().map(|tasks| summary(&tasks)).collect()
}

fn summary(tasks: &[&TaskLine]) -> Summary {
    let count = |hit| tasks.iter().filter(|task| task.hit == Some(hit)).count();
    let (hits, misses) = (count(true), count(false));
    let mut runs: Vec<i64> = tasks.iter().map(|task| task.run_us).collect();
    let mut floats: Vec<i64> = tasks.iter().filter_map(|task| task.float_us).collect();
    runs.sort_unstable();
    floats.sort_unstable();
    Summary {
        container: tasks[0].container.clone(),
        name: tasks[0].name.clone(),
        tasks: tasks.len(),
        hits,
        misses,
        hit_rate: (hits + misses > 0).then(|| hits as f64 / (hits + misses) as f64),
        run_us_p50: quantile(&runs, 50).unwrap_or_default(),
        run_us_p95: quantile(&runs, 95).unwrap_or_default(),
        run_us_p99: quantile(&runs, 99).unwrap_or_default(),
        float_us_p50: quantile(&floats, 50),
        float_us_p5: quantile(&floats, 5),
        float_us_p1: quantile(&floats, 1),
    }
}

/// The value that `percent` of the sorted values do not exceed, by nearest rank.
pub(crate) fn quantile<T: Copy>(sorted: &[T], percent: usize) -> Option<T> {
    let rank = (sorted.len() * percent).div_ceil(100).max(1);
    sorted.get(rank - 1).copied()
}

/// The summaries for people.
pub(super) fn table(summaries: &[Summary]) -> String {
    let heading = ["CONTAINER", "TASKS", "HITS", "RUN P50", "P95", "P99", "FLOAT P50", "P5", "P1"];
    let mut rows = vec![heading.map(str::to_owned).to_vec()];
    let span = |us: Option<i64>| us.map_or_else(|| "-".to_owned(), in_words);
    for summary in summaries {
        let hits = summary.hit_rate.map_or_else(
            || "-".to_owned(),
            |rate| format!("{}/{} ({:.1} %)", summary.hits, summary.hits + summary.misses, rate * 100.0),
        );
        rows.push(vec![
            summary.name.clone().unwrap_or_else(|| "-".to_owned()),
            summary.tasks.to_string(),
            hits,
            in_words(summary.run_us_p50),
            in_words(summary.run_us_p95),
            in_words(summary.run_us_p99),
            span(summary.float_us_p50),
            span(summary.float_us_p5),
            span(summary.float_us_p1),
        ]);
    }
    aligned(&rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quantile_is_a_value_that_was_measured() {
        let sorted: Vec<i64> = (1..=100).collect();
        assert_eq!((quantile(&sorted, 50), quantile(&sorted, 99)), (Some(50), Some(99)));
        assert_eq!(
            (quantile(&[7], 1), quantile(&[7], 99), quantile::<i64>(&[], 50)),
            (Some(7), Some(7), None)
        );
    }
}
