//! Clients that wait for work to be done.

use crate::message::device_of;
use crate::process::Step;
use crate::status;
use crate::world::World;

/// How much of a process's work is waited for.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Scope {
    Stream(u64),
    Device(usize),
    Process,
}

/// What follows when it is done.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Then {
    Reply,
    Checkpoint,
}

/// A client that waits for work to be done.
#[derive(Debug)]
pub(crate) struct Waiter {
    pub(crate) connection: u64,
    pub(crate) pid: u32,
    pub(crate) scope: Scope,
    /// The last piece of work that counts.
    pub(crate) number: u64,
    pub(crate) then: Then,
}

impl World {
    pub(crate) fn wait(&mut self, connection: u64, pid: u32, scope: Scope, number: u64) {
        self.waiters.push(Waiter { connection, pid, scope, number, then: Then::Reply });
    }

    /// Tells everybody whose work is done.
    pub(crate) fn answer_waiters(&mut self) {
        let all = std::mem::take(&mut self.waiters).into_iter();
        let (done, waiting): (Vec<_>, Vec<_>) = all.partition(|waiter| self.is_done(waiter));
        self.waiters = waiting;
        for waiter in done {
            match waiter.then {
                Then::Reply => self.reply(waiter.connection, status::SUCCESS, &[]),
                Then::Checkpoint => self.with_consent(waiter.pid, waiter.connection, Step::Out),
            }
        }
    }

    /// No waiter's work is done before that.
    pub(crate) fn next_done_ns(&self) -> Option<u64> {
        let left_ns = self.waiters.iter().map(|waiter| self.left_ns(waiter).ceil().max(1.0) as u64);
        left_ns.min().map(|left_ns| self.clock_ns.saturating_add(left_ns))
    }

    fn is_done(&self, waiter: &Waiter) -> bool {
        let Some(process) = self.processes.get(&waiter.pid) else { return true };
        let mut streams = process.streams.iter().filter(|(stream, _)| waiter.scope.includes(**stream));
        streams.all(|(_, queue)| queue.is_done(waiter.number))
    }

    /// No less time than this passes before the waiter's work is done.
    fn left_ns(&self, waiter: &Waiter) -> f64 {
        let Some(process) = self.processes.get(&waiter.pid) else { return 0.0 };
        let streams = process.streams.iter().filter(|(stream, _)| waiter.scope.includes(**stream));
        streams.map(|(_, queue)| queue.left_until(waiter.number)).fold(0.0, f64::max)
    }
}

impl Scope {
    fn includes(self, stream: u64) -> bool {
        match self {
            Self::Stream(only) => only == stream,
            Self::Device(device) => device_of(stream) == device,
            Self::Process => true,
        }
    }
}
