//! `leeway bench swap`: two programs that do not fit on the GPU together, and both complete.
//!
//! The first may be swapped out and has a quarter of the GPU's memory; the second has a deadline and wants most of it. So the first leaves,
//! comes back when the second is done, and finds its data as it was. The agent's journal says how long each way took.

use super::cgroup::Cgroup;
use super::figures::Spread;
use super::report::{Output, Plot, Report};
use super::{Interruption, Progress, recording};
use crate::failure::Failure;
use crate::stage::{Folder, Player, Setting, Stage};
use anyhow::Result;
use serde_json::json;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use wire::agent::TaskLine;
use wire::client;
use wire::journal::{FactLine, Line};

/// Memory of the simulated GPU.
const MEMORY: &str = "8GiB";
/// What each program has of the GPU's memory, in hundredths.
const FIRST_PERCENT: u64 = 25;
const SECOND_PERCENT: u64 = 80;
/// How long each of them keeps its memory, by its own clock, and what both take in all: for the progress bar only.
const FIRST_FOR: &str = "10s";
const SECOND_FOR: &str = "2s";
const ABOUT_S: f64 = 11.0;
/// How often to look whether they are done.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// How long both may take together.
const WAIT_MAX: Duration = Duration::from_mins(5);

/// Measure how long it takes to swap a program's GPU memory out for another, and in again
#[derive(clap::Args)]
pub(super) struct Swap {
    /// The folder of the driver's libraries; without it, a simulated GPU is started
    #[arg(long, value_name = "DIR")]
    driver: Option<PathBuf>,
    /// How the agent sees tasks; as well as it can, if not given
    #[arg(long, value_enum)]
    tier: Option<crate::stage::Tier>,
    #[command(flatten)]
    output: Output,
}

impl Swap {
    pub(super) fn run(self) -> Result<()> {
        self.output.prepare()?;
        let interruption = Interruption::expect()?;
        let setting = Setting {
            driver: self.driver.as_deref(),
            memory: MEMORY,
            listed_after_ms: 140,
            poll_ms: 5,
            policy: "least-slack",
            run_dir: None,
            tier: self.tier,
            http: None,
        };
        let mut stage = Stage::set_in(Folder::new("leeway")?, &setting)?;
        let node = stage.node().ok_or_else(|| Failure::new("the agent went away"))?;
        let total = node.gpus.first().map_or(0, |gpu| gpu.memory_total_bytes);
        let of = |percent: u64| (total / 100 * percent) >> 20 << 20;
        let bytes = (of(FIRST_PERCENT), of(SECOND_PERCENT));
        let declared = bytes.1.to_string();
        let progress = Progress::new(ABOUT_S);
        let swapped = Cgroup::new("swapped", &[("leeway.swap", "true")])?;
        let urgent = Cgroup::new("urgent", &[("leeway.deadline", "10m"), ("leeway.gpu.memory", &declared)])?;
        let start = Instant::now();
        let mut players = Vec::new();
        let both = both(&stage, bytes, [&swapped, &urgent], &mut players, &progress, &interruption);
        interruption.or_let_go(&mut stage, both)?;
        let took = start.elapsed();
        progress.end();
        let moves = moves(&stage.state().join("journal"))?;
        let (Some(out_ms), Some(in_ms)) = moves else {
            return Err(Failure::new("both completed, and nobody was swapped out").into());
        };
        let mut report = Report::new("swap", &node);
        report.case(json!({
            "case": "a program leaves for another, and comes back",
            "gpu_bytes": total,
            "first_bytes": bytes.0,
            "second_bytes": bytes.1,
            "both_completed": true,
            "swap_out_ms": out_ms,
            "swap_in_ms": in_ms,
            "took_ms": took.as_millis() as u64,
        }));
        let bar = |name: &str, ms: u64| (name.to_owned(), Spread::of([ms as f64]));
        let bars = vec![bar("out", out_ms), bar("in", in_ms)];
        let title = format!("{} MiB of GPU memory, out for another program and in again", bytes.0 >> 20);
        report.plot(Plot::bars("times", &title, "ms", bars));
        drop(players);
        drop(stage);
        self.output.show(&report)
    }
}

