//! The devices and who uses them, as a value: requests and the time go in, replies come out.

use crate::costs::{CONTEXT_NS, INIT_NS, INPUT_BYTES_PER_NS, OUTPUT_BYTES_PER_NS, Settings};
use crate::listing::Device;
use crate::message::{OUTPUT, Reply, Request, device_of};
use crate::process::{Event, Process, State};
use crate::status;
use crate::stream::Kind;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashMap};

/// What is to happen at a known time.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Due {
    Reply {
        connection: u64,
        words: Reply,
    },
    List {
        pid: u32,
        birth: u64,
        device: usize,
    },
    Unlist {
        device: usize,
        number: u64,
    },
    /// The memory of a process has left the device, for the caller at that connection.
    Out {
        pid: u32,
        birth: u64,
        connection: u64,
    },
    In {
        pid: u32,
        birth: u64,
        connection: u64,
    },
}

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

/// All devices of one simulated GPU process.
#[derive(Debug)]
pub struct World {
    pub(crate) settings: Settings,
    pub(crate) clock_ns: u64,
    pub(crate) devices: Vec<Device>,
    pub(crate) processes: BTreeMap<u32, Process>,
    connections: HashMap<u64, u32>,
    agenda: BinaryHeap<Reverse<(u64, u64, Due)>>,
    pub(crate) waiters: Vec<Waiter>,
    replies: Vec<(u64, Reply)>,
    numbers: u64,
}

impl World {
    /// Devices that nobody uses yet.
    pub fn new(settings: Settings, now_ns: u64) -> Self {
        Self {
            settings,
            clock_ns: now_ns,
            devices: (0..settings.devices).map(|_| Device::new(now_ns)).collect(),
            processes: BTreeMap::new(),
            connections: HashMap::new(),
            agenda: BinaryHeap::new(),
            waiters: Vec::new(),
            replies: Vec::new(),
            numbers: 0,
        }
    }

    /// A process opened a connection.
    pub fn connect(&mut self, connection: u64, pid: u32) {
        let birth = self.fresh();
        self.processes.entry(pid).or_insert_with(|| Process::new(birth)).connections += 1;
        self.connections.insert(connection, pid);
    }

    /// A connection was closed; with a process's last one the process is gone.
    pub fn disconnect(&mut self, connection: u64) {
        let Some(pid) = self.connections.remove(&connection) else { return };
        self.waiters.retain(|waiter| waiter.connection != connection);
        let Some(process) = self.processes.get_mut(&pid) else { return };
        process.connections -= 1;
        if process.connections == 0 {
            self.exited(pid);
        }
    }

    /// A process is gone, whoever still holds its connections. What it had queued goes with it.
    pub fn exited(&mut self, pid: u32) {
        let Some(process) = self.processes.remove(&pid) else { return };
        self.connections.retain(|_, owner| *owner != pid);
        for device in 0..self.devices.len() {
            if process.state == State::Running || process.state == State::Locked {
                self.devices[device].used_bytes -= process.bytes_on(device);
            }
            self.unlist_soon(process.birth, device);
        }
        let orphans: Vec<u64> =
            self.waiters.iter().filter(|waiter| waiter.pid == pid).map(|waiter| waiter.connection).collect();
        self.waiters.retain(|waiter| waiter.pid != pid);
        orphans.into_iter().for_each(|connection| self.reply(connection, status::INVALID_VALUE, &[]));
    }

    /// Lets time pass.
    pub fn advance(&mut self, now_ns: u64) {
        self.flow_until(now_ns);
        while self.agenda.peek().is_some_and(|Reverse((at, ..))| *at <= now_ns) {
            let Some(Reverse((_, _, due))) = self.agenda.pop() else { break };
            self.happen(due);
        }
        let (done, waiting) =
            std::mem::take(&mut self.waiters).into_iter().partition(|waiter| self.is_done(waiter));
        self.waiters = waiting;
        let done: Vec<Waiter> = done;
        for waiter in done {
            match waiter.then {
                Then::Reply => self.reply(waiter.connection, status::SUCCESS, &[]),
                Then::Checkpoint => self.check_out(waiter.pid, waiter.connection),
            }
        }
    }

    /// The earliest time at which somebody must be told something, as far as can be known now.
    pub fn next_wake_ns(&self) -> Option<u64> {
        let planned = self.agenda.peek().map(|Reverse((at, ..))| *at);
        let waited =
            self.waiters.iter().map(|waiter| self.clock_ns + self.left_ns(waiter).ceil().max(1.0) as u64);
        waited.chain(planned).min()
    }

    /// What is to be sent, and to whom.
    pub fn take_replies(&mut self) -> Vec<(u64, Reply)> {
        std::mem::take(&mut self.replies)
    }

    /// Does what a client asks, at the time of the last [`World::advance`].
    pub fn request(&mut self, connection: u64, request: Request) {
        let Some(pid) = self.connections.get(&connection).copied() else { return };
        let Some(process) = self.processes.get_mut(&pid) else { return };
        if request.is_of_an_observer() {
            return self.observe(connection, request);
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
        let status = self.reserve(device, crate::costs::CONTEXT_BYTES);
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

    pub(crate) fn wait(&mut self, connection: u64, pid: u32, scope: Scope, number: u64) {
        self.waiters.push(Waiter { connection, pid, scope, number, then: Then::Reply });
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

    fn happen(&mut self, due: Due) {
        let is_alive = |processes: &BTreeMap<u32, Process>, pid, birth| {
            processes.get(&pid).is_some_and(|process| process.birth == birth)
        };
        match due {
            Due::Reply { connection, words } => self.replies.push((connection, words)),
            Due::List { pid, birth, device } if is_alive(&self.processes, pid, birth) => {
                self.list(pid, device)
            }
            Due::List { .. } => {}
            Due::Unlist { device, number } => {
                self.devices[device].lines.retain(|line| line.number != number);
            }
            Due::Out { pid, birth, connection } if is_alive(&self.processes, pid, birth) => {
                self.checked_out(pid, connection);
            }
            Due::In { pid, birth, connection } if is_alive(&self.processes, pid, birth) => {
                self.checked_in(pid, connection);
            }
            Due::Out { connection, .. } | Due::In { connection, .. } => {
                self.reply(connection, status::INVALID_VALUE, &[]);
            }
        }
    }

    pub(crate) fn plan(&mut self, at_ns: u64, due: Due) {
        let order = self.fresh();
        self.agenda.push(Reverse((at_ns, order, due)));
    }

    pub(crate) fn reply(&mut self, connection: u64, status: u32, values: &[u64]) {
        let words = std::iter::once(u64::from(status)).chain(values.iter().copied()).collect();
        self.replies.push((connection, words));
    }

    /// A number that was not given before.
    pub(crate) fn fresh(&mut self) -> u64 {
        self.numbers += 1;
        self.numbers
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
