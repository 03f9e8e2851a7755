//! The ledger's file: `SQLite`, and what to do when it does not work.

use super::{Counting, Query, Row};
use crate::clock;
use rusqlite::{Connection, OptionalExtension, params};
use std::path::{Path, PathBuf};
use std::time::Duration;
use wire::agent::HistoryLine;

/// The layout this version writes. A file of a later layout is set aside, never rewritten.
const VERSION: i64 = 1;
/// How long to wait for somebody who has the file locked.
const LOCKED_WAIT: Duration = Duration::from_secs(2);
/// A file larger than this is not read through at every start.
const CHECKED_BYTES_MAX: u64 = 64 << 20;
/// Microseconds in a day.
const DAY_US: i64 = 86_400_000_000;

const LAYOUT: &str = "
    CREATE TABLE IF NOT EXISTS tasks (
        id INTEGER PRIMARY KEY,
        container TEXT, name TEXT, pid INTEGER NOT NULL, gpu INTEGER NOT NULL, mode TEXT NOT NULL,
        start_us INTEGER NOT NULL, end_us INTEGER NOT NULL, deadline_us INTEGER, held_us INTEGER NOT NULL,
        gpu_memory_bytes INTEGER NOT NULL, core_permille INTEGER NOT NULL, approximate INTEGER NOT NULL
    );
    CREATE INDEX IF NOT EXISTS tasks_by_end ON tasks (end_us);
    CREATE INDEX IF NOT EXISTS tasks_by_name ON tasks (name);
";

/// How much is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retention {
    /// Tasks that ended longer ago are let go.
    pub days: u32,
    /// Of more tasks than this, the oldest are let go.
    pub rows: u32,
}

/// An open ledger.
pub struct File {
    path: PathBuf,
    connection: Connection,
    pub(super) retention: Retention,
}

impl File {
    /// Opens the ledger there; one that cannot be used is set aside.
    pub fn open(path: PathBuf, retention: Retention) -> Self {
        let connection = match try_open(&path) {
            Ok(connection) => connection,
            Err(error) => start_over(&path, &error),
        };
        Self { path, connection, retention }
    }

    /// Writes finished tasks. Where that fails, they go to the ledger that takes its place.
    pub fn write(&mut self, rows: &[Row]) {
        if rows.is_empty() {
            return;
        }
        if let Err(error) = insert(&mut self.connection, rows) {
            self.connection = start_over(&self.path, &error);
            if let Err(error) = insert(&mut self.connection, rows) {
                eprintln!("warning: {} finished tasks are not in the ledger: {error}", rows.len());
            }
        }
    }

    /// Looks tasks up, the oldest first. A ledger that cannot be read is set aside, and has none.
    pub fn find(&mut self, query: &Query) -> Vec<Row> {
        match select(&self.connection, query) {
            Ok(rows) => rows,
            Err(error) => {
                self.connection = start_over(&self.path, &error);
                Vec::new()
            }
        }
    }

    /// Counts tasks, by stretches of time, the earliest first.
    pub fn count(&mut self, query: &Counting) -> Vec<HistoryLine> {
        match group(&self.connection, query) {
            Ok(lines) => lines,
            Err(error) => {
                self.connection = start_over(&self.path, &error);
                Vec::new()
            }
        }
    }

    /// Lets old tasks go.
    pub(super) fn tidy(&mut self) {
        let oldest_us = clock::wall_now_us() - i64::from(self.retention.days) * DAY_US;
        let rows = self.retention.rows;
        let by_age = self.connection.execute("DELETE FROM tasks WHERE end_us < ?1", [oldest_us]);
        let by_number = self.connection.execute(
            "DELETE FROM tasks WHERE id <= (SELECT id FROM tasks ORDER BY id DESC LIMIT 1 OFFSET ?1)",
            [rows],
        );
        if let Err(error) = by_age.and(by_number) {
            self.connection = start_over(&self.path, &error);
        }
    }
}

