//! The task table in shared memory, as its one writer. The layout is in `wire::table`.

use crate::clock;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::atomic::Ordering;
use wire::table::{MAGIC, Mapped, TABLE_BYTES, TASK_WORDS, TableTask, VERSION, header, publish};

/// Anybody may read it; only the agent writes it.
const MODE: u32 = 0o644;

/// The table, and what it says now.
pub(crate) struct Table {
    mapped: Mapped,
    said: Vec<[u64; TASK_WORDS]>,
}

impl Table {
    /// Takes over the table that is there, so that whoever has it mapped reads on; makes one where there is none.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        let mapped = match OpenOptions::new().read(true).write(true).open(path).and_then(|file| map(&file)) {
            Ok(mapped) => mapped,
            Err(_) => create(path)?,
        };
        let word = |index: usize| mapped.words()[index].load(Ordering::Relaxed);
        let mapped = if word(header::MAGIC) == MAGIC && word(header::VERSION) == VERSION {
            mapped
        } else {
            create(path)?
        };
        mapped.words()[header::AGENT].store(u64::from(std::process::id()), Ordering::Relaxed);
        let mut table = Self { mapped, said: vec![[u64::MAX; TASK_WORDS]] };
        table.publish(&[]);
        Ok(table)
    }

    /// Writes the tasks, unless the table says just that.
    pub(crate) fn publish(&mut self, tasks: &[TableTask]) {
        let words: Vec<[u64; TASK_WORDS]> = tasks.iter().map(TableTask::words).collect();
        if words != self.said {
            publish(&self.mapped, clock::wall_now_us(), tasks.len(), &words);
            self.said = words;
        }
    }
}

impl Drop for Table {
    /// An agent that stops in an orderly way leaves no task behind that nobody follows.
    fn drop(&mut self) {
        self.publish(&[]);
        self.mapped.words()[header::AGENT].store(0, Ordering::Relaxed);
    }
}

fn map(file: &File) -> io::Result<Mapped> {
    Mapped::new(file, true)
}

/// Made beside and renamed, so that nobody maps a table without a header.
fn create(path: &Path) -> io::Result<Mapped> {
    let beside = path.with_extension("new");
    let _ = std::fs::remove_file(&beside);
    let file = OpenOptions::new().read(true).write(true).create_new(true).mode(MODE).open(&beside)?;
    file.set_len(TABLE_BYTES as u64)?;
    let mapped = map(&file)?;
    mapped.words()[header::MAGIC].store(MAGIC, Ordering::Relaxed);
    mapped.words()[header::VERSION].store(VERSION, Ordering::Relaxed);
    std::fs::rename(&beside, path)?;
    Ok(mapped)
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::labels::Mode;
    use wire::table::{Reader, padded};

    fn task(pid: u32) -> TableTask {
        TableTask {
            container: padded("id"),
            name: padded("name"),
            pid,
            gpu: 0,
            mode: Mode::Process,
            approximate: false,
            held: false,
            hit: None,
            start_us: 1,
            end_us: None,
            deadline_us: None,
            held_us: 0,
            gpu_memory_bytes: 0,
            core_permille: 0,
        }
    }

    #[test]
    fn a_reader_goes_on_reading_when_the_agent_restarts() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("table");
        let mut first = Table::open(&path).unwrap();
        let reader = Reader::open(&path).unwrap();
        first.publish(&[task(1), task(2)]);
        let mut tasks = Vec::new();
        reader.read(&mut tasks).unwrap();
        assert_eq!(tasks.len(), 2);
        drop(first);
        assert_eq!(reader.agent(), None);
        let mut second = Table::open(&path).unwrap();
        second.publish(&[task(3)]);
        reader.read(&mut tasks).unwrap();
        assert_eq!(tasks.iter().map(|words| TableTask::from_words(words).pid).collect::<Vec<_>>(), [3]);
        assert_eq!(reader.agent(), Some(std::process::id()));
    }

    #[test]
    fn a_file_that_is_no_table_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("table");
        std::fs::write(&path, "something else").unwrap();
        let _table = Table::open(&path).unwrap();
        assert!(Reader::open(&path).is_ok());
    }
}
