//! The gates: who is to be stopped at its next launch, who stands there, and how they go on.
//!
//! The kernel stops a process by itself and says so afterwards, so what it says can cross what is ordered: a gate is opened, and word comes
//! of a process that was stopped just before. While the kernel's own list of those it stopped has it, such a process is told of all the same,
//! and whoever decides lets it go again; else it was let go already. What was dropped on the way is found in that list, which is looked through
//! several times a second.
//!
//! What is to be told waits in the outbox, and is told in the order in which it happened, with what the kernel says. So whoever stopped for urgent
//! work is told of after that work: told before, it would seem to stand for nobody, and the next in turn would be let go.

mod bounded;
mod contexts;
mod heard;
mod missed;
mod moving;
mod roles;
#[cfg(test)]
mod stories;

use super::kernel::Tables;
use super::layout::{
    Control, Orders, SHUT_ALLOCATIONS, SHUT_CONTEXT, SHUT_LAUNCHES, Span, TELL_COPIES, YIELDS, kind,
};
use super::roll::Roll;
use super::slots::Slots;
use super::turnstile::Turnstile;
use super::{Work, ns_now};
use rustix::fd::OwnedFd;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use sched::scheduler::Role;
use sched::task::Gate;
use sched::{GpuId, Instant, Process};
use std::collections::HashMap;
use std::io;

/// How long the kernel obeys without hearing from the agent.
pub(super) const LEASE_NS: u64 = 500_000_000;
/// How long before the GPU should run dry a process that the bound stopped is let go: what a signal and a launch take.
const EARLY_NS: u64 = 150_000;
/// How long a process may stand at its gate before whoever decides is told once more, and before it is looked at whether it really stands.
const FORGOTTEN_NS: u64 = 300_000_000;
/// However wrong an estimate is, nobody stands longer than that for what is in flight.
const BOUND_MAX_NS: u64 = 10_000_000_000;
/// The highest number of a GPU that the kernel's tables have room for.
const GPUS_MAX: u16 = 64;

/// Where a process stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stand {
    Launch,
    Allocation,
    /// Before its first context, until its turn comes.
    Context,
    /// Too much is in flight.
    Bound {
        until_ns: u64,
        /// Whoever decides counts it as held until it goes on.
        held: bool,
    },
}

/// What a process has on the GPU, from the least to the most.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Has {
    Nothing,
    Copies,
    Launches,
}

/// A process that is probed.
struct Tracked {
    process: Process,
    pidfd: OwnedFd,
    slot: u32,
    orders: Orders,
    /// Somebody needs its probes.
    wanted: bool,
    role: Role,
    stands: Option<Stand>,
    /// The latest of its stops that was taken in, by when it was made; and that was told once more.
    stopped_ns: u64,
    reminded_ns: u64,
    /// The latest of which it was told that somebody else had ended it.
    leaked_ns: u64,
    /// When what it does first is due.
    due_us: u64,
    /// Its probes are in place.
    covered: bool,
    /// Its memory is being moved: it must run, and cannot reach the GPU.
    moves: bool,
    /// The urgent work, by its beginning, of which whoever decides was told when it let this process go.
    warned_of: u64,
    /// What it has on the GPU may count as in flight, whatever it is to others by now.
    was_bounded: bool,
    /// What was last told of its work, and since when that is so.
    told: (u64, Has),
}

/// A process that was let go at its launch. As long as it has not called the driver again, the kernel does not count that launch as in flight.
struct Going {
    pid: u32,
    since_ns: u64,
    /// When what it launched is nearly done.
    until_ns: u64,
}

/// All gates, and the kernel's tables.
pub(super) struct Gates {
    tables: Tables,
    roll: Roll,
    tracked: HashMap<u32, Tracked>,
    /// What is to be told of what was done here, and since when it is true.
    outbox: Vec<(u64, Process, Work)>,
    bound_ns: u64,
    /// For each GPU who was let go there last, of those whose time in flight is bounded.
    going: HashMap<u32, Going>,
    contexts: Turnstile,
    slots: Slots,
    /// How many events were dropped of which it was told what became.
    made_up_for: u64,
}

impl Tracked {
    fn is_told_of(&mut self, at_ns: u64, has: Has) {
        if at_ns >= self.told.0 {
            self.told = (at_ns, has);
        }
    }

    /// What whoever decides is told once more of one that stands for long, at a launch or at an allocation.
    fn reminder(&self, asked: u64) -> Option<Work> {
        match self.stands? {
            Stand::Launch => Some(Work::AtLaunch),
            Stand::Allocation => Some(Work::AtAllocation(asked)),
            _ => None,
        }
    }

