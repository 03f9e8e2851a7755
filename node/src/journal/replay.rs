//! A recording once more: its facts to the scheduler, its decisions at their moments, and the actions compared.

use super::{SUFFIX, lines, part_of};
use sched::{GpuId, Instant, Scheduler, Span};
use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};
use wire::journal::{ActionLine, Line, VERSION};

/// Why something cannot be replayed.
#[derive(Debug, thiserror::Error)]
pub enum Wrong {
    /// There is nothing there that is a recording.
    #[error("{0} is not a recording: accepted are a file of an agent's journal, and the journal's folder")]
    NoRecording(PathBuf),
    /// It cannot be read.
    #[error("could not read {0}")]
    Unreadable(PathBuf, #[source] io::Error),
    /// A line is none of ours.
    #[error("{file}, line {line}, is not a line of a journal")]
    Line {
        /// The file.
        file: PathBuf,
        /// The line, from 1 on.
        line: usize,
    },
    /// Its first files are gone: the journal keeps the newest only.
    #[error(
        "the beginning of the recording {0} has been overwritten, and without it nothing can be replayed"
    )]
    NoBeginning(String),
    /// Another layout.
    #[error("{file} has layout version {version}, and this program reads {VERSION}")]
    Version {
        /// The file.
        file: PathBuf,
        /// Its version.
        version: u32,
    },
}

/// What came of it.
#[derive(Debug, Default)]
pub struct Replayed {
    /// How many facts there were.
    pub facts: usize,
    /// How many decisions.
    pub decisions: usize,
    /// The actions, with the moment of each in microseconds since boot.
    pub actions: Vec<(u64, ActionLine)>,
    /// Where the scheduler first did something else.
    pub difference: Option<Difference>,
    /// Lines were lost there, so that it ends here: the moment is not known, the number is.
    pub lost: Option<u64>,
}

/// A decision that came out otherwise.
#[derive(Debug)]
pub struct Difference {
    /// When, in microseconds since boot.
    pub at: u64,
    /// What was done then.
    pub recorded: Vec<ActionLine>,
    /// What is done now.
    pub replayed: Vec<ActionLine>,
}

/// Replays the recording a file belongs to, or the newest of a folder.
pub fn replay(path: &Path) -> Result<Replayed, Wrong> {
    let (folder, name) = recording(path)?;
    if !part_of(&folder, &name, 0).exists() {
        return Err(Wrong::NoBeginning(name));
    }
    let mut replayer = Replayer::new();
    let parts = (0..).map(|part| part_of(&folder, &name, part)).take_while(|file| file.exists());
    for file in parts {
        if !replayer.feed(&file)? {
            break;
        }
    }
    Ok(replayer.result)
}

/// The folder and the name of a recording.
fn recording(path: &Path) -> Result<(PathBuf, String), Wrong> {
    let none = || Wrong::NoRecording(path.to_owned());
    let file = if path.is_dir() {
        let entries = std::fs::read_dir(path).map_err(|error| Wrong::Unreadable(path.to_owned(), error))?;
        let files = entries.flatten().map(|entry| entry.path());
        files.filter(|file| file.to_string_lossy().ends_with(SUFFIX)).max().ok_or_else(none)?
    } else {
        path.to_owned()
    };
    let stem = file.file_name().and_then(|name| name.to_str()).and_then(|name| name.strip_suffix(SUFFIX));
    let (name, _part) = stem.and_then(|stem| stem.rsplit_once('-')).ok_or_else(none)?;
    if !file.exists() {
        return Err(none());
    }
    Ok((file.parent().unwrap_or(Path::new(".")).to_owned(), name.to_owned()))
}

struct Replayer {
    scheduler: Scheduler,
    result: Replayed,
}

impl Replayer {
    fn new() -> Self {
        Self { scheduler: with_burst_gap(Span::ZERO), result: Replayed::default() }
    }