fn try_open(path: &Path) -> rusqlite::Result<Connection> {
    let connection = Connection::open(path)?;
    connection.busy_timeout(LOCKED_WAIT)?;
    connection.pragma_update(None, "journal_mode", "WAL")?;
    connection.pragma_update(None, "synchronous", "NORMAL")?;
    let version: i64 = connection.pragma_query_value(None, "user_version", |row| row.get(0))?;
    if version > VERSION {
        return Err(rusqlite::Error::InvalidParameterName(format!(
            "it has layout {version}, and this Leeway knows only layouts up to {VERSION}"
        )));
    }
    if std::fs::metadata(path).is_ok_and(|about| about.len() <= CHECKED_BYTES_MAX) {
        let found: String = connection.pragma_query_value(None, "quick_check", |row| row.get(0))?;
        if found != "ok" {
            return Err(rusqlite::Error::InvalidParameterName(found));
        }
    }
    connection.execute_batch(LAYOUT)?;
    // Written even where nothing changes: a file that somebody keeps locked is found out now.
    connection.pragma_update(None, "user_version", VERSION)?;
    Ok(connection)
}

/// Sets the file aside and begins a new one, on disk if that works and in memory if not.
fn start_over(path: &Path, error: &rusqlite::Error) -> Connection {
    let stamp = clock::wall_now_us();
    let aside = PathBuf::from(format!("{}.damaged-{stamp}", path.display()));
    let moved = std::fs::rename(path, &aside);
    // What SQLite keeps beside the file goes with it, or the new file would be taken for the old one's.
    for suffix in ["-wal", "-shm"] {
        let beside = |path: &Path| PathBuf::from(format!("{}{suffix}", path.display()));
        let _ = std::fs::rename(beside(path), beside(&aside));
    }
    if moved.is_ok() {
        eprintln!(
            "warning: the ledger {} could not be used ({error}): it is now {}, and a new one is begun",
            path.display(),
            aside.display()
        );
        if let Ok(connection) = try_open(path) {
            return connection;
        }
    }
    eprintln!(
        "warning: the ledger {} cannot be written ({error}): finished tasks are kept in memory only",
        path.display()
    );
    in_memory()
}

/// A ledger in memory. `SQLite` needs only memory for it, so failing is as likely as failing to allocate.
fn in_memory() -> Connection {
    let connection = Connection::open_in_memory().expect("SQLite opens a database in memory");
    connection.execute_batch(LAYOUT).expect("an empty database takes a table");
    connection
}

fn insert(connection: &mut Connection, rows: &[Row]) -> rusqlite::Result<()> {
    let transaction = connection.transaction()?;
    {
        let mut statement = transaction.prepare_cached(
            "INSERT INTO tasks (container, name, pid, gpu, mode, start_us, end_us, deadline_us, held_us, gpu_memory_bytes,
             core_permille, approximate) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)",
        )?;
        for row in rows {
            statement.execute(params![
                row.container,
                row.name,
                row.pid,
                row.gpu,
                row.mode.name(),
                row.start_us,
                row.end_us.unwrap_or(row.now_us),
                row.deadline_us,
                row.held_us,
                row.gpu_memory_bytes.cast_signed(),
                row.core_permille,
                row.approximate,
            ])?;
        }
    }
    transaction.commit()
}

fn select(connection: &Connection, query: &Query) -> rusqlite::Result<Vec<Row>> {
    let container = match &query.container {
        Some(wanted) => match container_id(connection, wanted)? {
            Some(id) => Some(id),
            None => return Ok(Vec::new()),
        },
        None => None,
    };
    let mut statement = connection.prepare_cached(
        "SELECT container, name, pid, gpu, mode, start_us, end_us, deadline_us, held_us, gpu_memory_bytes, core_permille,
         approximate FROM tasks WHERE end_us >= ?1 AND (?2 IS NULL OR container = ?2) ORDER BY end_us DESC, id DESC LIMIT ?3",
    )?;
    let found = statement.query_map(params![query.since_us, container, query.limit as i64], |row| {
        Ok(Row {
            container: row.get(0)?,
            name: row.get(1)?,
            pid: row.get(2)?,
            gpu: row.get(3)?,
            mode: row.get::<_, String>(4)?.parse().unwrap_or_default(),
            start_us: row.get(5)?,
            end_us: Some(row.get(6)?),
            now_us: 0,
            deadline_us: row.get(7)?,
            held_us: row.get(8)?,
            held: false,
            gpu_memory_bytes: row.get::<_, i64>(9)?.cast_unsigned(),
            core_permille: row.get(10)?,
            approximate: row.get(11)?,
        })
    })?;
    let mut rows = found.collect::<rusqlite::Result<Vec<Row>>>()?;
    rows.reverse();
    Ok(rows)
}

