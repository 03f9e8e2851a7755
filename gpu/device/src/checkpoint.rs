//! What observers ask: figures, another process's memory off the device and back, and the device's loss.

use crate::costs::{CHECKPOINT_BYTES_PER_NS, RESTORE_BYTES_PER_NS};
use crate::message::{Request, device_of};
use crate::news::Subscriber;
use crate::process::{Pending, Process, State, Step};
use crate::status;
use crate::waiting::{Scope, Then, Waiter};
use crate::world::{Due, World};
use std::collections::VecDeque;

impl World {
    pub(crate) fn observe(&mut self, connection: u64, pid: u32, request: Request) {
        match request {
            Request::Consent {} => self.take_part(connection, pid),
            Request::Count {} => self.reply(connection, status::SUCCESS, &[self.devices.len() as u64]),
            Request::Snapshot { device } => match self.snapshot(device as usize) {
                Some(words) => self.reply(connection, status::SUCCESS, &words),
                None => self.reply(connection, status::ECC_UNCORRECTABLE, &[]),
            },
            Request::Subscribe { device } => {
                let device = device as usize;
                // A connection has one subscription: the newest.
                self.subscribers.retain(|subscriber| subscriber.connection != connection);
                self.subscribers.push(Subscriber { connection, device, told: Vec::new() });
                self.changed = true;
            }
            Request::Samples { device, after_us } => {
                let device = self.devices.get(device as usize).filter(|device| !device.lost);
                let samples = device.into_iter().flat_map(|device| &device.usage.samples);
                let later = samples.filter(|sample| sample.at_us > after_us);
                let words: Vec<u64> =
                    later.flat_map(|sample| [u64::from(sample.pid), sample.at_us, sample.percent]).collect();
                let status = if device.is_some() { status::SUCCESS } else { status::ECC_UNCORRECTABLE };
                self.reply(connection, status, &words);
            }
            Request::Lose { device } => self.lose(connection, device as usize, true),
            Request::Recover { device } => self.lose(connection, device as usize, false),
            Request::Lock { pid } => self.change(connection, pid, State::Running, State::Locked),
            Request::Unlock { pid } => self.change(connection, pid, State::Locked, State::Running),
            Request::Checkpoint { pid } => self.checkpoint(connection, pid as u32),
            Request::Restore { pid } => self.restore(connection, pid as u32),
            Request::State { pid } => match self.user(pid as u32) {
                Some(process) => {
                    let state = process.state as u64;
                    self.reply(connection, status::SUCCESS, &[state]);
                }
                None => self.reply(connection, status::INVALID_VALUE, &[]),
            },
            _ => self.reply(connection, status::NOT_SUPPORTED, &[]),
        }
    }

    /// A process that has called `cuInit`.
    fn user(&mut self, pid: u32) -> Option<&mut Process> {
        self.processes.get_mut(&pid).filter(|process| process.initialised)
    }

    fn change(&mut self, connection: u64, pid: u64, from: State, to: State) {
        let pid = pid as u32;
        let Some(process) = self.user(pid) else {
            return self.reply(connection, status::INVALID_VALUE, &[]);
        };
        if process.state != from {
            return self.reply(connection, status::ILLEGAL_STATE, &[]);
        }
        process.state = to;
        let backlog =
            if to == State::Running { std::mem::take(&mut process.backlog) } else { VecDeque::new() };
        self.reply(connection, status::SUCCESS, &[]);
        backlog.into_iter().for_each(|(connection, request)| self.request(connection, request));
    }

    /// First what is under way is finished; then the memory leaves. Managed memory cannot.
    fn checkpoint(&mut self, connection: u64, pid: u32) {
        match self.user(pid).map(|process| (process.state, process.submitted, process.manages)) {
            Some((State::Locked, _, true)) => self.reply(connection, status::NOT_SUPPORTED, &[]),
            Some((State::Locked, number, false)) => {
                let then = Then::Checkpoint;
                self.waiters.push(Waiter { connection, pid, scope: Scope::Process, number, then });
            }
            Some(_) => self.reply(connection, status::ILLEGAL_STATE, &[]),
            None => self.reply(connection, status::INVALID_VALUE, &[]),
        }
    }

    /// The process itself takes part in what is done to its memory: one that is stopped or frozen lets the caller
    /// wait, as it does with the real driver.
    pub(crate) fn with_consent(&mut self, pid: u32, connection: u64, step: Step) {
        let Some(process) = self.user(pid) else { return };
        if !process.takes_part {
            return self.step(pid, connection, step);
        }
        process.pending = Some(Pending { step, connection });
        if let Some(asked) = process.consent.take() {
            self.reply(asked, status::SUCCESS, &[]);
        }
    }

