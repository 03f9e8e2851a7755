//! How work flows: at constant rates between two completions, so that the device need not watch it.

use crate::costs::{COPIES_AT_ONCE, SLICING_FACTOR};
use crate::message::device_of;
use crate::stream::Kind;
use crate::world::World;
use std::collections::BTreeMap;

/// Less than this is done: the clock has whole nanoseconds.
const DONE_NS: f64 = 0.5;

/// A piece of work under way.
struct Flowing {
    pid: u32,
    stream: u64,
    rate: f64,
}

/// Who uses a device now.
#[derive(Default)]
struct Users {
    /// Each process with kernels, and on how many of its streams.
    kernels: BTreeMap<u32, usize>,
    copies: usize,
}

impl World {
    /// Lets everything flow until now.
    pub(crate) fn flow_until(&mut self, now_ns: u64) {
        self.settle();
        while self.clock_ns < now_ns {
            let users = self.users();
            let flowing = self.flowing(&users);
            let ends = flowing.iter().filter_map(|flow| Some(self.left(flow)? / flow.rate));
            let step = ends.fold(f64::INFINITY, f64::min).ceil().max(1.0);
            let until = now_ns.min(self.clock_ns.saturating_add(step as u64));
            let span = (until - self.clock_ns) as f64;
            for flow in &flowing {
                let process = self.processes.get_mut(&flow.pid);
                let stream = process.and_then(|process| process.streams.get_mut(&flow.stream));
                if let Some(work) = stream.and_then(|stream| stream.first_mut()) {
                    work.left_ns -= span * flow.rate;
                }
            }
            for (device, users) in self.devices.iter_mut().zip(&users) {
                let pids: Vec<u32> = users.kernels.keys().copied().collect();
                device.usage.note(self.clock_ns, until, &pids, users.copies > 0);
            }
            self.clock_ns = until;
            self.settle();
        }
    }

    fn users(&self) -> Vec<Users> {
        let mut users: Vec<Users> = self.devices.iter().map(|_| Users::default()).collect();
        for (pid, process) in &self.processes {
            for (stream, work) in process.flowing() {
                let Some(users) = users.get_mut(device_of(stream)) else { continue };
                match work.kind {
                    Kind::Kernel => *users.kernels.entry(*pid).or_default() += 1,
                    Kind::Copy => users.copies += 1,
                    Kind::Event(_) | Kind::Await { .. } => {}
                }
            }
        }
        users
    }

    /// Processes take turns, at a cost; streams of one process share its turn; copies share the link.
    fn flowing(&self, users: &[Users]) -> Vec<Flowing> {
        let mut flowing = Vec::new();
        for (pid, process) in &self.processes {
            for (stream, work) in process.flowing() {
                let Some(users) = users.get(device_of(stream)) else { continue };
                let rate = if work.kind == Kind::Copy {
                    (COPIES_AT_ONCE / users.copies as f64).min(1.0)
                } else {
                    let sharers = users.kernels.len() as f64;
                    let turn = if sharers > 1.0 { 1.0 / (sharers * SLICING_FACTOR) } else { 1.0 };
                    turn / users.kernels.get(pid).copied().unwrap_or(1) as f64
                };
                flowing.push(Flowing { pid: *pid, stream, rate });
            }
        }
        flowing
    }

    fn left(&self, flow: &Flowing) -> Option<f64> {
        Some(self.processes.get(&flow.pid)?.streams.get(&flow.stream)?.first()?.left_ns)
    }

    /// Takes away all that is done, and lets the events among it happen.
    fn settle(&mut self) {
        let clock_ns = self.clock_ns;
        for process in self.processes.values_mut() {
            loop {
                let done = process.flowing().find(|(_, work)| work.left_ns < DONE_NS);
                let Some((stream, kind)) = done.map(|(stream, work)| (stream, work.kind)) else { break };
                if let Some(queue) = process.streams.get_mut(&stream) {
                    queue.finish_first();
                }
                if let Kind::Event(event) = kind
                    && let Some(event) = process.events.get_mut(&event)
                {
                    event.at_ns = Some(clock_ns);
                }
            }
        }
    }
}
