//! A client process: what it has on the devices, whichever of its threads asked for it.

use crate::costs::CONTEXT_BYTES;
use crate::message::{NON_BLOCKING, Request, device_of};
use crate::stream::{Kind, Stream, Work};
use std::collections::{BTreeMap, HashMap, VecDeque};

/// Whether a process may use the device: the numbers of `CUprocessState`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    Running = 0,
    /// What it submits waits.
    Locked = 1,
    /// Its memory has left the device.
    CheckedOut = 2,
    /// Its memory did not fit back. It is lost, and every call fails.
    Failed = 3,
}

/// What is done to a process's memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    Out,
    In,
}

/// Something that waits for the process itself to take part, for the caller at that connection.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pending {
    pub(crate) step: Step,
    pub(crate) connection: u64,
}

/// Where an event was last recorded, and when it happened.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Event {
    pub(crate) stream: u64,
    pub(crate) number: u64,
    pub(crate) at_ns: Option<u64>,
}

/// A process with at least one open connection.
#[derive(Debug)]
pub(crate) struct Process {
    /// Tells it from an earlier process with its pid.
    pub(crate) birth: u64,
    pub(crate) connections: usize,
    pub(crate) initialised: bool,
    /// Devices on which it has a context, and how many.
    pub(crate) contexts: BTreeMap<usize, u64>,
    /// Address to device and bytes.
    pub(crate) allocations: HashMap<u64, (usize, u64)>,
    pub(crate) streams: BTreeMap<u64, Stream>,
    pub(crate) events: HashMap<u64, Event>,
    /// How much it ever submitted.
    pub(crate) submitted: u64,
    pub(crate) state: State,
    /// It has managed memory.
    pub(crate) manages: bool,
    /// Whether the process has a thread that takes part in checkpoints, and where that waits to be asked.
    pub(crate) takes_part: bool,
    pub(crate) consent: Option<u64>,
    pub(crate) pending: Option<Pending>,
    /// What its connections asked while it was locked.
    pub(crate) backlog: VecDeque<(u64, Request)>,
}

impl Process {
    pub(crate) fn new(birth: u64) -> Self {
        Self {
            birth,
            connections: 0,
            initialised: false,
            contexts: BTreeMap::new(),
            allocations: HashMap::new(),
            streams: BTreeMap::new(),
            events: HashMap::new(),
            submitted: 0,
            state: State::Running,
            manages: false,
            takes_part: false,
            consent: None,
            pending: None,
            backlog: VecDeque::new(),
        }
    }

    /// What it has of a device's memory, or would have if it were not checked out.
    pub(crate) fn bytes_on(&self, device: usize) -> u64 {
        let contexts = self.contexts.get(&device).copied().unwrap_or(0) * CONTEXT_BYTES;
        let own = self.allocations.values().filter(|(on, _)| *on == device);
        contexts + own.map(|(_, bytes)| bytes).sum::<u64>()
    }

    pub(crate) fn submit(&mut self, stream: u64, kind: Kind, work_ns: f64) -> u64 {
        self.submitted += 1;
        self.streams.entry(stream).or_default().submit(self.submitted, kind, work_ns);
        self.submitted
    }

    /// The work that flows now: the first of each stream that waits for no other.
    pub(crate) fn flowing(&self) -> impl Iterator<Item = (u64, &Work)> {
        let firsts = self.streams.iter().filter_map(|(stream, queue)| Some((*stream, queue.first()?)));
        firsts.filter(|(stream, work)| self.may_flow(*stream, work))
    }

    /// The default stream waits for all that was submitted before, and the others wait for it, unless they are
    /// non-blocking.
    fn may_flow(&self, stream: u64, work: &Work) -> bool {
        if let Kind::Await { stream, number } = work.kind
            && !self.is_done(stream, number)
        {
            return false;
        }
        let default = crate::message::stream_on(device_of(stream) as u64, 0);
        if stream == default {
            let same = self.streams.range(default + 1..default + NON_BLOCKING);
            same.filter_map(|(_, other)| other.first()).all(|first| first.number > work.number)
        } else {
            stream & NON_BLOCKING != 0 || self.is_done(default, work.number)
        }
    }

    /// Whether a stream has nothing left up to this number.
    pub(crate) fn is_done(&self, stream: u64, number: u64) -> bool {
        self.streams.get(&stream).is_none_or(|stream| stream.is_done(number))
    }
}