/// The first program, and the second once the first has its memory; until both are done.
fn both(
    stage: &Stage,
    (first_bytes, second_bytes): (u64, u64),
    [swapped, urgent]: [&Cgroup; 2],
    players: &mut Vec<Player>,
    progress: &Progress,
    interruption: &Interruption,
) -> Result<()> {
    let hold = |bytes: u64, span: &str| stage.work(&["hold", "--memory", &bytes.to_string(), "--for", span]);
    progress.now("the first program gets its memory");
    players.push(Player::start(&mut swapped.inside(&hold(first_bytes, FIRST_FOR)?))?);
    interruption.wait_for("the first program's memory", || has_memory(stage, first_bytes))?;
    players.push(Player::start(&mut urgent.inside(&hold(second_bytes, SECOND_FOR)?))?);
    let start = Instant::now();
    for (which, player) in [("first", 0), ("second", 1)].into_iter().rev() {
        progress.now(&format!("the {which} program"));
        completes(which, &mut players[player], start, interruption)?;
        progress.done(ABOUT_S / 2.0);
    }
    Ok(())
}

fn has_memory(stage: &Stage, bytes: u64) -> bool {
    let tasks: Vec<TaskLine> = client::get(&stage.socket(), "/v1/tasks").unwrap_or_default();
    tasks.iter().any(|task| task.gpu_memory_bytes >= bytes)
}

fn completes(
    which: &str,
    player: &mut Player,
    start: Instant,
    interruption: &Interruption,
) -> Result<(), Failure> {
    while start.elapsed() < WAIT_MAX {
        match player.ended() {
            Some(status) if status.success() => return Ok(()),
            Some(status) => return Err(Failure::new(format!("the {which} program failed: {status}"))),
            None => interruption.sleep(LOOK_EVERY)?,
        }
    }
    Err(Failure::new(format!("the {which} program was not done after {} s", WAIT_MAX.as_secs())))
}

/// From each decision to the word that it is done, in milliseconds: the way out, and the way in.
fn moves(folder: &Path) -> Result<(Option<u64>, Option<u64>)> {
    let (mut asked_out, mut asked_in, mut out, mut back) = (None, None, None, None);
    for line in recording::lines(folder)? {
        match line {
            Line::Decide { at, actions } => {
                let asks = |what: &str| actions.iter().any(|action| action.action == what).then_some(at);
                asked_out = asked_out.or(asks("swap out"));
                // The last one is the one that was carried out: before, there was no room yet.
                asked_in = asks("swap in").or(asked_in);
            }
            Line::Fact { at, fact: FactLine::SwappedOut { .. } } => out = out.or(Some(at)),
            Line::Fact { at, fact: FactLine::SwappedIn { .. } } => back = back.or(Some(at)),
            _ => {}
        }
    }
    let span = |from: Option<u64>, to: Option<u64>| Some(to?.saturating_sub(from?) / 1000);
    Ok((span(asked_out, out), span(asked_in, back)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_two_ways_are_measured_from_what_was_recorded() {
        let folder = tempfile::tempdir().unwrap();
        let action = |action: &str| wire::journal::ActionLine {
            request: 1,
            task: 1,
            action: action.to_owned(),
            because: String::new(),
        };
        let process = (7, 8);
        let lines = [
            Line::Decide { at: 1_000, actions: vec![action("swap out")] },
            Line::Fact { at: 31_000, fact: FactLine::SwappedOut { process, gpu: 0, bytes: 1 } },
            Line::Decide { at: 50_000, actions: vec![action("swap in")] },
            Line::Fact { at: 57_000, fact: FactLine::SwappedIn { process, gpu: 0, asks: false } },
        ];
        let text: String =
            lines.iter().map(|line| serde_json::to_string(line).unwrap() + "\n").collect::<Vec<_>>().concat();
        std::fs::write(folder.path().join("a-0.jsonl"), text).unwrap();
        assert_eq!(moves(folder.path()).unwrap(), (Some(30), Some(7)));
    }
}
