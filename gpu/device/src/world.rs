//! The devices and who uses them, as a value: requests and the time go in, replies come out.
//!
//! What clients ask is in `requests`, how they wait for work in `waiting`, how work flows in `flow`.

use crate::costs::Settings;
use crate::listing::Device;
use crate::message::Reply;
use crate::news::Subscriber;
use crate::process::{Process, State};
use crate::status;
use crate::waiting::Waiter;
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

/// All devices of one simulated GPU process.
#[derive(Debug)]
pub struct World {
    pub(crate) settings: Settings,
    pub(crate) clock_ns: u64,
    pub(crate) devices: Vec<Device>,
    pub(crate) processes: BTreeMap<u32, Process>,
    pub(crate) connections: HashMap<u64, u32>,
    agenda: BinaryHeap<Reverse<(u64, u64, Due)>>,
    pub(crate) waiters: Vec<Waiter>,
    pub(crate) replies: Vec<(u64, Reply)>,
    /// Monitors, what they were told of utilisation, and whether anything else has changed since.
    pub(crate) subscribers: Vec<Subscriber>,
    pub(crate) published: Vec<(u64, u64)>,
    pub(crate) changed: bool,
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
            subscribers: Vec::new(),
            published: Vec::new(),
            changed: false,
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
        self.subscribers.retain(|subscriber| subscriber.connection != connection);
        let Some(process) = self.processes.get_mut(&pid) else { return };
        process.connections -= 1;
        if process.connections == 0 {
            self.exited(pid);
        }
    }

    /// A process is gone, whoever still holds its connections. What it had queued goes with it.
    pub fn exited(&mut self, pid: u32) {
        let Some(process) = self.processes.remove(&pid) else { return };
        self.changed = true;
        let connections = &self.connections;
        self.subscribers.retain(|subscriber| connections.get(&subscriber.connection) != Some(&pid));
        self.connections.retain(|_, owner| *owner != pid);
        for device in 0..self.devices.len() {
            if process.state == State::Running || process.state == State::Locked {
                self.devices[device].used_bytes -= process.bytes_on(device);
            }
            self.unlist_soon(process.birth, device);
        }
        if let Some(pending) = process.pending {
            self.reply(pending.connection, status::INVALID_VALUE, &[]);
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
        self.answer_waiters();
    }

    /// The earliest time at which somebody must be told something, as far as can be known now.
    pub fn next_wake_ns(&self) -> Option<u64> {
        let planned = self.agenda.peek().map(|Reverse((at, ..))| *at);
        self.next_done_ns().into_iter().chain(planned).chain(self.next_figure_ns()).min()
    }

    /// What is to be sent, and to whom.
    pub fn take_replies(&mut self) -> Vec<(u64, Reply)> {
        std::mem::take(&mut self.replies)
    }

    fn happen(&mut self, due: Due) {
        self.changed = true;
        let is_alive = |processes: &BTreeMap<u32, Process>, pid, birth| {
            processes.get(&pid).is_some_and(|process| process.birth == birth)
        };
        match due {
            Due::Reply { connection, words } => self.replies.push((connection, words)),
            Due::List { pid, birth, device } if is_alive(&self.processes, pid, birth) => {
                self.list(pid, device);
            }
            Due::List { .. } => {}
            Due::Unlist { device, number } => {
                self.devices[device].lines.retain(|line| line.number != number);
            }
            Due::Out { pid, birth, connection } if is_alive(&self.processes, pid, birth) => {
                self.checked_out(pid, connection);
            }
            Due::In { pid, birth, connection } if is_alive(&self.processes, pid, birth) => {
                self.reply(connection, status::SUCCESS, &[]);
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
