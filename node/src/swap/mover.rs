//! Whoever wants a process's memory moved: it orders the helper about, waits so long and no longer, and finishes or undoes what a helper left
//! that died or hangs.

use super::Spawn;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use sched::Process;
use std::io::{self, BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};
use std::time::{Duration, Instant};
use wire::swap::{Answer, Order, Room, State};

/// How long what takes no time may take: the first call attaches to the GPUs, and a lock waits for the process.
const CALL_MAX: Duration = Duration::from_secs(30);
/// How long moving may take: so long, and so much more for each GiB. 40 GiB took 29.5 s.
const MOVE_MAX: Duration = Duration::from_mins(1);
const MOVE_MAX_PER_GIB: Duration = Duration::from_secs(3);
/// How often it is tried to bring somebody back before that is left for later.
const STEPS_MAX: u32 = 6;

/// Why something was not moved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Why {
    /// The process is gone.
    Gone,
    /// There is no room for it; a sentence.
    NoRoom(String),
    /// The driver will not, or cannot; a sentence.
    Refused(String),
    /// It was not in time, or the helper died; a sentence.
    Broken(String),
    /// The driver has given the process up; a sentence.
    Lost(String),
}

impl Why {
    /// As a sentence.
    pub fn words(&self) -> &str {
        match self {
            Why::Gone => "the process is gone",
            Why::NoRoom(words) | Why::Refused(words) | Why::Broken(words) | Why::Lost(words) => words,
        }
    }
}

/// The one helper, and how to start another.
pub struct Mover {
    spawn: Spawn,
    helper: Option<Helper>,
}

struct Helper {
    child: Child,
    orders: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Drop for Helper {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Mover {
    /// Starts nothing yet.
    pub fn new(spawn: Spawn) -> Self {
        Self { spawn, helper: None }
    }

    /// Keeps a process from the GPU. How much room it has there: until it is kept from it, it can allocate, and given too little room when it
    /// comes back, it is lost.
    pub fn lock(&mut self, process: Process) -> Result<Vec<Room>, Why> {
        let Process { pid, started } = process;
        let before = self.measure(pid)?;
        match self.ask(&Order::Lock { pid, started }, CALL_MAX) {
            Ok(_) => Ok(most_of(before, self.measure(pid).unwrap_or_default())),
            Err(why) => Err(self.undone(process, why)),
        }
    }

    fn measure(&mut self, pid: u32) -> Result<Vec<Room>, Why> {
        match self.ask(&Order::Measure { pid }, CALL_MAX)? {
            Answer::Rooms(rooms) => Ok(rooms),
            _ => Err(Why::Refused("the helper did not measure".to_owned())),
        }
    }

    /// Moves the memory of a locked process out. If that fails it is unlocked; if only the word of it was lost, it is out.
    pub fn take(&mut self, process: Process, rooms: &[Room]) -> Result<(), Why> {
        let Process { pid, started } = process;
        match self.ask(&Order::Checkpoint { pid, started }, limit(rooms)) {
            Ok(_) => Ok(()),
            Err(Why::Gone) => Err(Why::Gone),
            Err(why) => match self.state(process) {
                Ok(State::Out) => Ok(()),
                _ => Err(self.undone(process, why)),
            },
        }
    }

    /// Brings a process back, wherever it is on its way. Without room nothing is done.
    pub fn bring_back(&mut self, process: Process, rooms: &[Room]) -> Result<(), Why> {
        let Process { pid, started } = process;
        let mut last = Why::Refused("it moves".to_owned());
        for _ in 0..STEPS_MAX {
            let step = match self.state(process)? {
                State::Running => return Ok(()),
                State::Locked => self.ask(&Order::Unlock { pid, started }, CALL_MAX),
                State::Out => self.ask(&Order::Restore { pid, started, rooms: rooms.to_vec() }, limit(rooms)),
                State::Lost => {
                    let words = "its memory did not fit back, and the driver has given it up";
                    return Err(Why::Lost(words.to_owned()));
                }
            };
            match step {
                Err(why @ (Why::Gone | Why::NoRoom(_))) => return Err(why),
                Err(why) => last = why,
                Ok(_) => {}
            }
        }
        Err(last)
    }

    /// Where a process's memory is.
    pub fn state(&mut self, Process { pid, started }: Process) -> Result<State, Why> {
        match self.ask(&Order::State { pid, started }, CALL_MAX)? {
            Answer::State(state) => Ok(state),
            other => Err(Why::Refused(format!("the helper did not say where it is, but {other:?}"))),
        }
    }

    /// What went wrong, once the process is not locked any more, or nothing more can be done about that.
    fn undone(&mut self, process: Process, why: Why) -> Why {
        let Process { pid, started } = process;
        for _ in 0..STEPS_MAX {
            match self.state(process) {
                Ok(State::Locked) => drop(self.ask(&Order::Unlock { pid, started }, CALL_MAX)),
                Ok(_) | Err(Why::Gone) => break,
                Err(_) => {}
            }
        }
        why
    }

    fn ask(&mut self, order: &Order, limit: Duration) -> Result<Answer, Why> {
        let answered = self.helper().and_then(|helper| helper.ask(order, limit));
        match answered {
            Ok(Answer::Gone) => Err(Why::Gone),
            Ok(Answer::NoRoom(words)) => Err(Why::NoRoom(words)),
            Ok(Answer::Refused(words)) => Err(Why::Refused(words)),
            Ok(answer) => Ok(answer),
            Err(error) => {
                // Dead or hanging, it is of no use any more.
                self.helper = None;
                Err(Why::Broken(format!("the helper that calls the driver failed: {error}")))
            }
        }
    }

    fn helper(&mut self) -> io::Result<&mut Helper> {
        if self.helper.is_none() {
            let mut command = (self.spawn)()?;
            let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
            let (Some(orders), Some(answers)) = (child.stdin.take(), child.stdout.take()) else {
                return Err(io::ErrorKind::BrokenPipe.into());
            };
            self.helper = Some(Helper { child, orders, answers: BufReader::new(answers) });
        }
        self.helper.as_mut().ok_or_else(|| io::ErrorKind::BrokenPipe.into())
    }
}

impl Helper {
    fn ask(&mut self, order: &Order, limit: Duration) -> io::Result<Answer> {
        let order = serde_json::to_string(order).map_err(io::Error::other)?;
        writeln!(self.orders, "{order}")?;
        self.wait_for_an_answer(limit)?;
        let mut line = String::new();
        if self.answers.read_line(&mut line)? == 0 {
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "it died"));
        }
        serde_json::from_str(&line).map_err(io::Error::other)
    }

