//! Bringing back what a file says is swapped out, one by one, as memory allows: what the guard does when the agent is dead, and `leeway
//! release` without one.

use super::Spawn;
use super::mover::{Mover, Why};
use sched::Process;
use std::io;
use std::path::{Path, PathBuf};
use wire::swap::{self, SwappedLine};

/// Everything that is to come back.
pub struct Returning {
    run_dir: PathBuf,
    mover: Mover,
    /// Who could not be brought back for another reason than room, and the reason: said once each.
    said: Vec<(Process, String)>,
}

/// What came of one round.
#[derive(Debug, Default)]
pub struct Round {
    /// Who is back, by name.
    pub back: Vec<String>,
    /// Who waits for room or for the driver, by name, and why.
    pub waiting: Vec<(String, String)>,
    /// Whom the driver has given up, by name, and why.
    pub lost: Vec<(String, String)>,
}

impl Returning {
    /// What the file in that folder says. Nothing is done yet.
    pub fn new(run_dir: &Path, spawn: Spawn) -> Self {
        Self { run_dir: run_dir.to_owned(), mover: Mover::new(spawn), said: Vec::new() }
    }

    /// Whether there is anybody left.
    pub fn is_over(&self) -> bool {
        swap::read(&self.run_dir).is_empty()
    }

    /// Tries once for everybody, or for one container. The file says afterwards who is left.
    pub fn round(&mut self, only: Option<&str>) -> io::Result<Round> {
        let mut round = Round::default();
        let lines = swap::read(&self.run_dir);
        for line in lines.iter().filter(|line| only.is_none_or(|wanted| line.is(wanted))) {
            let process = Process { pid: line.pid, started: line.started };
            match self.mover.bring_back(process, &line.rooms) {
                Ok(()) => round.back.push(line.name.clone()),
                Err(Why::Gone) => {}
                Err(Why::Lost(words)) => round.lost.push((line.name.clone(), words)),
                Err(why) => {
                    self.say(process, line, &why);
                    round.waiting.push((line.name.clone(), why.words().to_owned()));
                    continue;
                }
            }
            self.strike(line)?;
        }
        Ok(round)
    }

    fn strike(&self, done: &SwappedLine) -> io::Result<()> {
        let mut lines = swap::read(&self.run_dir);
        lines.retain(|line| (line.pid, line.started) != (done.pid, done.started));
        swap::write(&self.run_dir, &lines)
    }

    fn say(&mut self, process: Process, line: &SwappedLine, why: &Why) {
        let said = (process, why.words().to_owned());
        if !matches!(why, Why::NoRoom(_)) && !self.said.contains(&said) {
            eprintln!("warning: container {} could not be brought back yet: {}", line.name, said.1);
            self.said.push(said);
        }
    }
}