    /// Somebody else ended a stop of its, of that kind. None if that was told before, or if nothing came of it: a context that is made out of turn is
    /// made all the same.
    fn leak(&mut self, stopped_ns: u64, why: u32) -> Option<Work> {
        let told_ns = std::mem::replace(&mut self.leaked_ns, stopped_ns);
        // Of one that we let go meanwhile it is not known which stop that was.
        if (stopped_ns > 0 && told_ns == stopped_ns) || why == kind::STAND_CONTEXT {
            return None;
        }
        if why == kind::STAND_ALLOCATION {
            return Some(Work::LeakedAtAllocation);
        }
        self.is_told_of(ns_now(), Has::Launches);
        Some(Work::Leaked)
    }
}

impl Gates {
    pub(super) fn new(tables: Tables, roll: Roll, bound_ns: u64) -> Self {
        Self {
            tables,
            roll,
            tracked: HashMap::new(),
            outbox: Vec::new(),
            bound_ns,
            going: HashMap::new(),
            contexts: Turnstile::default(),
            slots: Slots::new(),
            made_up_for: 0,
        }
    }

    /// A process that will be probed; one that has no context yet, with the moment it is due. False if it is gone.
    pub(super) fn enlist(
        &mut self,
        process: Process,
        gpu: GpuId,
        requests: bool,
        starts: Option<Instant>,
    ) -> bool {
        let tell_copies = if requests { TELL_COPIES } else { 0 };
        if let Some(known) = self.known(process) {
            known.orders.gpu = u32::from(gpu.0 % GPUS_MAX);
            known.orders.flags = known.orders.flags & !TELL_COPIES | tell_copies;
            known.wanted = true;
            return self.write(process.pid).is_ok();
        }
        let Some(pid) = Pid::from_raw(process.pid.cast_signed()) else { return false };
        let Ok(pidfd) = pidfd_open(pid, PidfdFlags::empty()) else { return false };
        if !crate::facts::process::is_still(process) {
            return false;
        }
        if let Some(namesake) = self.tracked.get(&process.pid).map(|known| known.process) {
            self.strike(namesake);
        }
        let Some(slot) = self.slots.take() else { return false };
        let flags = tell_copies | if starts.is_some() { SHUT_CONTEXT } else { 0 };
        let orders =
            Orders { pid: process.pid, gpu: u32::from(gpu.0 % GPUS_MAX), flags, ..Orders::default() };
        let due_us = starts.map_or(0, Instant::as_micros);
        let tracked = Tracked {
            process,
            pidfd,
            slot,
            orders,
            wanted: true,
            role: Role::Plain,
            stands: None,
            stopped_ns: 0,
            reminded_ns: 0,
            leaked_ns: 0,
            due_us,
            covered: false,
            moves: false,
            warned_of: 0,
            was_bounded: false,
            told: (0, Has::Nothing),
        };
        self.tracked.insert(process.pid, tracked);
        if starts.is_some() {
            self.contexts.expect(process.pid, due_us, ns_now());
        }
        self.write_roll();
        let written = self.tables.spans.set(slot, Span::idle(slot), 0).is_ok()
            && self.write(process.pid).is_ok()
            && self.tables.slots.insert(process.pid, slot, 0).is_ok();
        if !written {
            self.strike(process);
        }
        written
    }

    /// Its probes are in place, or will be taken out.
    pub(super) fn set_covered(&mut self, process: Process, covered: bool) {
        if !covered {
            self.let_go(process);
        }
        let Some(known) = self.known(process) else { return };
        known.covered = covered;
        known.orders.flags &= !YIELDS;
        known.orders.flags |= if covered && known.role.yields() { YIELDS } else { 0 };
        let _ = self.write(process.pid);
    }

    /// A process that is probed no more: it is let go, and forgotten.
    pub(super) fn strike(&mut self, process: Process) {
        if self.known(process).is_none() {
            return;
        }
        self.let_go(process);
        let Some(known) = self.tracked.remove(&process.pid) else { return };
        let _ = self.tables.slots.remove(&process.pid);
        let _ = self.tables.orders.set(known.slot, Orders::default(), 0);
        let _ = self.tables.resumed.remove(&process.pid);
        self.going.retain(|_, going| going.pid != process.pid);
        self.write_roll();
        self.slots.give_back(known.slot);
        self.write_gpu(known.orders.gpu);
    }

