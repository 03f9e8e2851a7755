//! The task table in shared memory: its layout, and how to read it without a system call.
//!
//! Problem: anyone on the machine may look at the table at any time, thousands of times a second, and must neither slow
//! the agent down nor see half a change. Approach: a sequence lock. The writer makes the sequence odd, changes
//! the words, and makes it even; a reader copies the words between two looks at the sequence, and starts over if
//! it was odd or has moved. Everything is 64-bit words in the machine's own byte order; see docs/table.md.

use crate::labels::Mode;
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering, fence};

/// Where the table is when nobody says otherwise.
pub const PATH: &str = "/dev/shm/leeway";
/// The first word of the file: `LEEWAY01` in ASCII.
pub const MAGIC: u64 = u64::from_le_bytes(*b"LEEWAY01");
/// The layout this version writes and reads.
pub const VERSION: u64 = 1;
/// Words before the first task.
pub const HEADER_WORDS: usize = 8;
/// Words of one task.
pub const TASK_WORDS: usize = 32;
/// The most tasks the table holds; of more, the first that many are shown and the rest counted.
pub const TASKS_MAX: usize = 1024;
/// The size of the file.
pub const TABLE_BYTES: usize = (HEADER_WORDS + TASKS_MAX * TASK_WORDS) * 8;
/// How often a reader starts over before it says that the writer died in the middle of a change.
pub const READ_TRIES_MAX: usize = 1_000_000;

/// The words of the header, by index.
pub mod header {
    /// [`super::MAGIC`]
    pub const MAGIC: usize = 0;
    /// [`super::VERSION`]
    pub const VERSION: usize = 1;
    /// Odd while a change is being made.
    pub const SEQUENCE: usize = 2;
    /// How many tasks follow.
    pub const COUNT: usize = 3;
    /// When the table last changed, in microseconds since 1970.
    pub const CHANGED_US: usize = 4;
    /// The agent's pid; 0 once it has stopped in an orderly way.
    pub const AGENT: usize = 5;
    /// How many tasks there are; more than [`COUNT`] if they do not fit.
    pub const TOTAL: usize = 6;
}

/// One task in the table: what runs, and the latest finished task of each container.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TableTask {
    /// The container's id, up to 64 bytes, padded with zeros; all zeros outside any container.
    pub container: [u8; 64],
    /// The container's name, cut at 64 bytes, padded with zeros.
    pub name: [u8; 64],
    /// The process, as the host sees it.
    pub pid: u32,
    /// The GPU, by index.
    pub gpu: u16,
    /// What delimits the task.
    pub mode: Mode,
    /// Its start was not seen.
    pub approximate: bool,
    /// It is held now.
    pub held: bool,
    /// Whether it made its deadline; none while it runs in time, and without one.
    pub hit: Option<bool>,
    /// When it started, in microseconds since 1970.
    pub start_us: i64,
    /// When it ended; none while it runs.
    pub end_us: Option<i64>,
    /// How long it may take.
    pub deadline_us: Option<i64>,
    /// How long holds kept it standing.
    pub held_us: i64,
    /// The most GPU memory it had.
    pub gpu_memory_bytes: u64,
    /// The most of the GPU's core it used, in thousandths.
    pub core_permille: u16,
}

/// A time or length that is not there.
const NONE: u64 = i64::MIN as u64;

impl TableTask {
    /// Its float at the end, or now if it runs.
    pub fn float_us(&self, now_us: i64) -> Option<i64> {
        Some(self.deadline_us? - (self.end_us.unwrap_or(now_us) - self.start_us))
    }

    /// The words of its record.
    pub fn words(&self) -> [u64; TASK_WORDS] {
        let mut words = [0; TASK_WORDS];
        let optional = |value: Option<i64>| value.map_or(NONE, i64::cast_unsigned);
        for (word, bytes) in words.iter_mut().zip(self.container.chunks(8).chain(self.name.chunks(8))) {
            *word = u64::from_ne_bytes(bytes.try_into().unwrap_or_default());
        }
        words[16] = u64::from(self.pid) | u64::from(self.gpu) << 32 | u64::from(self.core_permille) << 48;
        let mode = Mode::ALL.iter().position(|mode| *mode == self.mode).unwrap_or_default() as u64;
        let hit = match self.hit {
            None => 0,
            Some(true) => 1,
            Some(false) => 2,
        };
        words[17] = mode | hit << 8 | u64::from(self.approximate) << 16 | u64::from(self.held) << 24;
        words[18] = self.start_us.cast_unsigned();
        words[19] = optional(self.end_us);
        words[20] = optional(self.deadline_us);
        words[21] = self.held_us.cast_unsigned();
        words[22] = self.gpu_memory_bytes;
        words
    }

