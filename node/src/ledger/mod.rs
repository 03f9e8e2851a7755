//! The ledger: finished tasks, kept in `SQLite`, written by a thread of its own.
//!
//! The ledger is never the reason for the agent to stop. A file that is damaged, or that somebody keeps locked, is set
//! aside under another name, and a new one begun; where no file can be written at all, the ledger is kept in memory.

mod file;
mod row;

pub use file::{File, Retention};
pub use row::Row;

use std::path::PathBuf;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::time::{Duration, Instant};
use tokio::sync::oneshot;
use wire::agent::HistoryLine;

/// How many finished tasks may wait to be written. Beyond that they are lost, and that is said.
const QUEUED_MAX: usize = 16_384;
/// How many are written in one transaction.
const BATCH_MAX: usize = 1024;
/// How often old tasks are let go.
const TIDY_EVERY: Duration = Duration::from_mins(10);

/// Which tasks to look up.
#[derive(Clone, Debug, Default)]
pub struct Query {
    /// Those that ended since, in microseconds since 1970.
    pub since_us: i64,
    /// Only those of the container of this name, id or start of an id.
    pub container: Option<String>,
    /// The newest that many.
    pub limit: usize,
}

/// Which tasks to count.
#[derive(Clone, Debug, Default)]
pub struct Counting {
    /// Those that ended since, in microseconds since 1970.
    pub since_us: i64,
    /// How long the stretches are that are counted apart.
    pub part_us: i64,
    /// Only those of the container of this name, id or start of an id.
    pub container: Option<String>,
}

enum Message {
    Keep(Row),
    Count(Counting, oneshot::Sender<Vec<HistoryLine>>),
    Find(Query, oneshot::Sender<Vec<Row>>),
    Retention(Retention),
    Stop,
}

/// The sending end: the ledger as the rest of the agent sees it.
#[derive(Clone)]
pub struct Ledger(SyncSender<Message>);

/// The ledger's thread, to be waited for at the end.
pub struct Writer(std::thread::JoinHandle<()>);

impl Ledger {
    /// Opens the ledger and starts its thread.
    pub fn start(path: PathBuf, retention: Retention) -> std::io::Result<(Self, Writer)> {
        let (sender, receiver) = sync_channel(QUEUED_MAX);
        let write = move || write(File::open(path, retention), &receiver);
        let thread = std::thread::Builder::new().name("ledger".to_owned()).spawn(write)?;
        Ok((Self(sender), Writer(thread)))
    }

    /// Keeps a finished task. Never waits: the owner has deadlines to watch.
    pub(crate) fn keep(&self, row: Row) {
        if let Err(TrySendError::Full(_)) = self.0.try_send(Message::Keep(row)) {
            eprintln!("warning: the ledger cannot keep up, and a finished task is not in it");
        }
    }

    /// Looks tasks up, the oldest first.
    pub async fn find(&self, query: Query) -> Vec<Row> {
        let (to, answer) = oneshot::channel();
        if self.0.try_send(Message::Find(query, to)).is_err() {
            return Vec::new();
        }
        answer.await.unwrap_or_default()
    }

    /// Counts tasks that had a deadline, by stretches of time; those without any are left out.
    pub async fn count(&self, query: Counting) -> Vec<HistoryLine> {
        let (to, answer) = oneshot::channel();
        if self.0.try_send(Message::Count(query, to)).is_err() {
            return Vec::new();
        }
        answer.await.unwrap_or_default()
    }

    /// Changes how much is kept.
    pub(crate) fn retain(&self, retention: Retention) {
        let _ = self.0.try_send(Message::Retention(retention));
    }

    /// Writes what is left, and ends the thread.
    pub fn stop(self, writer: Writer) {
        let _ = self.0.send(Message::Stop);
        let _ = writer.0.join();
    }
}

fn write(mut file: File, messages: &Receiver<Message>) {
    let mut tidied = Instant::now();
    file.tidy();
    while let Ok(first) = messages.recv() {
        let mut rows = Vec::new();
        let mut next = Some(first);
        let mut stop = false;
        while let Some(message) = next.take() {
            match message {
                Message::Keep(row) => rows.push(row),
                Message::Find(query, to) => {
                    file.write(&rows);
                    rows.clear();
                    let _ = to.send(file.find(&query));
                }
                Message::Count(query, to) => {
                    file.write(&rows);
                    rows.clear();
                    let _ = to.send(file.count(&query));
                }
                Message::Retention(retention) => file.retention = retention,
                Message::Stop => stop = true,
            }
            if rows.len() < BATCH_MAX && !stop {
                next = messages.try_recv().ok();
            }
        }
        file.write(&rows);
        if stop {
            return;
        }
        if tidied.elapsed() >= TIDY_EVERY {
            tidied = Instant::now();
            file.tidy();
        }
    }
}
