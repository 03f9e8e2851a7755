//! `leeway bench hold`: from the decision to hold a task to the moment its container stands, in a real agent.
//!
//! Programs run in cgroups of their own, with deadlines, so that all but one wait; the policy is switched off and on, and the agent's journal
//! says when it was decided and when the kernel confirmed it. With probes the same once more: how long it takes from a launch at a gate
//! that is shut to the process stopped.

use super::cgroup::Cgroup;
use super::report::{Output, Report};
use super::troupe::set_policy;
use super::{Interruption, progress_bar, recording, stop};
use crate::failure::Failure;
use crate::stage::{Folder, Player, Setting, Stage, Tier, wait_for};
use anyhow::Result;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::path::Path;
use wire::agent::{NodeLine, TaskLine};
use wire::client;
use wire::journal::{FactLine, Line, OutcomeLine};

/// Room for the contexts of many programs.
const MEMORY: &str = "1000GiB";
/// No deadline that matters here: all that counts is that there is one.
const DEADLINE: &str = "12h";

/// Measure how long it takes from a decision to a frozen container and to a thawed one, and from a launch at a shut gate to a stop
#[derive(clap::Args)]
pub(super) struct Hold {
    /// How often to freeze and thaw
    #[arg(long, value_name = "N", default_value_t = 100)]
    rounds: usize,
    /// How many containers, of which all but one are frozen at a time
    #[arg(long, value_name = "N", default_value_t = 3)]
    containers: usize,
    #[command(flatten)]
    output: Output,
}

impl Hold {
    pub(super) fn run(self) -> Result<()> {
        self.output.prepare()?;
        let interruption = Interruption::expect()?;
        let bar = progress_bar(2 * self.rounds as u64);
        let step = || {
            bar.inc(1);
            interruption.check()
        };
        // In memory, as `/run` is: what is held is written there before each hold, and a disk would be measured instead.
        let in_memory = Path::new("/dev/shm");
        let place = if in_memory.is_dir() { in_memory.to_owned() } else { std::env::temp_dir() };
        let run_dir = Folder::new_in(&place, "leeway-run")?;
        // Where launches are probed nobody need be frozen.
        let (node, frozen) = self.measure(run_dir.path(), Some(Tier::Polling), &step)?;
        let (probed, stopped) = self.measure(run_dir.path(), None, &step)?;
        bar.finish_and_clear();
        let mut report = Report::new("hold", &node);
        report.case(frozen);
        if probed.tier == Tier::Probes.name() {
            report.case(stopped);
        } else {
            eprintln!(
                "notice: there are no probes on this machine, and so no gates: `leeway doctor` says why"
            );
        }
        self.output.show(&report)
    }

    /// Switches the policy on and off again, so that all but one stand, and all run.
    fn measure(
        &self,
        run_dir: &Path,
        tier: Option<Tier>,
        step: &dyn Fn() -> Result<(), Failure>,
    ) -> Result<(NodeLine, Value)> {
        let cgroup = |number: usize| Cgroup::new(&number.to_string(), &[("leeway.deadline", DEADLINE)]);
        let cgroups = (0..self.containers.max(2)).map(cgroup).collect::<Result<Vec<Cgroup>>>()?;
        let (listed_after_ms, poll_ms, policy, http) = (0, 5, "none", None);
        let run_dir = Some(run_dir);
        let setting =
            Setting { driver: None, memory: MEMORY, listed_after_ms, poll_ms, policy, tier, run_dir, http };
        let stage = Stage::set_in(Folder::new("leeway")?, &setting)?;
        let node = stage.node().ok_or_else(|| Failure::new("the agent went away"))?;
        let work = stage.work(&["batch", "--for", "24h", "--kernel-us", "1000"])?;
        let mut players: Vec<Player> =
            cgroups.iter().map(|cgroup| Player::start(&mut cgroup.inside(&work))).collect::<Result<_>>()?;
        wait_for("tasks", || tasks(&stage, |_| true) == Some(players.len()))?;
        // Of freezing the journal tells everything.
        let watcher = tier.is_none().then(|| stop::Watcher::start(&players));
        let waiting = cgroups.len() - 1;
        // A shut gate is no stop yet: these stand.
        let stands = |line: &TaskLine| line.held;
        for _ in 0..self.rounds {
            set_policy(&stage, "earliest-deadline")?;
            wait_for("tasks that stand", || tasks(&stage, stands) == Some(waiting))?;
            set_policy(&stage, "none")?;
            wait_for("tasks that run", || tasks(&stage, stands) == Some(0))?;
            // Now nobody stands, and everything can be put away.
            step()?;
        }
        players.iter_mut().for_each(Player::tell_to_end);
        drop(players);
        let journal = stage.state().join("journal");
        let result = match watcher {
            None => from_journal(&journal, waiting)?,
            Some(watcher) => stop::result(&journal, &watcher.end())?,
        };
        drop(stage);
        Ok((node, result))
    }
}

/// How many tasks that run are so.
fn tasks(stage: &Stage, are_so: impl Fn(&TaskLine) -> bool) -> Option<usize> {
    let tasks: Vec<TaskLine> = client::get(&stage.socket(), "/v1/tasks").ok()?;
    Some(tasks.iter().filter(|line| line.end.is_none() && are_so(line)).count())
}

/// From each decision to the answer that it is done, in the newest recording.
fn from_journal(folder: &Path, waiting: usize) -> Result<Value> {
    let (mut asked, mut held, mut released) = (HashMap::new(), Vec::new(), Vec::new());
    for line in recording::lines(folder)? {
        match line {
            Line::Decide { at, actions } => {
                asked.extend(actions.iter().map(|action| (action.request, at)));
            }
            Line::Fact { at, fact: FactLine::Answer { request, outcome } } => {
                let took = asked.remove(&request).map(|from| at.saturating_sub(from).cast_signed());
                match outcome {
                    OutcomeLine::Held => held.extend(took),
                    OutcomeLine::Released => released.extend(took),
                    OutcomeLine::Failed => {}
                }
            }
            _ => {}
        }
    }
    held.sort_unstable();
    released.sort_unstable();
    let at = |sorted: &[i64], percent| crate::commands::tasks::quantile(sorted, percent);
    Ok(json!({
        "case": "freeze and thaw",
        "frozen_at_once": waiting,
        "freezes": held.len(),
        "freeze_us_p50": at(&held, 50),
        "freeze_us_p99": at(&held, 99),
        "freeze_us_max": held.last(),
        "thaws": released.len(),
        "thaw_us_p50": at(&released, 50),
        "thaw_us_p99": at(&released, 99),
        "thaw_us_max": released.last(),
    }))
}
