//! `leeway bench hold`: from the decision to hold a task to the moment its container stands, in a real agent.
//!
//! Programs run in cgroups of their own, with deadlines, so that all but one wait; the policy is switched off and on, and the agent's journal
//! says when it was decided and when the kernel confirmed it. With probes the same once more: how long it takes from a launch at a gate
//! that is shut to the process stopped.

use super::cgroup::Cgroup;
use super::report::{Output, Plot, Report, Scale, Series};
use super::troupe::set_policy;
use super::{Interruption, progress_bar, recording, stop};
use crate::failure::Failure;
use crate::stage::{Folder, Player, Setting, Stage, Tier};
use anyhow::Result;
use indicatif::ProgressBar;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use wire::agent::{NodeLine, TaskLine};
use wire::client;
use wire::journal::{FactLine, Line, OutcomeLine};

/// Room for the contexts of many programs.
const MEMORY: &str = "1000GiB";
/// What a round takes, in seconds, roughly: for the progress bar only.
const ROUND_S: f64 = 0.05;
/// No deadline that matters here: all that counts is that there is one.
const DEADLINE: &str = "12h";

/// Measure how long it takes from a decision to a frozen container and to a thawed one, and from a launch at a shut gate to a stop
#[derive(clap::Args)]
pub(super) struct Hold {
    /// How often to freeze and thaw
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    rounds: u32,
    /// How many containers, of which all but one are frozen at a time
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(2..=200))]
    containers: u32,
    /// The folder of the driver's libraries; without it, a simulated GPU is started
    #[arg(long, value_name = "DIR")]
    driver: Option<PathBuf>,
    #[command(flatten)]
    output: Output,
}

impl Hold {
    pub(super) fn run(self) -> Result<()> {
        self.output.prepare()?;
        let interruption = Interruption::expect()?;
        let bar = progress_bar(2 * u64::from(self.rounds), ROUND_S);
        // In memory, as `/run` is: what is held is written there before each hold, and a disk would be measured instead.
        let in_memory = Path::new("/dev/shm");
        let place = if in_memory.is_dir() { in_memory.to_owned() } else { std::env::temp_dir() };
        let run_dir = Folder::new_in(&place, "leeway-run")?;
        // Where launches are probed nobody need be frozen.
        let (node, frozen) = self.measure(run_dir.path(), Some(Tier::Polling), &bar, &interruption)?;
        let (probed, stopped) = self.measure(run_dir.path(), None, &bar, &interruption)?;
        bar.finish_and_clear();
        let mut report = Report::new("hold", &node);
        let mut curves = frozen.curves;
        report.case(frozen.case);
        if probed.tier == Tier::Probes.name() {
            report.case(stopped.case);
            curves.extend(stopped.curves);
        } else {
            eprintln!(
                "notice: there are no probes on this machine, and so no gates: `leeway doctor` says why"
            );
        }
        let (across, up) = (("ms", Scale::Log), ("share that took no longer", Scale::Linear));
        report.plot(Plot::new("times", "From a decision until it is so", across, up, curves));
        self.output.show(&report)
    }

    /// Programs that are held and let go, in one way of seeing.
    fn measure(
        &self,
        run_dir: &Path,
        tier: Option<Tier>,
        bar: &ProgressBar,
        interruption: &Interruption,
    ) -> Result<(NodeLine, Measured)> {
        let cgroup = |number: u32| Cgroup::new(&number.to_string(), &[("leeway.deadline", DEADLINE)]);
        let cgroups = (0..self.containers).map(cgroup).collect::<Result<Vec<Cgroup>>>()?;
        let (listed_after_ms, poll_ms, policy, http) = (0, 5, "none", None);
        let (run_dir, driver) = (Some(run_dir), self.driver.as_deref());
        let setting =
            Setting { driver, memory: MEMORY, listed_after_ms, poll_ms, policy, tier, run_dir, http };
        let mut stage = Stage::set_in(Folder::new("leeway")?, &setting)?;
        let node = stage.node().ok_or_else(|| Failure::new("the agent went away"))?;
        let work = stage.work(&["batch", "--for", "24h", "--kernel-us", "1000"])?;
        let mut players: Vec<Player> =
            cgroups.iter().map(|cgroup| Player::start(&mut cgroup.inside(&work))).collect::<Result<_>>()?;
        // Of freezing the journal tells everything.
        let mut watcher = None;
        let all = players.len();
        let ready = interruption.wait_for("tasks", || tasks(&stage, |_| true) == Some(all));
        let switched = ready.map_err(Into::into).and_then(|()| {
            watcher = tier.is_none().then(|| stop::Watcher::start(&players));
            self.switch(&stage, bar, interruption)
        });
        interruption.or_let_go(&mut stage, switched)?;
        players.iter_mut().for_each(Player::tell_to_end);
        drop(players);
        let journal = stage.state().join("journal");
        let result = match watcher {
            None => from_journal(&journal, all - 1)?,
            Some(watcher) => stop::result(&journal, &watcher.end())?,
        };
        drop(stage);
        Ok((node, result))
    }

    /// Switches the policy on and off again, so that all but one stand, and all run.
    fn switch(&self, stage: &Stage, bar: &ProgressBar, interruption: &Interruption) -> Result<()> {
        let waiting = self.containers as usize - 1;
        // A shut gate is no stop yet: these stand.
        let stands = |line: &TaskLine| line.held;
        for _ in 0..self.rounds {
            set_policy(stage, "earliest-deadline")?;
            interruption.wait_for("tasks that stand", || tasks(stage, stands) == Some(waiting))?;
            set_policy(stage, "none")?;
            interruption.wait_for("tasks that run", || tasks(stage, stands) == Some(0))?;
            bar.inc(1);
        }
        Ok(())
    }
}

/// What was measured in one way: for programs, and for a picture.
pub(super) struct Measured {
    pub(super) case: Value,
    pub(super) curves: Vec<Series>,
}

/// A curve of times in microseconds. One of less than that took one: the logarithm of nothing is no place on an axis.
pub(super) fn curve(name: &str, took_us: &[i64]) -> Series {
    Series::shares(name, took_us.iter().map(|us| (*us).max(1) as f64 / 1e3))
}

/// How many tasks that run are so.
fn tasks(stage: &Stage, are_so: impl Fn(&TaskLine) -> bool) -> Option<usize> {
    let tasks: Vec<TaskLine> = client::get(&stage.socket(), "/v1/tasks").ok()?;
    Some(tasks.iter().filter(|line| line.end.is_none() && are_so(line)).count())
}

/// From each decision to the answer that it is done, in the newest recording.
fn from_journal(folder: &Path, waiting: usize) -> Result<Measured> {
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
    let case = json!({
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
    });
    Ok(Measured { case, curves: vec![curve("frozen", &held), curve("thawed", &released)] })
}
