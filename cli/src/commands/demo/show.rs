//! The show: the parts come one after another, the agent's news is told as it comes, and its ledger has the last word.

use super::cast::{CAST, Part};
use super::ground::{Ending, Ground, Identity};
use super::narrator::Narrator;
use super::signals::Signals;
use super::sweeper::Sweeper;
use crate::ask;
use crate::failure::Failure;
use crate::stage::Stage;
use anyhow::Result;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};
use wire::agent::{EventLine, TaskLine};
use wire::client;
use wire::demo::DemoRow;

/// The longest a show may take: with what comes before and after it, less than a minute.
const SHOW_MAX: Duration = Duration::from_secs(50);
/// How long the agent may take to tell of a program's start, and of its end.
const NEWS_MAX: Duration = Duration::from_secs(5);
/// How often to look who has ended, and how the others stand.
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// How often to look for a signal, and for who comes next.
const TICK: Duration = Duration::from_millis(50);

/// A part that has come.
struct Playing {
    part: &'static Part,
    who: Identity,
    came: Instant,
    seen: bool,
    finished: bool,
    ended: Option<Instant>,
}

/// Everything the show needs.
pub(super) struct Show<'a> {
    pub(super) stage: &'a Stage,
    pub(super) ground: Box<dyn Ground>,
    pub(super) sweeper: &'a mut Sweeper,
    pub(super) narrator: &'a mut Narrator,
    pub(super) signals: &'a Signals,
}

impl Show<'_> {
    /// Performs it; the closing table's rows, or nothing if somebody ended it.
    pub(super) fn perform(mut self) -> Result<Option<Vec<DemoRow>>> {
        let since_us = jiff::Timestamp::now().as_microsecond();
        let news = follow(self.stage.socket(), since_us);
        let (start, mut looked) = (Instant::now(), Instant::now());
        let mut players: Vec<Playing> = Vec::new();
        loop {
            if self.signals.came().is_some() || self.narrator.unread {
                return Ok(None);
            }
            match news.recv_timeout(TICK) {
                Ok(event) => self.tell(&mut players, event)?,
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(Failure::new("the agent ended in the middle of the show").into());
                }
            }
            self.let_the_next_come(&mut players, start)?;
            if looked.elapsed() >= LOOK_EVERY {
                looked = Instant::now();
                self.look(&mut players, since_us)?;
            }
            if players.len() == CAST.len() && players.iter().all(Playing::is_over) {
                return Ok(Some(rows(&players, &self.tasks(since_us)?)));
            }
            if start.elapsed() > SHOW_MAX {
                let seconds = SHOW_MAX.as_secs();
                return Err(Failure::new(format!("the show is not over after {seconds} s"))
                    .help("this machine is very busy: try again when it is less so")
                    .into());
            }
        }
    }

    /// Tells an event of one of the parts; others are none of ours.
    fn tell(&mut self, players: &mut [Playing], event: EventLine) -> Result<()> {
        let meant = |playing: &&mut Playing| playing.who.is(event.container.as_ref(), event.pid);
        let Some(playing) = players.iter_mut().find(meant) else { return Ok(()) };
        playing.seen = true;
        playing.finished |= event.event == "finished";
        self.narrator.event(playing.part, event)
    }

    /// The next part comes when it is its time, and the one before it is seen to be there.
    fn let_the_next_come(&mut self, players: &mut Vec<Playing>, start: Instant) -> Result<()> {
        let Some(part) = CAST.get(players.len()) else { return Ok(()) };
        let settled = players.last().is_none_or(|last| last.seen || last.came.elapsed() > NEWS_MAX);
        if !settled || start.elapsed() < part.comes_after {
            return Ok(());
        }
        let who = self.ground.start(part, self.stage, self.sweeper)?;
        players.push(Playing { part, who, came: Instant::now(), seen: false, finished: false, ended: None });
        Ok(())
    }

    /// Looks who has ended, and how the others stand.
    fn look(&mut self, players: &mut [Playing], since_us: i64) -> Result<()> {
        for playing in players.iter_mut().filter(|playing| playing.ended.is_none()) {
            let Some(ending) = self.ground.ended(&playing.who)? else { continue };
            if let Ending::Badly(why) = &ending {
                return Err(Failure::new(format!("{} failed: {why}", playing.part.name)).into());
            }
            playing.ended = Some(Instant::now());
        }
        let tasks = self.tasks(since_us)?;
        for playing in players.iter() {
            if let Some(task) = tasks.iter().rev().find(|task| playing.is_doing(task)) {
                self.narrator.live(playing.part, task);
            }
        }
        Ok(())
    }

    /// What the agent's ledger says, and what runs.
    fn tasks(&self, since_us: i64) -> Result<Vec<TaskLine>, Failure> {
        let path = format!("/v1/tasks?since_us={since_us}");
        client::get(&self.stage.socket(), &path).map_err(|error| ask::failure(&error))
    }
}

impl Playing {
    /// Its program has ended, and the agent has said so, or had the time to.
    fn is_over(&self) -> bool {
        self.ended.as_ref().is_some_and(|at| self.finished || at.elapsed() > NEWS_MAX)
    }

    fn is_doing(&self, task: &TaskLine) -> bool {
        self.who.is(task.container.as_ref(), Some(task.pid))
    }
}

/// The agent's news, from a thread that waits for it.
fn follow(socket: PathBuf, since_us: i64) -> Receiver<EventLine> {
    let (sender, news) = channel();
    std::thread::spawn(move || follow_into(&socket, since_us, |event| sender.send(event).is_ok()));
    news
}

fn follow_into(socket: &Path, since_us: i64, send: impl Fn(EventLine) -> bool) {
    let path = format!("/v1/events?since_us={since_us}");
    // An agent that goes away ends the stream, and the show sees that.
    let _ = client::follow(socket, &path, |data| serde_json::from_str(data).is_ok_and(&send));
}

fn rows(players: &[Playing], tasks: &[TaskLine]) -> Vec<DemoRow> {
    let row = |playing: &Playing| {
        let own: Vec<&TaskLine> =
            tasks.iter().filter(|task| task.end.is_some() && playing.is_doing(task)).collect();
        let count = |hit| own.iter().filter(|task| task.hit == Some(hit)).count();
        DemoRow {
            who: playing.part.name.to_owned(),
            container: playing.who.container().cloned(),
            deadline_us: own.iter().find_map(|task| task.deadline_us),
            tasks: own.len(),
            run_us: own.iter().map(|task| task.run_us).sum(),
            float_us: own.iter().filter_map(|task| task.float_us).min(),
            hits: count(true),
            misses: count(false),
        }
    };
    players.iter().map(row).collect()
}
