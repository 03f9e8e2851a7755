//! What clients ask of their own: contexts, memory, work.

use crate::costs::{CONTEXT_BYTES, CONTEXT_NS, INIT_NS, INPUT_BYTES_PER_NS, OUTPUT_BYTES_PER_NS};
use crate::message::{OUTPUT, Request, device_of};
use crate::process::{Event, State};
use crate::status;
use crate::stream::Kind;
use crate::waiting::Scope;
use crate::world::{Due, World};

impl World {
    /// Does what a client asks, at the time of the last [`World::advance`].
    pub fn request(&mut self, connection: u64, request: Request) {
        let Some(pid) = self.connections.get(&connection).copied() else { return };
        let Some(process) = self.processes.get_mut(&pid) else { return };
        if request.is_of_an_observer() {
            return self.observe(connection, pid, request);
        }
        match process.state {
            State::Running => self.act(connection, pid, request),
            State::Failed if request.is_one_way() => {}
            State::Failed => self.reply(connection, status::LAUNCH_FAILED, &[]),
            State::Locked | State::CheckedOut => process.backlog.push_back((connection, request)),
        }
    }

    fn act(&mut self, connection: u64, pid: u32, request: Request) {
        let lost = request.device().is_some_and(|on| self.devices.get(on).is_some_and(|on| on.lost));
        let Some(process) = self.processes.get_mut(&pid) else { return };
        self.changed |= request.changes_figures();
        match request {
            _ if lost && request.is_one_way() => {}
            _ if lost => self.reply(connection, status::ECC_UNCORRECTABLE, &[]),
            Request::Init { visible } => self.initialise(connection, pid, visible),
            Request::CreateContext { device } => self.create_context(connection, pid, device as usize),
            Request::DestroyContext { device } => self.destroy_context(connection, pid, device as usize),
            Request::Allocate { device, address, bytes } => {
                let status = self.allocate(pid, device as usize, address, bytes);
                self.reply(connection, status, &[]);
            }
            Request::Manage {} => {
                process.manages = true;
                self.reply(connection, status::SUCCESS, &[]);
            }
            Request::Free { address } => {
                let freed = process.allocations.remove(&address);
                if let Some((device, bytes)) = freed {
                    self.devices[device].used_bytes -= bytes;
                }
                let status = if freed.is_some() { status::SUCCESS } else { status::INVALID_VALUE };
                self.reply(connection, status, &[]);
            }
            Request::Kernel { stream, work_ns } => {
                process.submit(stream, Kind::Kernel, work_ns as f64);
            }
            Request::Copy { stream, bytes, direction } => {
                let speed = if direction == OUTPUT { OUTPUT_BYTES_PER_NS } else { INPUT_BYTES_PER_NS };
                process.submit(stream, Kind::Copy, bytes as f64 / speed);
            }
            Request::Record { stream, event } => {
                let number = process.submit(stream, Kind::Event(event), 0.0);
                process.events.insert(event, Event { stream, number, at_ns: None });
            }
            Request::Await { stream, event } => {
                if let Some(Event { stream: on, number, at_ns: None }) = process.events.get(&event).copied() {
                    process.submit(stream, Kind::Await { stream: on, number }, 0.0);
                }
            }
            _ => self.ask(connection, pid, request),
        }
    }

    /// Requests about work that was submitted.
    fn ask(&mut self, connection: u64, pid: u32, request: Request) {
        let Some(process) = self.processes.get(&pid) else { return };
        let all = process.submitted;
        let event = |event| process.events.get(&event).copied();
        let readiness = |done| if done { status::SUCCESS } else { status::NOT_READY };
        match request {
            Request::Finish { stream } => self.wait(connection, pid, Scope::Stream(stream), all),
            Request::FinishAll { device } => self.wait(connection, pid, Scope::Device(device as usize), all),
            Request::Throttle { queued } => {
                self.wait(connection, pid, Scope::Process, all.saturating_sub(queued));
            }
            Request::Query { stream } => {
                let done = process.is_done(stream, all);
                self.reply(connection, readiness(done), &[]);
            }
            Request::QueryEvent { event: asked } => {
                let done = event(asked).is_none_or(|event| process.is_done(event.stream, event.number));
                self.reply(connection, readiness(done), &[]);
            }
            Request::FinishEvent { event: asked } => match event(asked) {
                Some(event) => self.wait(connection, pid, Scope::Stream(event.stream), event.number),
                None => self.reply(connection, status::SUCCESS, &[]),
            },
            Request::Elapsed { from, to } => match (event(from), event(to)) {
                (Some(Event { at_ns: Some(from), .. }), Some(Event { at_ns: Some(to), .. })) => {
                    self.reply(connection, status::SUCCESS, &[to.wrapping_sub(from)]);
                }
                (Some(_), Some(_)) => self.reply(connection, status::NOT_READY, &[]),
                _ => self.reply(connection, status::INVALID_HANDLE, &[]),
            },
            Request::MemoryInfo { device } => {
                let total = self.settings.memory_bytes;
                let used = self.devices.get(device as usize).map_or(total, |device| device.used_bytes);
                self.reply(connection, status::SUCCESS, &[total, total - used]);
            }
            _ => self.reply(connection, status::NOT_SUPPORTED, &[]),
        }
    }

