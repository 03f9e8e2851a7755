//! The guard's own life: wait for the agent's end or silence, and let go.

use super::gates::{self, Gates};
use super::{HOLDING, LET_GO, PATIENCE, WATCHING, release};
use crate::run::Connect;
use crate::swap::Spawn;
use crate::swap::returning::Returning;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

/// How often what is held is let go again, for as long as the agent is silent: it may be half alive, and hold more.
const SWEEP_EVERY: Duration = Duration::from_millis(100);
/// How often letting go is tried after the agent's death before what cannot be let go is left as it is.
const SWEEPS_MAX: u32 = 50;

/// How often it is looked whether there is room for what is swapped out.
const RETURN_EVERY: Duration = Duration::from_millis(500);
/// How long an agent may be silent before what it swapped out is brought back. It lasts longer than a hold anyway, and an agent that
/// wakes must look after it.
const HUNG_MAX: Duration = Duration::from_secs(5);

/// Guards until the agent is dead, everything it held is let go, and what it swapped out is back. The link is standard input.
pub fn run(run_dir: &Path, connect: &Connect, helper: Spawn) -> io::Result<()> {
    outlive_the_agent()?;
    let mut death = hear_of_its_death()?;
    let lock = alone(run_dir)?;
    let mut returning = Returning::new(run_dir, helper);
    let link = io::stdin().as_fd().try_clone_to_owned()?;
    let mut link = UnixStream::from(link);
    let mut gates = gates::receive(&link)?;
    // An agent that is dead already is heard of below.
    let _ = link.write_all(&[WATCHING]);
    let mut patience = None;
    let (mut heard, mut died) = (Instant::now(), None);
    loop {
        let news = hear(&mut link, &mut death, patience)?;
        if matches!(news, Heard::Byte(_)) {
            heard = Instant::now();
        }
        let dies = matches!(news, Heard::Death);
        match news {
            // It said so before it died.
            Heard::Byte(_) if died.is_some_and(|at: Instant| at.elapsed() < PATIENCE) => {}
            Heard::Byte(HOLDING) => patience = Some(PATIENCE),
            Heard::Byte(_) => patience = None,
            Heard::Silence | Heard::Death => {
                if !dies && patience == Some(PATIENCE) {
                    eprintln!(
                        "warning: the agent has said nothing for {} ms: everything is let go",
                        PATIENCE.as_millis()
                    );
                }
                gates.iter_mut().for_each(Gates::open_all);
                if patience == Some(SWEEP_EVERY) {
                    release::held(run_dir, connect, None);
                } else {
                    release::everything(run_dir, connect, None);
                    // It learns of it when it wakes.
                    let _ = link.write_all(&[LET_GO]);
                }
                if heard.elapsed() > HUNG_MAX {
                    let _ = returning.round(None);
                }
                patience = Some(SWEEP_EVERY);
                // From now on, however long that took: what it said before is still to be read.
                if dies {
                    died = Some(Instant::now());
                }
            }
            Heard::End => {
                clear(run_dir, connect, gates)?;
                return bring_back(returning, &lock);
            }
        }
    }
}

/// Waits until no other guard is at work here. An agent that starts just after another died must not hold anything yet: that one's guard
/// would let it go, and forget it. Nothing is held before we say that we watch.
fn alone(run_dir: &Path) -> io::Result<File> {
    std::fs::create_dir_all(run_dir)?;
    let lock = File::create(run_dir.join("guard.lock"))?;
    rustix::fs::flock(&lock, rustix::fs::FlockOperation::LockExclusive)?;
    Ok(lock)
}

enum Heard {
    Byte(u8),
    Silence,
    /// The agent dies.
    Death,
    /// It is dead, with all its threads.
    End,
}

fn hear(link: &mut UnixStream, death: &mut UnixStream, patience: Option<Duration>) -> io::Result<Heard> {
    let timeout = patience.and_then(|patience| Timespec::try_from(patience).ok());
    let mut fds = [PollFd::new(link, PollFlags::IN), PollFd::new(death, PollFlags::IN)];
    match poll(&mut fds, timeout.as_ref()) {
        Ok(0) => return Ok(Heard::Silence),
        Ok(_) => {}
        Err(rustix::io::Errno::INTR) => return hear(link, death, patience),
        Err(error) => return Err(error.into()),
    }
    let dies = fds[1].revents().contains(PollFlags::IN);
    // Many may have gathered while we were at it: the last one counts.
    let mut bytes = [0; 64];
    if dies {
        return death.read(&mut bytes).map(|_| Heard::Death);
    }
    match link.read(&mut bytes) {
        Ok(0) => Ok(Heard::End),
        Ok(count) => Ok(Heard::Byte(bytes[count - 1])),
        Err(error) if error.kind() == io::ErrorKind::Interrupted => hear(link, death, patience),
        // Its end was closed with news of ours unread.
        Err(error) if error.kind() == io::ErrorKind::ConnectionReset => Ok(Heard::End),
        Err(error) => Err(error),
    }
}

/// What can be read once the agent's thread that started us is dead.
///
/// The link ends only when all its threads are, and one that puts in or takes out a probe cannot be killed until the kernel is done:
/// 0.1 s, and most of a second on a machine under load. Whoever is held need not wait for that. But such a thread may still hold
/// somebody, so everybody is let go again and again until the link ends.
fn hear_of_its_death() -> io::Result<UnixStream> {
    use signal_hook::consts::SIGUSR1;
    let (ours, theirs) = UnixStream::pair()?;
    signal_hook::low_level::pipe::register(SIGUSR1, theirs)?;
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::USR1))?;
    Ok(ours)
}

/// The agent is dead: nobody holds anything any more.
fn clear(run_dir: &Path, connect: &Connect, mut gates: Option<Gates>) -> io::Result<()> {
    gates.iter_mut().for_each(Gates::open_all);
    for _ in 0..SWEEPS_MAX {
        let done = release::everything(run_dir, connect, None).failed.is_empty();
        // Whoever was on its way through a gate as it was opened stands by now.
        gates.iter_mut().for_each(Gates::open_all);
        if done {
            return release::forget(run_dir);
        }
        std::thread::sleep(SWEEP_EVERY);
    }
    // The file stays, for whoever comes next.
    Ok(())
}

/// What the agent swapped out comes back one by one, as memory allows: until all of it is back, or another agent's guard has the lock.
/// That agent then looks after it.
fn bring_back(mut returning: Returning, lock: &File) -> io::Result<()> {
    use rustix::fs::{FlockOperation, flock};
    while !returning.is_over() {
        returning.round(None)?;
        flock(lock, FlockOperation::Unlock)?;
        std::thread::sleep(RETURN_EVERY);
        if flock(lock, FlockOperation::NonBlockingLockExclusive).is_err() {
            return Ok(());
        }
    }
    Ok(())
}

/// Ctrl-C, a closed terminal and a stopped service end the agent, and the guard after it. The kernel looks for somebody
/// else when memory runs out.
fn outlive_the_agent() -> io::Result<()> {
    use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};
    for signal in [SIGHUP, SIGINT, SIGQUIT, SIGTERM] {
        signal_hook::flag::register(signal, Arc::new(AtomicBool::new(false)))?;
    }
    // Who leads its group already is on its own already.
    let _ = rustix::process::setsid();
    let _ = std::fs::write("/proc/self/oom_score_adj", "-1000");
    Ok(())
}
