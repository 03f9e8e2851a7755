//! `leeway replay`: what an agent recorded, decided once more.

use crate::failure::Failure;
use anyhow::Result;
use node::journal::replay::{Wrong, replay};
use sched::Span;
use serde_json::json;
use std::error::Error as _;
use std::path::PathBuf;
use wire::journal::ActionLine;

/// Feed recorded facts to the scheduler, and show its actions, or where they first differ
#[derive(clap::Args)]
pub struct Replay {
    /// A file of an agent's journal, or the journal's folder for the newest recording
    file: PathBuf,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

impl Replay {
    pub(crate) fn run(self) -> Result<()> {
        let replayed = replay(&self.file).map_err(|wrong| refused(&wrong))?;
        let difference = &replayed.difference;
        let text = if self.json {
            let shown = difference.as_ref().map(|difference| {
                json!({"at_us": difference.at, "recorded": difference.recorded, "replayed": difference.replayed})
            });
            let each = |(at_us, action): &(u64, ActionLine)| json!({"at_us": at_us, "action": action});
            let actions: Vec<_> = replayed.actions.iter().map(each).collect();
            let (facts, decisions) = (replayed.facts, replayed.decisions);
            let whole = json!({"facts": facts, "decisions": decisions, "actions": actions,
                               "difference": shown, "lost": replayed.lost});
            format!("{whole}\n")
        } else {
            let first = replayed.actions.first().map_or(0, |(at, _)| *at);
            let lines = replayed.actions.iter().map(|(at, action)| line(at - first, action));
            let sum = format!(
                "{} facts, {} decisions, {} actions\n",
                replayed.facts,
                replayed.decisions,
                replayed.actions.len()
            );
            lines.collect::<String>() + &sum
        };
        super::print_all(text.as_bytes())?;
        if let Some(lost) = replayed.lost {
            eprintln!("warning: the recording lacks {lost} lines here: it cannot be replayed further");
        }
        match difference {
            None => Ok(()),
            Some(difference) => {
                let told = |actions: &[ActionLine]| match actions {
                    [] => "nothing\n".to_owned(),
                    some => some.iter().map(|action| line(0, action)).collect(),
                };
                eprint!("recorded: {}replayed: {}", told(&difference.recorded), told(&difference.replayed));
                Err(Failure::new(format!("the scheduler decides otherwise at {} µs", difference.at)).into())
            }
        }
    }
}

fn line(at: u64, action: &ActionLine) -> String {
    let at = Span::from_micros(at.cast_signed());
    format!("{at}  #{} {} task {}, because {}\n", action.request, action.action, action.task, action.because)
}

fn refused(wrong: &Wrong) -> Failure {
    let cause = wrong.source().map_or_else(String::new, |cause| format!(": {cause}"));
    Failure::input(format!("{wrong}{cause}"))
}