    fn initialise(&mut self, connection: u64, pid: u32, visible: u64) {
        let (count, clock_ns) = (self.devices.len(), self.clock_ns);
        let Some(process) = self.processes.get_mut(&pid) else { return };
        let words = vec![u64::from(status::SUCCESS), count as u64];
        if std::mem::replace(&mut process.initialised, true) {
            self.replies.push((connection, words));
            return;
        }
        let birth = process.birth;
        // Which of several devices the process will use is known only when it creates its context there.
        let mut seen = (0..count).filter(|device| visible >> device & 1 == 1);
        if let (Some(device), None) = (seen.next(), seen.next()) {
            self.plan(clock_ns + self.settings.listed_after_ns, Due::List { pid, birth, device });
        }
        self.plan(clock_ns + INIT_NS, Due::Reply { connection, words });
    }

    fn create_context(&mut self, connection: u64, pid: u32, device: usize) {
        let status = self.reserve(device, CONTEXT_BYTES);
        if status != status::SUCCESS {
            return self.reply(connection, status, &[]);
        }
        if let Some(process) = self.processes.get_mut(&pid) {
            *process.contexts.entry(device).or_default() += 1;
        }
        self.list(pid, device);
        let words = vec![u64::from(status::SUCCESS)];
        self.plan(self.clock_ns + CONTEXT_NS, Due::Reply { connection, words });
    }

    /// A context takes its allocations with it. Several contexts on one device count as one for these.
    fn destroy_context(&mut self, connection: u64, pid: u32, device: usize) {
        let Some(process) = self.processes.get_mut(&pid) else { return };
        let before = process.bytes_on(device);
        match process.contexts.get_mut(&device) {
            None => return self.reply(connection, status::INVALID_CONTEXT, &[]),
            Some(count) if *count > 1 => *count -= 1,
            Some(_) => {
                process.contexts.remove(&device);
                process.allocations.retain(|_, (on, _)| *on != device);
                process.streams.retain(|stream, _| device_of(*stream) != device);
            }
        }
        self.devices[device].used_bytes -= before - process.bytes_on(device);
        let (birth, gone) = (process.birth, !process.contexts.contains_key(&device));
        if gone {
            self.unlist_soon(birth, device);
        }
        self.reply(connection, status::SUCCESS, &[]);
    }

    fn allocate(&mut self, pid: u32, device: usize, address: u64, bytes: u64) -> u32 {
        let process = self.processes.get(&pid);
        // What is allocated goes with its context, so there must be one.
        if process.is_none_or(|process| !process.contexts.contains_key(&device)) {
            return status::INVALID_CONTEXT;
        }
        if process.is_some_and(|process| process.allocations.contains_key(&address)) {
            return status::INVALID_VALUE;
        }
        let status = self.reserve(device, bytes);
        if status == status::SUCCESS
            && let Some(process) = self.processes.get_mut(&pid)
        {
            process.allocations.insert(address, (device, bytes));
        }
        status
    }

    /// Takes memory of a device, if it has it.
    pub(crate) fn reserve(&mut self, device: usize, bytes: u64) -> u32 {
        let total = self.settings.memory_bytes;
        let Some(device) = self.devices.get_mut(device) else { return status::INVALID_DEVICE };
        if device.used_bytes.saturating_add(bytes) > total {
            return status::OUT_OF_MEMORY;
        }
        device.used_bytes += bytes;
        status::SUCCESS
    }
}
