//! What each kind of agent took, and what it left the tasks, in a table and in bars.

use super::{Overhead, Taken, Watch};
use crate::commands::bench::figures::{Spread, add, rounds_told};
use crate::commands::bench::report::{Plot, Report, Table};
use serde_json::json;

/// A figure of one round.
type Figure = fn(&Taken) -> f64;

/// What is written down of each kind of agent: the median of the rounds, with the least and the most.
const FIGURES: [(&str, Figure); 6] = [
    ("tasks_per_second", |one| one.tasks.tasks_per_second),
    ("task_s", |one| one.tasks.task_s),
    ("agent_cpu_percent", |one| one.agents(|used| used.cpu_ratio * 100.0)),
    ("agent_memory_mib", |one| one.agents(|used| used.rss_bytes / f64::from(1 << 20))),
    ("looks_per_second", |one| one.agents(|used| used.looks.per_second)),
    ("look_cpu_us", |one| one.agents(|used| used.looks.cpu_us)),
];

impl Overhead {
    /// Of each stage, who watched there and what that gave, round by round; first nobody.
    pub(super) fn shown(&self, report: &mut Report, stages: &[Vec<(Watch, Vec<Taken>)>]) {
        let title = format!(
            "{} containers, each {}² again and again, for {} s; {}",
            self.containers,
            self.n,
            self.span.as_secs(),
            rounds_told(self.rounds as usize)
        );
        let heading = [
            "AGENT",
            "TASKS A SECOND",
            "TO NO AGENT",
            "SECONDS A TASK",
            "AGENT'S CPU",
            "MEMORY",
            "LOOKS A SECOND",
            "CPU A LOOK",
        ];
        let mut table = Table::new(title, &heading);
        let (mut rates, mut shares) = (Vec::new(), Vec::new());
        for stage in stages {
            let nobody = stage.iter().find(|(watch, _)| watch.is_nobody());
            let without = nobody.map_or(&[][..], |(_, taken)| taken);
            for (watch, taken) in stage {
                let [rate, cpu] = self.row(&mut table, *watch, taken, without);
                rates.push((watch.name(), rate));
                shares.extend((!watch.is_nobody()).then(|| (watch.name(), cpu)));
            }
        }
        report.table(table);
        report.plot(Plot::bars("tasks", "Tasks of all containers, by who watches", "tasks a second", rates));
        report.plot(Plot::bars("cpu", "What the agent takes", "percent of a core", shares));
    }

    /// One who watches, beside what there was without an agent in the same rounds; tasks a second, and what the agent took of a core.
    fn row(&self, table: &mut Table, watch: Watch, taken: &[Taken], without: &[Taken]) -> [Spread; 2] {
        let spreads = FIGURES.map(|(name, of)| (name, Spread::of(taken.iter().map(of))));
        let rounds = taken.iter().zip(without);
        let ratio = Spread::of(
            rounds.map(|(with, without)| with.tasks.tasks_per_second / without.tasks.tasks_per_second),
        );
        let mut case = json!({
            "case": watch.name(),
            "containers": self.containers,
            "rounds": self.rounds,
        });
        add(&mut case, "tasks_per_second_to_no_agent", ratio);
        spreads.iter().for_each(|(name, spread)| add(&mut case, name, *spread));
        let [rate, task, cpu, rss, looks, look] = spreads.map(|(_, spread)| spread);
        let agents = |text: String| if watch.is_nobody() { "-".to_owned() } else { text };
        let cells = [
            watch.name(),
            rate.to_string(),
            format!("{ratio:.3}"),
            task.to_string(),
            agents(format!("{cpu} %")),
            agents(format!("{rss:.1} MiB")),
            agents(format!("{looks:.0}")),
            agents(format!("{look:.0} us")),
        ];
        table.row(case, cells);
        [rate, cpu]
    }
}
