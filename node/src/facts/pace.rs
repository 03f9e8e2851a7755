//! How often to look at the GPUs: every period while somebody may be about to start, else as seldom as is exact enough.
//!
//! Problem: looking is nearly all that the agent costs, and nearly always there is nothing new to see.
//! Approach: a program opens the driver's library before it can use a GPU, and containers are given the host's own file. So the
//! kernel tells us when one may be about to start. A program may open the library long before, or bring its own: that
//! is why we never stop looking, but space quiet looks so that they cost a small share of a core. A driver that is making contexts takes
//! about a millisecond of a processor's time to answer, measured on an H200: then the others, too, are spaced.

use crate::clock;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fd::OwnedFd;
use rustix::fs::inotify;
use rustix::time::{ClockId, Timespec, clock_gettime};
use sched::{Instant, Span};
use std::mem::MaybeUninit;
use std::path::{Path, PathBuf};

/// How long a start may follow the opening of the library: measured, NVML lists a program within 0.2 s.
const ABOUT_TO_START: Span = Span::from_millis(500);
/// What quiet looks may cost, in thousandths of a core.
const QUIET_PERMILLE: i64 = 5;
/// And all others.
const FINE_PERMILLE: i64 = 50;
/// Quiet looks are at least this far apart: a start is then seen within 10 ms even where nothing announced it.
const QUIET_MIN: Span = Span::from_millis(10);
/// And at most this: a third of what NVML itself is late.
const QUIET_MAX: Span = Span::from_millis(50);
/// In steps of this: people are told how far apart looks are, and not that it changes all the time.
const QUIET_STEP: Span = Span::from_millis(5);
/// Over how many looks their cost is taken, for quiet ones and for the others: these are spaced while the driver is slow, and no longer.
const QUIET_LOOKS: u32 = 32;
const FINE_LOOKS: u32 = 4;
/// Room for a few events of the kernel's; more come with the next read.
const EVENT_BYTES: usize = 1024;

/// When the next look is.
pub(super) struct Pace {
    library: Option<Library>,
    fine_until: Instant,
    next: Instant,
    quiet_account: Account,
    fine_account: Account,
    quiet: Span,
    /// The least between any two.
    fine: Span,
}

/// What looks cost, over so many.
struct Account {
    over: u32,
    looks: u32,
    /// Processor time of this thread when it was last drawn up.
    used_us: i64,
}

impl Account {
    fn over(over: u32) -> Self {
        Self { over, looks: 0, used_us: thread_us() }
    }

    /// Another look was made, and so much processor time has been used. What one costs, if there were enough.
    fn look(&mut self, used_us: i64) -> Option<i64> {
        self.looks += 1;
        if self.looks < self.over {
            return None;
        }
        let each_us = (used_us - self.used_us) / i64::from(self.looks);
        (self.looks, self.used_us) = (0, used_us);
        Some(each_us)
    }
}

impl Pace {
    /// A pace for the driver whose libraries are in that folder. Where its opening cannot be watched, every look is a fine one.
    pub(super) fn new(folder: Option<&Path>) -> Self {
        let library = folder.and_then(|folder| Library::watch(folder.join("libcuda.so.1")));
        let now = clock::now();
        let (quiet_account, fine_account) = (Account::over(QUIET_LOOKS), Account::over(FINE_LOOKS));
        let (quiet, fine) = (QUIET_MIN, Span::ZERO);
        Self { library, fine_until: now, next: now, quiet_account, fine_account, quiet, fine }
    }

    /// How far behind NVML a start may be seen.
    pub(super) fn error(&self, period: Span) -> Span {
        let period = period.max(self.fine);
        if self.library.is_some() { self.quiet.max(period) } else { period }
    }

    /// Waits until the next look is due. `finely`: somebody's tasks begin and end without any announcement.
    pub(super) fn wait(&mut self, period: Span, finely: bool) {
        self.account();
        let period = period.max(self.fine);
        let step = if finely { period } else { self.step(clock::now(), period) };
        // A look that took longer than its period is not made up for by looking twice as often.
        let looked = self.next.max(clock::now() - step);
        self.next = looked + step;
        // While looks are fine there is nothing to be told, however often somebody opens it.
        while let Some(library) = self.library.as_ref().filter(|_| clock::now() >= self.fine_until)
            && self.next > clock::now()
        {
            match library.opened_within(self.next.since(clock::now())) {
                Opened::No => {}
                Opened::Yes => {
                    self.fine_until = clock::now() + ABOUT_TO_START;
                    self.next = self.next.min(looked + period);
                }
                // It was replaced, as an update of the driver does: the new one is watched, if there is one.
                Opened::Unknown => self.library = Library::watch(library.path.clone()),
            }
        }
        std::thread::sleep(clock::until(self.next));
    }

    fn step(&self, now: Instant, period: Span) -> Span {
        if now < self.fine_until { period } else { self.error(period) }
    }

    fn account(&mut self) {
        let used_us = thread_us();
        self.quiet = self.quiet_account.look(used_us).map_or(self.quiet, quiet);
        self.fine = self.fine_account.look(used_us).map_or(self.fine, fine);
    }
}