    /// A process is gone, with all it had in flight.
    pub(super) fn bury(&mut self, process: Process) {
        let bounded = self.known(process).filter(|known| known.was_bounded);
        let place = bounded.map(|known| (known.slot, known.orders.gpu));
        let in_flight = place.filter(|(slot, _)| self.tables.spans.get(slot, 0).is_ok_and(Span::is_busy));
        self.strike(process);
        in_flight.into_iter().for_each(|(_, gpu)| self.clear(gpu));
    }

    /// Nobody needs the probes of a process any more. False if it has none.
    pub(super) fn may_leave(&mut self, process: Process) -> bool {
        self.known(process).map(|known| known.wanted = false).is_some()
    }

    /// Strikes a process, unless somebody has needed its probes since it was said that they may leave. Whether it was struck.
    pub(super) fn dismiss(&mut self, process: Process) -> bool {
        let unwanted = self.known(process).is_none_or(|known| !known.wanted);
        if unwanted {
            self.strike(process);
        }
        unwanted
    }

    pub(super) fn covers(&self, process: Process) -> bool {
        self.tracked.get(&process.pid).is_some_and(|known| known.process == process && known.covered)
    }

    /// The number in the kernel's tables under which a process is probed.
    pub(super) fn slot(&self, process: Process) -> Option<u32> {
        self.tracked.get(&process.pid).filter(|known| known.process == process).map(|known| known.slot)
    }

    /// From here on the process stops at its next launch, or allocation.
    pub(super) fn shut(&mut self, process: Process, gate: Gate) -> io::Result<()> {
        let Some(known) = self.known(process).filter(|known| known.covered) else {
            return Err(io::ErrorKind::NotFound.into());
        };
        // Probes that were to leave would let it go.
        known.wanted = true;
        known.orders.flags |= match gate {
            Gate::Launches => SHUT_LAUNCHES,
            Gate::Allocations | Gate::Anywhere => SHUT_LAUNCHES | SHUT_ALLOCATIONS,
        };
        if gate == Gate::Launches {
            known.orders.flags &= !SHUT_ALLOCATIONS;
        }
        let stands = known.stands;
        self.write(process.pid)?;
        match stands {
            Some(Stand::Bound { .. }) => {
                self.put(process.pid, Stand::Launch);
                self.outbox.push((ns_now(), process, Work::AtLaunch));
                Ok(())
            }
            // It may have its memory; at its launch it stops again.
            Some(Stand::Allocation) if gate == Gate::Launches => {
                self.outbox.push((ns_now(), process, Work::Resumed));
                self.resume(process.pid)
            }
            _ => Ok(()),
        }
    }

    /// Lets the process make the allocation it stands at. The kernel stopped it behind the gate, so it passes once.
    pub(super) fn pass(&mut self, process: Process) -> io::Result<()> {
        let stands = self.known(process).and_then(|known| known.stands);
        if stands == Some(Stand::Allocation) { self.resume(process.pid) } else { Ok(()) }
    }

    /// Lets the process through, and lets it run if it stands. Urgent work may have come meanwhile: then it waits on, and whoever decides
    /// is told that it does, after that work. Who lets it go once more wants it to run beside.
    pub(super) fn open(&mut self, process: Process) -> io::Result<()> {
        let looked = ns_now();
        let urgent = self.urgent_on(process);
        let Some(known) = self.known(process) else { return Ok(()) };
        known.orders.flags &= !(SHUT_LAUNCHES | SHUT_ALLOCATIONS);
        let yields = known.orders.flags & YIELDS != 0 && urgent != Some(known.orders.beside);
        let news = urgent.filter(|since| yields && known.warned_of != *since);
        if let (Some(since), None) = (urgent, news) {
            // It would be stopped again at its next launch.
            known.orders.beside = since;
        }
        self.write(process.pid)?;
        match (self.stand(process.pid, looked), news) {
            (Some(Stand::Launch), Some(since)) => {
                self.tracked.entry(process.pid).and_modify(|known| known.warned_of = since);
                self.outbox.push((ns_now(), process, Work::AtLaunch));
                Ok(())
            }
            (Some(Stand::Launch), None) => self.go_on(process),
            (Some(Stand::Allocation), _) => self.resume(process.pid),
            // The first two go on by themselves. Who does not stand runs; to let it run all the same would be to let it through, if the kernel
            // stopped it for urgent work a moment ago.
            (Some(Stand::Bound { .. } | Stand::Context) | None, _) => Ok(()),
        }
    }