    /// The task a record's words say.
    pub fn from_words(words: &[u64; TASK_WORDS]) -> Self {
        let optional = |word: u64| (word != NONE).then_some(word.cast_signed());
        let text = |from: usize| {
            let mut bytes = [0; 64];
            for (part, word) in bytes.chunks_mut(8).zip(&words[from..from + 8]) {
                part.copy_from_slice(&word.to_ne_bytes());
            }
            bytes
        };
        let flags = words[17];
        Self {
            container: text(0),
            name: text(8),
            pid: words[16] as u32,
            gpu: (words[16] >> 32) as u16,
            core_permille: (words[16] >> 48) as u16,
            mode: Mode::ALL.get((flags & 0xff) as usize).copied().unwrap_or_default(),
            hit: [None, Some(true), Some(false)].get((flags >> 8 & 0xff) as usize).copied().flatten(),
            approximate: flags >> 16 & 0xff != 0,
            held: flags >> 24 & 0xff != 0,
            start_us: words[18].cast_signed(),
            end_us: optional(words[19]),
            deadline_us: optional(words[20]),
            held_us: words[21].cast_signed(),
            gpu_memory_bytes: words[22],
        }
    }
}

/// A text as the table stores it.
pub fn padded(text: &str) -> [u8; 64] {
    let mut bytes = [0; 64];
    let length = (0..=text.len().min(64)).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
    bytes[..length].copy_from_slice(&text.as_bytes()[..length]);
    bytes
}

/// A text as the table stored it.
pub fn unpadded(bytes: &[u8; 64]) -> String {
    let length = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..length]).into_owned()
}

/// The table, mapped into this process. Both sides see it as words that change at any time.
pub struct Mapped {
    words: *const AtomicU64,
}

// SAFETY: the words are atomics, which any thread may use; the mapping lives until the last owner drops it.
#[expect(unsafe_code, reason = "a pointer is not Send by itself")]
unsafe impl Send for Mapped {}

// SAFETY: as above; every use through a shared reference is an atomic load or store.
#[expect(unsafe_code, reason = "a pointer is not Sync by itself")]
unsafe impl Sync for Mapped {}

impl Mapped {
    /// Maps a file of [`TABLE_BYTES`]; to write, it must be open for writing.
    #[expect(unsafe_code, reason = "shared memory is a mapping")]
    pub fn new(file: &File, write: bool) -> io::Result<Self> {
        if file.metadata()?.len() < TABLE_BYTES as u64 {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "it is too short to be a task table"));
        }
        let protection = if write { ProtFlags::READ | ProtFlags::WRITE } else { ProtFlags::READ };
        // SAFETY: the kernel chooses the address, so nothing of ours is mapped over, and the length is the file's.
        let address =
            unsafe { mmap(std::ptr::null_mut(), TABLE_BYTES, protection, MapFlags::SHARED, file, 0)? };
        Ok(Self { words: address.cast::<AtomicU64>().cast_const() })
    }

    /// Every word, the header's first.
    #[expect(unsafe_code, reason = "shared memory is a mapping")]
    pub fn words(&self) -> &[AtomicU64] {
        // SAFETY: the mapping has that many bytes, starts at a page and so is aligned, lives as long as `self`, and
        // other processes change it only through atomic stores of whole words.
        unsafe { std::slice::from_raw_parts(self.words, TABLE_BYTES / 8) }
    }
}

impl Drop for Mapped {
    #[expect(unsafe_code, reason = "shared memory is a mapping")]
    fn drop(&mut self) {
        // SAFETY: `new` mapped exactly this, and no slice outlives `self`. A failure leaves the mapping, and no more.
        let _ = unsafe { munmap(self.words.cast_mut().cast(), TABLE_BYTES) };
    }
}

/// Why a table could not be read.
#[derive(Debug, thiserror::Error)]
pub enum Unreadable {
    /// There is no such file, or it may not be read.
    #[error("could not map it")]
    Map(#[from] io::Error),
    /// It is something else, or of a later layout.
    #[error("it is not a task table of layout {VERSION}")]
    Layout,
    /// The writer died in the middle of a change.
    #[error("the agent died while it changed the table")]
    Torn,
}

/// A reader of the table.
pub struct Reader(Mapped);

impl Reader {
    /// Maps the table. Reading it then takes no system call.
    pub fn open(path: &Path) -> Result<Self, Unreadable> {
        Self::over(Mapped::new(&File::open(path)?, false)?)
    }

    /// Reads a mapping that is already there.
    pub fn over(mapped: Mapped) -> Result<Self, Unreadable> {
        let word = |index: usize| mapped.words()[index].load(Ordering::Relaxed);
        if word(header::MAGIC) != MAGIC || word(header::VERSION) != VERSION {
            return Err(Unreadable::Layout);
        }
        Ok(Self(mapped))
    }

    /// The pid of the agent that writes it; none once it has stopped in an orderly way.
    pub fn agent(&self) -> Option<u32> {
        let agent = self.0.words()[header::AGENT].load(Ordering::Relaxed) as u32;
        (agent != 0).then_some(agent)
    }

