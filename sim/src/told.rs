//! A run told as a timeline: one line per moment, what happened and what was decided.

use crate::outcome::Outcome;
use sched::Instant;

/// The log of a run, moments as columns.
pub fn timeline(outcome: &Outcome) -> String {
    let mut text = String::new();
    let mut entries = outcome.log.iter().peekable();
    while let Some(entry) = entries.next() {
        let mut line = entry.what.clone();
        while let Some(next) = entries.next_if(|next| next.at == entry.at) {
            line += "; ";
            line += &next.what;
        }
        let moment = entry.at.since(Instant::ZERO).to_string();
        text += &format!("{moment:<8} {line}\n");
    }
    if let Some(broken) = &outcome.broken {
        text += &format!("BROKEN: {broken}\n");
    }
    text
}