fn group(connection: &Connection, query: &Counting) -> rusqlite::Result<Vec<HistoryLine>> {
    let container = match &query.container {
        Some(wanted) => match container_id(connection, wanted)? {
            Some(id) => Some(id),
            None => return Ok(Vec::new()),
        },
        None => None,
    };
    let mut statement = connection.prepare_cached(
        "SELECT (end_us - ?1) / ?2, SUM(end_us - start_us <= deadline_us), SUM(end_us - start_us > deadline_us)
         FROM tasks WHERE end_us >= ?1 AND deadline_us IS NOT NULL AND (?3 IS NULL OR container = ?3) GROUP BY 1 ORDER BY 1",
    )?;
    let found = statement.query_map(params![query.since_us, query.part_us, container], |row| {
        let (part, hits, misses): (i64, i64, i64) = (row.get(0)?, row.get(1)?, row.get(2)?);
        Ok(HistoryLine {
            time: clock::rfc3339(query.since_us + part * query.part_us),
            hits: hits.cast_unsigned(),
            misses: misses.cast_unsigned(),
        })
    })?;
    found.collect()
}

/// The container that a name, an id or the start of an id means; of several with one name, the latest. As for Docker, a name comes
/// before the start of an id: `cafe` may be both.
fn container_id(connection: &Connection, wanted: &str) -> rusqlite::Result<Option<String>> {
    let latest = |condition: &str| {
        let query = format!("SELECT container FROM tasks WHERE {condition} ORDER BY id DESC LIMIT 1");
        connection.query_row(&query, [wanted], |row| row.get(0)).optional()
    };
    match latest("name = ?1")? {
        Some(named) => Ok(Some(named)),
        None => latest("substr(container, 1, length(?1)) = ?1"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::labels::Mode;

    const KEEP: Retention = Retention { days: 30, rows: 1000 };

    fn row(name: &str, end_us: i64) -> Row {
        Row {
            container: Some(format!("{name}-id")),
            name: Some(name.to_owned()),
            pid: 7,
            gpu: 1,
            mode: Mode::Memory,
            start_us: end_us - 3,
            end_us: Some(end_us),
            now_us: 0,
            deadline_us: Some(5),
            held_us: 1,
            held: false,
            gpu_memory_bytes: 9,
            core_permille: 990,
            approximate: true,
        }
    }

    fn all() -> Query {
        Query { since_us: 0, container: None, limit: 100 }
    }

    fn set_aside(folder: &Path) -> usize {
        let names = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name());
        names
            .filter(|name| {
                name.to_string_lossy().starts_with("ledger.db.damaged-")
                    && !name.to_string_lossy().ends_with("-wal")
                    && !name.to_string_lossy().ends_with("-shm")
            })
            .count()
    }

    #[test]
    fn what_is_kept_is_found_again_after_a_restart() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ledger.db");
        let now = clock::wall_now_us();
        File::open(path.clone(), KEEP).write(&[row("a", now), row("b", now + 1)]);
        let mut file = File::open(path, KEEP);
        assert_eq!(file.find(&all()), [row("a", now), row("b", now + 1)]);
        assert_eq!(file.find(&Query { since_us: now + 1, ..all() }), [row("b", now + 1)]);
        for wanted in ["a", "a-id", "a-"] {
            let query = Query { container: Some(wanted.to_owned()), ..all() };
            assert_eq!(file.find(&query), [row("a", now)], "{wanted}");
        }
        assert!(file.find(&Query { container: Some("c".to_owned()), ..all() }).is_empty());
    }

    #[test]
    fn hits_and_misses_are_counted_by_stretches_of_time() {
        let folder = tempfile::tempdir().unwrap();
        let mut file = File::open(folder.path().join("ledger.db"), KEEP);
        let late = |end_us| Row { start_us: end_us - 9, ..row("a", end_us) };
        let free = Row { deadline_us: None, ..row("a", 1005) };
        file.write(&[row("a", 999), row("a", 1000), late(1009), row("b", 1010), row("b", 1039), free]);
        let mut count = |container: Option<&str>| {
            let container = container.map(str::to_owned);
            let lines = file.count(&Counting { since_us: 1000, part_us: 10, container });
            lines.into_iter().map(|line| (line.time, line.hits, line.misses)).collect::<Vec<_>>()
        };
        let at = |us| clock::rfc3339(us);
        assert_eq!(count(None), [(at(1000), 1, 1), (at(1010), 1, 0), (at(1030), 1, 0)]);
        assert_eq!(count(Some("a")), [(at(1000), 1, 1)]);
        assert!(count(Some("c")).is_empty());
    }

    #[test]
    fn a_name_comes_before_the_start_of_an_id() {
        let folder = tempfile::tempdir().unwrap();
        let mut file = File::open(folder.path().join("ledger.db"), KEEP);
        let now = clock::wall_now_us();
        let other = Row { container: Some("cafe0123".to_owned()), ..row("other", now + 1) };
        file.write(&[row("cafe", now), other.clone()]);
        let mut found = |wanted: &str| file.find(&Query { container: Some(wanted.to_owned()), ..all() });
        assert_eq!(found("cafe"), [row("cafe", now)]);
        assert_eq!(found("cafe0"), [other]);
    }

    #[test]
    fn a_damaged_ledger_is_set_aside() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ledger.db");
        std::fs::write(&path, "this is no database, and never was one".repeat(100)).unwrap();
        let mut file = File::open(path.clone(), KEEP);
        file.write(&[row("a", 5)]);
        assert_eq!(file.find(&all()).len(), 1);
        assert_eq!(set_aside(folder.path()), 1);
        // Damaged under our hands: the pages are overwritten while it is open.
        drop(file);
        let mut file = File::open(path.clone(), KEEP);
        file.write(&(0..500).map(|n| row("b", n)).collect::<Vec<_>>());
        drop(file);
        let length = std::fs::metadata(&path).unwrap().len() as usize;
        std::fs::write(&path, vec![0x5a; length]).unwrap();
        let mut file = File::open(path, KEEP);
        file.write(&[row("c", 6)]);
        assert_eq!((file.find(&all()).len(), set_aside(folder.path())), (1, 2));
    }

    #[test]
    fn a_ledger_that_somebody_keeps_locked_is_set_aside() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ledger.db");
        File::open(path.clone(), KEEP).write(&[row("a", 5)]);
        let other = Connection::open(&path).unwrap();
        other.execute_batch("BEGIN EXCLUSIVE").unwrap();
        let mut file = File::open(path, KEEP);
        file.write(&[row("b", 6)]);
        assert_eq!(file.find(&all()), [row("b", 6)]);
        assert_eq!(set_aside(folder.path()), 1);
    }

    #[test]
    fn a_folder_that_cannot_be_written_leaves_memory() {
        let mut file = File::open(PathBuf::from("/proc/leeway/ledger.db"), KEEP);
        file.write(&[row("a", 5)]);
        assert_eq!(file.find(&all()).len(), 1);
    }

    #[test]
    fn old_tasks_are_let_go() {
        let folder = tempfile::tempdir().unwrap();
        let mut file = File::open(folder.path().join("ledger.db"), Retention { days: 1, rows: 3 });
        let now = clock::wall_now_us();
        file.write(&[
            row("old", now - 2 * DAY_US),
            row("a", now),
            row("b", now),
            row("c", now),
            row("d", now),
        ]);
        file.tidy();
        let names: Vec<_> = file.find(&all()).into_iter().filter_map(|row| row.name).collect();
        assert_eq!(names, ["b", "c", "d"]);
    }
}