/// How far apart quiet looks are, if one costs so much processor time.
fn quiet(look_us: i64) -> Span {
    let steps = look_us * 1000 / QUIET_PERMILLE / QUIET_STEP.as_micros() + 1;
    QUIET_STEP.scaled(steps, 1).clamp(QUIET_MIN, QUIET_MAX)
}

/// How far apart looks are at the least, if one costs so much.
fn fine(look_us: i64) -> Span {
    let steps = look_us * 1000 / FINE_PERMILLE / QUIET_STEP.as_micros();
    QUIET_STEP.scaled(steps, 1).min(QUIET_MAX)
}

fn thread_us() -> i64 {
    let used = clock_gettime(ClockId::ThreadCPUTime);
    used.tv_sec * 1_000_000 + used.tv_nsec / 1_000
}

enum Opened {
    No,
    Yes,
    /// It is not the same file any more.
    Unknown,
}

/// The driver's library for programs, whose opening the kernel tells.
struct Library {
    path: PathBuf,
    events: OwnedFd,
}

impl Library {
    fn watch(path: PathBuf) -> Option<Self> {
        let events = inotify::init(inotify::CreateFlags::CLOEXEC | inotify::CreateFlags::NONBLOCK).ok()?;
        let what = inotify::WatchFlags::OPEN | inotify::WatchFlags::ATTRIB | inotify::WatchFlags::MOVE_SELF;
        inotify::add_watch(&events, &path, what | inotify::WatchFlags::DELETE_SELF).ok()?;
        Some(Self { path, events })
    }

    fn opened_within(&self, span: Span) -> Opened {
        let ns = span.as_micros() * 1_000;
        let wait = Timespec { tv_sec: ns / 1_000_000_000, tv_nsec: ns % 1_000_000_000 };
        let mut waits = [PollFd::new(&self.events, PollFlags::IN)];
        if !poll(&mut waits, Some(&wait)).is_ok_and(|ready| ready > 0) {
            return Opened::No;
        }
        let mut room = [MaybeUninit::uninit(); EVENT_BYTES];
        let mut events = inotify::Reader::new(&self.events, &mut room);
        let mut opened = Opened::No;
        while let Ok(event) = events.next() {
            if event.events() != inotify::ReadFlags::OPEN {
                return Opened::Unknown;
            }
            opened = Opened::Yes;
        }
        opened
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PERIOD: Span = Span::from_millis(5);

    #[test]
    fn quiet_looks_cost_a_small_share_of_a_core_and_are_never_far_apart() {
        assert_eq!(quiet(0), QUIET_MIN);
        assert_eq!(quiet(45), QUIET_MIN);
        assert_eq!(quiet(99), Span::from_millis(20));
        assert_eq!(quiet(5_000), QUIET_MAX);
        assert_eq!([fine(45), fine(2_200), fine(5_000)].map(Span::as_micros), [0, 40_000, 50_000]);
    }

    #[test]
    fn what_a_look_costs_is_known_after_a_few() {
        let mut account = Account { over: 4, looks: 0, used_us: 1_000 };
        let costs = [1_100, 1_200, 1_300, 9_000, 9_100].map(|used_us| account.look(used_us));
        assert_eq!(costs, [None, None, None, Some(2_000), None]);
    }

    /// A thread that loses its processor for a period does not look for what was opened before the next.
    fn wait_until_fine(pace: &mut Pace) {
        for _ in 0..100 {
            if pace.fine_until > Instant::ZERO {
                return;
            }
            pace.wait(PERIOD, false);
        }
    }

    #[test]
    fn who_opens_the_library_is_looked_for_every_period() {
        let folder = tempfile::tempdir().unwrap();
        let library = folder.path().join("libcuda.so.1");
        std::fs::write(&library, "").unwrap();
        let mut pace = Pace::new(Some(folder.path()));
        assert_eq!(pace.step(clock::now(), PERIOD), QUIET_MIN);
        drop(std::fs::File::open(&library).unwrap());
        wait_until_fine(&mut pace);
        assert_eq!(pace.step(pace.fine_until - PERIOD, PERIOD), PERIOD);
        assert_eq!(pace.step(pace.fine_until, PERIOD), pace.quiet);
        // An update replaces the file: the new one counts.
        pace.fine_until = Instant::ZERO;
        let beside = folder.path().join("new");
        std::fs::write(&beside, "").unwrap();
        std::fs::rename(&beside, &library).unwrap();
        pace.wait(PERIOD, false);
        assert_eq!(pace.fine_until, Instant::ZERO);
        drop(std::fs::File::open(&library).unwrap());
        wait_until_fine(&mut pace);
        assert!(pace.fine_until > Instant::ZERO && pace.library.is_some());
    }

    #[test]
    fn where_the_library_cannot_be_watched_every_look_is_a_fine_one() {
        let mut pace = Pace::new(None);
        assert_eq!(pace.error(PERIOD), PERIOD);
        let before = clock::now();
        pace.wait(PERIOD, false);
        pace.wait(PERIOD, false);
        assert!(clock::now().since(before) >= PERIOD);
    }
}