    /// Where a process stood at that moment, also if its event is still on the way.
    fn stand(&mut self, pid: u32, moment_ns: u64) -> Option<Stand> {
        let told = self.tracked.get(&pid).and_then(|known| known.stands);
        let untold = self.tables.standing.get(&pid, 0).ok().filter(|standing| standing.since < moment_ns);
        if let Some(standing) = untold.filter(|_| told.is_none()) {
            self.take(&standing.event(pid));
        }
        self.tracked.get(&pid).and_then(|known| known.stands)
    }

    /// Lets the process run, whatever else is on the GPU.
    pub(super) fn let_go(&mut self, process: Process) {
        let urgent = self.urgent_on(process);
        let Some(known) = self.known(process) else { return };
        known.orders.flags &= !(SHUT_LAUNCHES | SHUT_ALLOCATIONS | SHUT_CONTEXT);
        known.orders.beside = urgent.unwrap_or(known.orders.beside);
        let _ = self.write(process.pid);
        let _ = self.resume(process.pid);
        self.contexts.is_through(process.pid);
    }

    /// The same of one that can reach the GPU: it launches, and whoever decides is told.
    pub(super) fn let_launch(&mut self, process: Process) {
        let stood = self.known(process).and_then(|known| known.stands);
        self.let_go(process);
        if matches!(stood, Some(Stand::Launch | Stand::Bound { held: true, .. })) {
            self.outbox.push((ns_now(), process, Work::Submitted));
        }
    }

    /// Whether anybody stands.
    pub(super) fn somebody_stands(&self) -> bool {
        self.tracked.values().any(|known| known.stands.is_some())
    }

    /// Renews the lease, or lets it run out.
    pub(super) fn renew(&mut self, until_ns: u64) {
        let _ = self.tables.control.set(0, Control { lease: until_ns, early: EARLY_NS }, 0);
    }

    /// Lets those go on whose time has come. What is to be told of what was done here.
    pub(super) fn act(&mut self, now_ns: u64) -> Vec<(u64, Process, Work)> {
        self.let_the_bounded_go(now_ns);
        self.let_the_moving_run(now_ns);
        self.let_in(now_ns);
        std::mem::take(&mut self.outbox)
    }

    /// Whether anybody is probed.
    pub(super) fn is_empty(&self) -> bool {
        self.tracked.is_empty()
    }

    /// What a guard needs to open every gate: the lease, and who stands.
    pub(super) fn tables_for_the_guard(&self) -> io::Result<Vec<OwnedFd>> {
        Ok(vec![self.tables.guards.0.try_clone()?, self.tables.guards.1.try_clone()?])
    }

    pub(super) fn write_roll(&self) {
        self.roll.write(self.tracked.values().map(|known| known.process));
    }

    fn known(&mut self, process: Process) -> Option<&mut Tracked> {
        self.tracked.get_mut(&process.pid).filter(|known| known.process == process)
    }

    /// The order matters: written as running before it runs, or its next stop would be taken for this one.
    fn resume(&mut self, pid: u32) -> io::Result<()> {
        let Some(known) = self.tracked.get_mut(&pid) else {
            // It is probed no more; that it stands is all the more our doing.
            let _ = self.tables.standing.remove(&pid);
            let pid = Pid::from_raw(pid.cast_signed());
            return pid.map_or(Ok(()), |pid| Ok(rustix::process::kill_process(pid, Signal::CONT)?));
        };
        if matches!(known.stands, Some(Stand::Launch | Stand::Bound { .. })) {
            known.is_told_of(ns_now(), Has::Launches);
        }
        let before = (known.stands, known.stopped_ns);
        let standing = self.tables.standing.get(&pid, 0);
        (known.stands, known.stopped_ns) = (None, 0);
        let at_ns = ns_now();
        let _ = self.tables.resumed.insert(pid, at_ns, 0);
        let _ = self.tables.standing.remove(&pid);
        match pidfd_send_signal(&known.pidfd, Signal::CONT) {
            Ok(()) | Err(rustix::io::Errno::SRCH) => {
                self.takes_its_turn(pid, before.0, at_ns);
                Ok(())
            }
            Err(error) => {
                // It stands as before, and whoever tries again must find it.
                (known.stands, known.stopped_ns) = before;
                let _ = standing.map(|standing| self.tables.standing.insert(pid, standing, 0));
                Err(error.into())
            }
        }
    }

    /// A process that stands does so there from now on.
    fn put(&mut self, pid: u32, stand: Stand) {
        self.tracked.entry(pid).and_modify(|known| known.stands = Some(stand));
    }

    fn write(&mut self, pid: u32) -> io::Result<()> {
        let Some(known) = self.tracked.get(&pid) else { return Ok(()) };
        self.tables.orders.set(known.slot, known.orders, 0).map_err(io::Error::other)
    }
}