    fn wait_for_an_answer(&mut self, limit: Duration) -> io::Result<()> {
        let end = Instant::now() + limit;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            let timeout = Timespec::try_from(left).map_err(io::Error::other)?;
            let mut fds = [PollFd::new(self.answers.get_ref(), PollFlags::IN)];
            match poll(&mut fds, Some(&timeout)) {
                Ok(0) => {
                    let words = format!("no answer in {} s", limit.as_secs());
                    return Err(io::Error::new(io::ErrorKind::TimedOut, words));
                }
                Ok(_) => return Ok(()),
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}

fn limit(rooms: &[Room]) -> Duration {
    let gib = rooms.iter().map(|(_, bytes)| bytes >> 30).sum::<u64>();
    MOVE_MAX + MOVE_MAX_PER_GIB * u32::try_from(gib).unwrap_or(u32::MAX)
}

/// The most that was measured on each GPU.
fn most_of(mut rooms: Vec<Room>, later: Vec<Room>) -> Vec<Room> {
    for (gpu, bytes) in later {
        match rooms.iter_mut().find(|(known, _)| *known == gpu) {
            Some((_, most)) => *most = bytes.max(*most),
            None => rooms.push((gpu, bytes)),
        }
    }
    rooms
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;
    use std::sync::Arc;

    /// A helper that gives these answers, whatever it is asked.
    fn answers(answers: &[Answer]) -> Mover {
        let lines = answers.iter().map(|answer| serde_json::to_string(answer).expect("JSON"));
        let lines: Vec<String> = lines.map(|line| format!("read order; echo '{line}'")).collect();
        let script = lines.join("\n");
        Mover::new(Arc::new(move || {
            let mut shell = Command::new("sh");
            shell.args(["-c", &script]);
            Ok(shell)
        }))
    }

    #[test]
    fn what_a_process_allocates_until_it_is_locked_counts() {
        let rooms = |bytes: u64| Answer::Rooms(vec![(0, bytes)]);
        let process = Process { pid: 7, started: 1 };
        let mut grows = answers(&[rooms(100), Answer::Done, rooms(300)]);
        assert_eq!(grows.lock(process), Ok(vec![(0, 300)]));
        let mut hides = answers(&[rooms(100), Answer::Done, Answer::Rooms(Vec::new())]);
        assert_eq!(hides.lock(process), Ok(vec![(0, 100)]));
        assert_eq!(most_of(vec![(0, 5)], vec![(1, 7), (0, 3)]), [(0, 5), (1, 7)]);
    }
}
