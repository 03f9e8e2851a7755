//! The journal: every fact and every decision on disk, so that what the agent did can be done again and looked at.
//!
//! A thread of its own writes; the owner never waits for a disk. Should the disk fall behind, what is lost is counted and said.

mod lines;
pub mod replay;

use sched::{Action, Fact, GpuId, Instant};
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};
use std::thread::JoinHandle;
use wire::journal::{Line, VERSION};

/// How many lines may wait for the disk.
const LINES_QUEUED_MAX: usize = 16_384;
/// How large one file grows.
const FILE_BYTES_MAX: u64 = 8 << 20;
/// How many files are kept, of this recording and earlier ones.
const FILES_MAX: usize = 16;
/// How their names end.
const SUFFIX: &str = ".jsonl";

/// The owner's end.
pub(crate) struct Journal {
    lines: Option<SyncSender<Line>>,
    thread: Option<JoinHandle<()>>,
    lost: u64,
}

impl Journal {
    /// Begins a recording in a folder, which is made.
    pub(crate) fn start(folder: &Path, name: &str) -> io::Result<Self> {
        std::fs::create_dir_all(folder)?;
        let mut writer = Writer::begin(folder, name)?;
        let (lines, waiting) = sync_channel(LINES_QUEUED_MAX);
        let write = move || {
            if let Err(error) = writer.run(&waiting) {
                let folder = writer.folder.display();
                eprintln!(
                    "warning: the journal in {folder} cannot be written, and the agent goes on without: {error}"
                );
            }
        };
        let thread = std::thread::Builder::new().name("journal".to_owned()).spawn(write)?;
        Ok(Self { lines: Some(lines), thread: Some(thread), lost: 0 })
    }

    pub(crate) fn fact(&mut self, at: Instant, fact: &Fact) {
        self.write(Line::Fact { at: lines::micros(at), fact: lines::fact(fact) });
    }

    pub(crate) fn decided(&mut self, at: Instant, actions: &[Action]) {
        let actions = actions.iter().map(lines::action).collect();
        self.write(Line::Decide { at: lines::micros(at), actions });
    }

    pub(crate) fn policy(&mut self, at: Instant, gpu: Option<GpuId>, policy: &str) {
        let gpu = gpu.map(|gpu| gpu.0);
        self.write(Line::Policy { at: lines::micros(at), gpu, policy: policy.to_owned() });
    }

    fn write(&mut self, line: Line) {
        let Some(lines) = &self.lines else { return };
        if self.lost > 0 && lines.try_send(Line::Lost(self.lost)).is_ok() {
            self.lost = 0;
        }
        if self.lost > 0 || lines.try_send(line).is_err() {
            self.lost += 1;
        }
    }
}

impl Drop for Journal {
    /// What was recorded is on disk before the agent ends.
    fn drop(&mut self) {
        self.lines = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

struct Writer {
    folder: PathBuf,
    name: String,
    part: u32,
    file: BufWriter<File>,
    written: u64,
}

impl Writer {
    fn begin(folder: &Path, name: &str) -> io::Result<Self> {
        let file = open(folder, name, 0)?;
        let mut writer = Self { folder: folder.to_owned(), name: name.to_owned(), part: 0, file, written: 0 };
        writer.head()?;
        writer.drop_the_oldest();
        Ok(writer)
    }

    fn run(&mut self, lines: &Receiver<Line>) -> io::Result<()> {
        loop {
            let line = match lines.try_recv() {
                Ok(line) => line,
                // Nothing more for now: what there is belongs on disk.
                Err(TryRecvError::Empty) => {
                    self.file.flush()?;
                    let Ok(line) = lines.recv() else { return Ok(()) };
                    line
                }
                Err(TryRecvError::Disconnected) => return self.file.flush(),
            };
            if self.written >= FILE_BYTES_MAX {
                self.rotate()?;
            }
            self.put(&line)?;
        }
    }

    fn put(&mut self, line: &Line) -> io::Result<()> {
        let mut text = serde_json::to_vec(line)?;
        text.push(b'\n');
        self.written += text.len() as u64;
        self.file.write_all(&text)
    }

    fn head(&mut self) -> io::Result<()> {
        let program = env!("CARGO_PKG_VERSION").to_owned();
        self.put(&Line::Begin { version: VERSION, program, part: self.part })
    }

    fn rotate(&mut self) -> io::Result<()> {
        self.file.flush()?;
        self.part += 1;
        self.file = open(&self.folder, &self.name, self.part)?;
        self.written = 0;
        self.head()?;
        self.drop_the_oldest();
        Ok(())
    }

    /// Names begin with the time, so they sort by age. What cannot be removed stays.
    fn drop_the_oldest(&self) {
        let Ok(files) = std::fs::read_dir(&self.folder) else { return };
        let names = files.flatten().map(|file| file.path());
        let mut names: Vec<PathBuf> = names.filter(|path| path.to_string_lossy().ends_with(SUFFIX)).collect();
        names.sort();
        let too_many = names.len().saturating_sub(FILES_MAX);
        names.iter().take(too_many).for_each(|path| drop(std::fs::remove_file(path)));
    }
}

fn open(folder: &Path, name: &str, part: u32) -> io::Result<BufWriter<File>> {
    Ok(BufWriter::new(File::create(part_of(folder, name, part))?))
}

/// The path of one file of a recording.
fn part_of(folder: &Path, name: &str, part: u32) -> PathBuf {
    folder.join(format!("{name}-{part:05}{SUFFIX}"))
}