    /// One file. False once there is nothing more to learn.
    fn feed(&mut self, file: &Path) -> Result<bool, Wrong> {
        let unreadable = |error| Wrong::Unreadable(file.to_owned(), error);
        let reader = BufReader::new(File::open(file).map_err(unreadable)?);
        let mut lines = reader.lines().enumerate().peekable();
        while let Some((number, text)) = lines.next() {
            let text = text.map_err(unreadable)?;
            let Ok(line) = serde_json::from_str::<Line>(&text) else {
                // An agent that was killed leaves half a line at the end.
                if number > 0 && lines.peek().is_none() {
                    return Ok(false);
                }
                return Err(Wrong::Line { file: file.to_owned(), line: number + 1 });
            };
            if let Line::Begin { version, .. } = &line
                && *version != VERSION
            {
                return Err(Wrong::Version { file: file.to_owned(), version: *version });
            }
            if !self.take(line) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn take(&mut self, line: Line) -> bool {
        match line {
            Line::Begin { part: 0, burst_gap_us, .. } => {
                self.scheduler = with_burst_gap(Span::from_micros(burst_gap_us));
            }
            Line::Begin { .. } => {}
            Line::Lost(count) => self.result.lost = Some(count),
            Line::Policy { at, gpu, policy } => {
                let at = Instant::from_micros(at);
                let policy = sched::policy::by_name(&policy).unwrap_or(Box::new(sched::policy::None));
                match gpu {
                    Some(gpu) => self.scheduler.set_policy(at, GpuId(gpu), policy),
                    None => self.scheduler.set_every_policy(at, policy),
                }
            }
            Line::Fact { at, fact } => {
                self.result.facts += 1;
                self.scheduler.learn(Instant::from_micros(at), lines::read(&fact));
            }
            Line::Decide { at, actions } => {
                self.result.decisions += 1;
                let (_, now) = self.scheduler.decide(Instant::from_micros(at));
                let replayed: Vec<ActionLine> = now.iter().map(lines::action).collect();
                if replayed == actions {
                    self.result.actions.extend(actions.into_iter().map(|action| (at, action)));
                } else {
                    self.result.difference = Some(Difference { at, recorded: actions, replayed });
                }
            }
        }
        self.result.difference.is_none() && self.result.lost.is_none()
    }
}

fn with_burst_gap(burst_gap: Span) -> Scheduler {
    Scheduler::new(crate::settings::with_burst_gap(burst_gap), Box::new(sched::policy::None))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::journal::Journal;
    use sched::{Action, ContainerId, Deadline, Fact, Mode, Outcome, Process, RequestId, Terms};

    fn terms(deadline_s: i64) -> Terms {
        let deadline = Deadline::new(Span::from_secs(deadline_s));
        Terms { deadline, mode: Mode::Process, managed: true, ..Terms::UNMANAGED }
    }

    /// Two tasks under `earliest-deadline`, recorded as the owner records: the second is held, then released.
    fn record(folder: &Path) {
        let mut journal = Journal::start(folder, "20261115T114726", Span::ZERO).unwrap();
        let mut scheduler =
            Scheduler::new(crate::settings::with_burst_gap(Span::ZERO), Box::new(sched::policy::None));
        let at = |ms: u64| Instant::from_micros(ms * 1000);
        scheduler.set_every_policy(at(0), sched::policy::by_name("earliest-deadline").unwrap());
        journal.policy(at(0), None, "earliest-deadline");
        let process = |number: u32| Process { pid: number, started: 7 };
        let gpu = GpuId(0);
        let mut facts = Vec::new();
        for (number, deadline_s) in [(1, 10), (2, 20)] {
            let container = ContainerId(number);
            facts.push((0, Fact::Container { container, terms: terms(deadline_s), paused: false }));
            let container = Some(container);
            let process = process(number);
            facts.push((
                1,
                Fact::Process { process, container, gpu, launches_seen: false, approximate: false },
            ));
        }
        facts.push((2, Fact::Answer { request: RequestId(1), outcome: Outcome::Held }));
        facts.push((3, Fact::Stopped { process: process(2), gpu }));
        facts.push((50, Fact::ProcessGone(process(1))));
        let mut asked: Vec<Action> = Vec::new();
        for (ms, fact) in facts {
            journal.fact(at(ms), &fact);
            scheduler.learn(at(ms), fact);
            let (_, actions) = scheduler.decide(at(ms));
            journal.decided(at(ms), &actions);
            asked.extend(actions);
        }
        assert_eq!(asked.len(), 2);
    }

    #[test]
    fn what_was_recorded_is_done_again() {
        let folder = tempfile::tempdir().unwrap();
        record(folder.path());
        let replayed = replay(folder.path()).unwrap();
        assert!(replayed.difference.is_none() && replayed.lost.is_none(), "{replayed:?}");
        assert_eq!((replayed.facts, replayed.decisions), (7, 7));
        let words: Vec<String> = replayed.actions.iter().map(|(_, action)| action.action.clone()).collect();
        assert_eq!(words, ["hold at launches", "release"]);
    }

    #[test]
    fn the_first_difference_is_found() {
        let folder = tempfile::tempdir().unwrap();
        record(folder.path());
        let file = part_of(folder.path(), "20261115T114726", 0);
        let text = std::fs::read_to_string(&file).unwrap();
        std::fs::write(&file, text.replace("earliest-deadline", "none")).unwrap();
        let difference = replay(&file).unwrap().difference.unwrap();
        assert_eq!((difference.recorded.len(), difference.replayed.len()), (1, 0));
    }

    #[test]
    fn half_a_line_ends_it_and_nonsense_is_named() {
        let folder = tempfile::tempdir().unwrap();
        record(folder.path());
        let file = part_of(folder.path(), "20261115T114726", 0);
        let text = std::fs::read_to_string(&file).unwrap();
        std::fs::write(&file, &text[..text.len() - 9]).unwrap();
        assert_eq!(replay(&file).unwrap().decisions, 6);
        std::fs::write(&file, text.replacen("{\"fact\"", "fact", 1)).unwrap();
        assert!(replay(&file).unwrap_err().to_string().ends_with("line 3, is not a line of a journal"));
        std::fs::rename(&file, part_of(folder.path(), "20261115T114726", 1)).unwrap();
        assert!(replay(folder.path()).unwrap_err().to_string().contains("overwritten"));
        assert!(replay(Path::new("/nowhere/x-0.jsonl")).unwrap_err().to_string().contains("not a recording"));
    }
}