    /// Copies every task as of one moment into `tasks`.
    pub fn read(&self, tasks: &mut Vec<[u64; TASK_WORDS]>) -> Result<(), Unreadable> {
        let words = self.0.words();
        for _ in 0..READ_TRIES_MAX {
            let before = words[header::SEQUENCE].load(Ordering::Acquire);
            if before % 2 == 1 {
                std::hint::spin_loop();
                continue;
            }
            let count = (words[header::COUNT].load(Ordering::Relaxed) as usize).min(TASKS_MAX);
            tasks.clear();
            let (records, _) = words[HEADER_WORDS..].as_chunks::<TASK_WORDS>();
            tasks.extend(records[..count].iter().map(|record| {
                let mut task = [0; TASK_WORDS];
                task.iter_mut().zip(record).for_each(|(to, from)| *to = from.load(Ordering::Relaxed));
                task
            }));
            // The loads above must not move below the second look at the sequence.
            fence(Ordering::Acquire);
            if words[header::SEQUENCE].load(Ordering::Relaxed) == before {
                return Ok(());
            }
        }
        Err(Unreadable::Torn)
    }
}

/// Replaces all tasks, so that every reader sees the old ones or the new ones.
pub fn publish(mapped: &Mapped, now_us: i64, total: usize, tasks: &[[u64; TASK_WORDS]]) {
    let words = mapped.words();
    // A predecessor that died in the middle of a change left the sequence odd.
    let before = words[header::SEQUENCE].load(Ordering::Relaxed) & !1;
    words[header::SEQUENCE].store(before + 1, Ordering::Relaxed);
    // The stores below must not move above the one that made the sequence odd.
    fence(Ordering::Release);
    words[header::COUNT].store(tasks.len().min(TASKS_MAX) as u64, Ordering::Relaxed);
    words[header::TOTAL].store(total as u64, Ordering::Relaxed);
    words[header::CHANGED_US].store(now_us.cast_unsigned(), Ordering::Relaxed);
    for (to, from) in words[HEADER_WORDS..].iter().zip(tasks.iter().take(TASKS_MAX).flatten()) {
        to.store(*from, Ordering::Relaxed);
    }
    words[header::SEQUENCE].store(before + 2, Ordering::Release);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mapped() -> (tempfile::NamedTempFile, Mapped) {
        let file = tempfile::NamedTempFile::new().unwrap();
        file.as_file().set_len(TABLE_BYTES as u64).unwrap();
        let mapped = Mapped::new(file.as_file(), true).unwrap();
        mapped.words()[header::MAGIC].store(MAGIC, Ordering::Relaxed);
        mapped.words()[header::VERSION].store(VERSION, Ordering::Relaxed);
        (file, mapped)
    }

    #[test]
    fn a_task_comes_back_as_it_was_written() {
        let task = TableTask {
            container: padded(&"4f".repeat(32)),
            name: padded("infer-ü"),
            pid: 4_000_000,
            gpu: 7,
            mode: Mode::Burst,
            approximate: true,
            held: false,
            hit: Some(false),
            start_us: 1_700_000_000_000_000,
            end_us: None,
            deadline_us: Some(-1),
            held_us: 5,
            gpu_memory_bytes: u64::MAX,
            core_permille: 1000,
        };
        assert_eq!(TableTask::from_words(&task.words()), task);
        assert_eq!(unpadded(&task.name), "infer-ü");
        // A letter of two bytes is not cut in half.
        assert_eq!(unpadded(&padded(&"ü".repeat(40))), "ü".repeat(32));
    }

    #[test]
    fn a_change_under_a_reader_is_never_seen_in_half() {
        let (file, writer) = mapped();
        let reader = Reader::open(file.path()).unwrap();
        let done = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut tasks = Vec::new();
                while !done.load(Ordering::Relaxed) {
                    reader.read(&mut tasks).unwrap();
                    let first = tasks.first().map_or(0, |task| task[0]);
                    assert!(tasks.iter().flatten().all(|word| *word == first));
                    assert!(tasks.len() as u64 == first % 7, "{} tasks of {first}", tasks.len());
                }
            });
            for round in 0..20_000_u64 {
                publish(&writer, 0, 0, &vec![[round; TASK_WORDS]; (round % 7) as usize]);
            }
            done.store(true, Ordering::Relaxed);
        });
    }

    #[test]
    fn a_writer_that_died_in_the_middle_is_noticed_and_its_successor_goes_on() {
        let (file, writer) = mapped();
        let reader = Reader::open(file.path()).unwrap();
        writer.words()[header::SEQUENCE].store(7, Ordering::Relaxed);
        assert!(matches!(reader.read(&mut Vec::new()), Err(Unreadable::Torn)));
        publish(&writer, 0, 1, &[[3; TASK_WORDS]]);
        let mut tasks = Vec::new();
        reader.read(&mut tasks).unwrap();
        assert_eq!(tasks, [[3; TASK_WORDS]]);
    }

    #[test]
    fn another_file_is_no_table() {
        let file = tempfile::NamedTempFile::new().unwrap();
        assert!(matches!(Reader::open(file.path()), Err(Unreadable::Map(_))));
        file.as_file().set_len(TABLE_BYTES as u64).unwrap();
        assert!(matches!(Reader::open(file.path()), Err(Unreadable::Layout)));
    }
}