    /// The process's own thread waits to be asked; when it was just asked, this is its answer.
    fn take_part(&mut self, connection: u64, pid: u32) {
        let Some(process) = self.processes.get_mut(&pid) else { return };
        process.takes_part = true;
        process.consent = Some(connection);
        if let Some(Pending { step, connection }) = process.pending.take() {
            self.step(pid, connection, step);
        }
    }

    fn step(&mut self, pid: u32, connection: u64, step: Step) {
        match step {
            Step::Out => self.check_out(pid, connection),
            Step::In => self.check_in(pid, connection),
        }
    }

    fn check_out(&mut self, pid: u32, connection: u64) {
        let bytes = self.bytes_of(pid).iter().sum::<u64>();
        let Some(birth) = self.user(pid).map(|process| process.birth) else { return };
        let at_ns = self.clock_ns + (bytes as f64 / CHECKPOINT_BYTES_PER_NS) as u64;
        self.plan(at_ns, Due::Out { pid, birth, connection });
    }

    pub(crate) fn checked_out(&mut self, pid: u32, connection: u64) {
        let bytes = self.bytes_of(pid);
        let Some(process) = self.user(pid).filter(|process| process.state == State::Locked) else {
            return self.reply(connection, status::ILLEGAL_STATE, &[]);
        };
        process.state = State::CheckedOut;
        let birth = process.birth;
        for (device, bytes) in self.devices.iter_mut().zip(bytes) {
            device.used_bytes -= bytes;
            device.lines.retain(|line| line.birth != birth);
        }
        self.reply(connection, status::SUCCESS, &[]);
    }

    fn restore(&mut self, connection: u64, pid: u32) {
        match self.user(pid).map(|process| process.state) {
            Some(State::CheckedOut) => self.with_consent(pid, connection, Step::In),
            Some(_) => self.reply(connection, status::ILLEGAL_STATE, &[]),
            None => self.reply(connection, status::INVALID_VALUE, &[]),
        }
    }

    /// Room is taken at once. Without it the process is broken for good, as it is with the real driver.
    fn check_in(&mut self, pid: u32, connection: u64) {
        let bytes = self.bytes_of(pid);
        let total = self.settings.memory_bytes;
        let fits = self.devices.iter().zip(&bytes).all(|(device, bytes)| device.used_bytes + bytes <= total);
        let Some(process) = self.user(pid).filter(|process| process.state == State::CheckedOut) else {
            return self.reply(connection, status::ILLEGAL_STATE, &[]);
        };
        if !fits {
            process.state = State::Failed;
            let backlog = std::mem::take(&mut process.backlog);
            self.reply(connection, status::OUT_OF_MEMORY, &[]);
            return backlog.into_iter().for_each(|(connection, request)| self.request(connection, request));
        }
        // It counts as locked again, so that its memory is given back should it exit meanwhile.
        process.state = State::Locked;
        let birth = process.birth;
        self.changed = true;
        for (device, bytes) in bytes.iter().enumerate().filter(|(_, bytes)| **bytes > 0) {
            self.devices[device].used_bytes += bytes;
            self.list(pid, device);
        }
        let span_ns = bytes.iter().sum::<u64>() as f64 / RESTORE_BYTES_PER_NS;
        self.plan(self.clock_ns + span_ns as u64, Due::In { pid, birth, connection });
    }

    /// What a process has on each device.
    fn bytes_of(&self, pid: u32) -> Vec<u64> {
        let process = self.processes.get(&pid);
        (0..self.devices.len()).map(|device| process.map_or(0, |process| process.bytes_on(device))).collect()
    }

    /// A lost device drops what is queued on it; who waits for that is told.
    fn lose(&mut self, connection: u64, device: usize, lost: bool) {
        let Some(found) = self.devices.get_mut(device) else {
            return self.reply(connection, status::INVALID_DEVICE, &[]);
        };
        found.lost = lost;
        self.changed = true;
        self.reply(connection, status::SUCCESS, &[]);
        for process in self.processes.values_mut() {
            let here = process.streams.iter_mut().filter(|(stream, _)| device_of(**stream) == device);
            here.for_each(|(_, queue)| queue.clear());
        }
        let is_here = |waiter: &Waiter| match waiter.scope {
            Scope::Stream(stream) => device_of(stream) == device,
            Scope::Device(on) => on == device,
            Scope::Process => false,
        };
        let (told, waiting) = std::mem::take(&mut self.waiters).into_iter().partition(is_here);
        self.waiters = waiting;
        let told: Vec<Waiter> = told;
        told.into_iter().for_each(|waiter| self.reply(waiter.connection, status::ECC_UNCORRECTABLE, &[]));
    }
}
