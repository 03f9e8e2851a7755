//! What the agent and the programs in the kernel say to each other: `bpf/launches.h` in Rust.
#![allow(unsafe_code, reason = "plain data that the kernel reads and writes")]

/// The numbers of operations, in the low byte of a probe's cookie.
pub(super) mod operation {
    pub(crate) const INIT: u64 = 1;
    pub(crate) const CONTEXT: u64 = 2;
    pub(crate) const LAUNCH: u64 = 3;
    pub(crate) const COPY: u64 = 4;
    pub(crate) const COPY_AND_WAIT: u64 = 5;
    pub(crate) const WAIT: u64 = 6;
    pub(crate) const RECORD: u64 = 7;
    pub(crate) const CAPTURE: u64 = 8;
    pub(crate) const CAPTURED: u64 = 9;
    pub(crate) const ALLOCATE: u64 = 10;
    pub(crate) const FREE: u64 = 11;
    pub(crate) const JOIN: u64 = 12;
    pub(crate) const MAP: u64 = 13;
    pub(crate) const UNMAP: u64 = 14;
}

/// Where an operation's stream (or size) is, in the second byte.
pub(super) mod place {
    pub(crate) const NOWHERE: u64 = 0;
    pub(crate) const ARGUMENT_8: u64 = 8;
    pub(crate) const ARGUMENT_9: u64 = 9;
    pub(crate) const CONFIGURATION: u64 = 10;
    pub(crate) const EVENT: u64 = 11;
    pub(crate) const EVERYTHING: u64 = 12;
    pub(crate) const PITCHED: u64 = 13;
    pub(crate) const PLANE: u64 = 14;
    pub(crate) const BODY: u64 = 15;
}

/// Stream 0 is the thread's own: the third byte.
pub(super) const PER_THREAD: u64 = 1;

/// Where in a cookie the slot of the process is that it is for.
pub(super) const SLOT_SHIFT: u32 = 24;
/// How many slots there are. The first is nobody's.
pub(super) const SLOTS: u32 = 4096;

pub(super) const SHUT_LAUNCHES: u32 = 1;
pub(super) const SHUT_ALLOCATIONS: u32 = 2;
pub(super) const URGENT: u32 = 4;
pub(super) const YIELDS: u32 = 8;
pub(super) const BOUNDED: u32 = 16;
pub(super) const TELL_COPIES: u32 = 32;
pub(super) const SHUT_CONTEXT: u32 = 64;

/// What is ordered for one process.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Orders {
    pub(super) pid: u32,
    pub(super) gpu: u32,
    pub(super) flags: u32,
    pub(super) pad: u32,
    pub(super) urgent_bit: u64,
    pub(super) beside: u64,
}

/// What is ordered for one GPU.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct GpuOrders {
    pub(super) urgent_mask: u64,
    pub(super) bound: u64,
    pub(super) cleared: u64,
}

/// What is ordered for all.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Control {
    pub(super) lease: u64,
    pub(super) early: u64,
}

/// The size of [`Control`].
pub(crate) const CONTROL_BYTES: usize = size_of::<Control>();
/// A [`Control`] under which every gate is open.
pub(crate) const LEASE_OVER: [u8; CONTROL_BYTES] = [0; CONTROL_BYTES];

/// How many streams of a process are told apart.
const STREAM_BITS: usize = 64;

/// What one process has on the GPU.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(super) struct Span {
    pub(super) pending: u64,
    capturing: u64,
    forked: u64,
    pub(super) first: u64,
    lost: u64,
    done: u64,
    latest: u64,
    ahead: u64,
    pub(super) estimate: u64,
    least: u64,
    launched: u64,
    asked: u64,
    pub(super) stands: u64,
    resumed: u64,
    pub(super) memory: u64,
    sequence: u64,
    pub(super) launches: u32,
    bounded: u32,
    heard: u32,
    measured: u32,
    mixed: u32,
    run: u32,
    slot: u32,
    before: u32,
    last: [u32; STREAM_BITS],
    joined: [u32; STREAM_BITS],
    joins: [u64; STREAM_BITS],
}

impl Span {
    /// It has work on the GPU.
    pub(super) fn is_busy(self) -> bool {
        self.pending != 0
    }

    /// It has work on the GPU that others wait for: not copies alone. A launch that was stopped counts as soon as its process was let go, and is
    /// among `launches` from its next call on.
    pub(super) fn is_in_the_way(self) -> bool {
        self.is_busy() && (self.launches > 0 || self.stands > 0)
    }

    /// The process in that slot has nothing on the GPU.
    pub(super) const fn idle(slot: u32) -> Span {
        Span {
            pending: 0,
            capturing: 0,
            forked: 0,
            first: 0,
            lost: 0,
            done: 0,
            latest: 0,
            ahead: 0,
            estimate: 0,
            least: 0,
            launched: 0,
            asked: 0,
            stands: 0,
            resumed: 0,
            memory: 0,
            sequence: 0,
            launches: 0,
            bounded: 0,
            heard: 0,
            measured: 0,
            mixed: 0,
            run: 0,
            slot,
            before: 0,
            last: [0; STREAM_BITS],
            joined: [0; STREAM_BITS],
            joins: [0; STREAM_BITS],
        }
    }
}

/// What one GPU does.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct GpuState {
    pub(super) urgent: u64,
    pub(super) urgent_since: u64,
    urgent_work: u64,
    ahead_then: u64,
    pub(super) due: u64,
    pub(super) flown: u64,
    urgent_until: u64,
    latest: u32,
    latest_slot: u32,
}

/// Who was stopped by a probe.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Standing {
    pub(super) since: u64,
    pub(super) began: u64,
    pub(super) value: u64,
    pub(super) why: u32,
    pad: u32,
}

/// The size of [`Standing`].
pub(crate) const STANDING_BYTES: usize = size_of::<Standing>();

/// What the kernel tells.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Event {
    pub(super) at: u64,
    pub(super) pid: u32,
    pub(super) kind: u32,
    pub(super) value: u64,
}

/// The kinds of events.
pub(super) mod kind {
    pub(crate) const INIT: u32 = 1;
    pub(crate) const CONTEXT: u32 = 2;
    pub(crate) const COPY: u32 = 3;
    pub(crate) const LAUNCH: u32 = 4;
    pub(crate) const DRAIN: u32 = 5;
    pub(crate) const STAND: u32 = 6;
    pub(crate) const STAND_ALLOCATION: u32 = 7;
    pub(crate) const STAND_BOUND: u32 = 8;
    pub(crate) const LEAK: u32 = 9;
    pub(crate) const MEMORY: u32 = 10;
    pub(crate) const STAND_CONTEXT: u32 = 11;
    /// Those that say that a process was stopped.
    pub(crate) const STANDS: [u32; 4] = [STAND, STAND_ALLOCATION, STAND_BOUND, STAND_CONTEXT];
}

// SAFETY: each is `repr(C)`, made of integers only and without padding (the test below adds up the sizes), so any bytes are a value
// and every byte of a value is initialised.
unsafe impl aya::Pod for Orders {}
// SAFETY: as above.
unsafe impl aya::Pod for GpuOrders {}
// SAFETY: as above.
unsafe impl aya::Pod for Control {}
// SAFETY: as above.
unsafe impl aya::Pod for Span {}
// SAFETY: as above.
unsafe impl aya::Pod for GpuState {}
// SAFETY: as above.
unsafe impl aya::Pod for Standing {}

impl Standing {
    /// What was told when it was stopped.
    pub(super) fn event(&self, pid: u32) -> Event {
        Event { at: self.since, pid, kind: self.why, value: self.value }
    }
}

impl Event {
    /// The event in an entry of the ring, if it is one.
    pub(super) fn read(bytes: &[u8]) -> Option<Event> {
        let word = |at: usize| Some(u64::from_ne_bytes(bytes.get(at..at + 8)?.try_into().ok()?));
        let half = |at: usize| Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
        Some(Event { at: word(0)?, pid: half(8)?, kind: half(12)?, value: word(16)? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The sizes of keys and values in the compiled object.
    fn sizes(name: &str) -> (u32, u32) {
        let object = aya_obj::Object::parse(super::super::kernel::OBJECT).expect("an object");
        let map = &object.maps[name];
        (map.key_size(), map.value_size())
    }

    /// How many entries a table of the compiled object has.
    fn entries(name: &str) -> u32 {
        let object = aya_obj::Object::parse(super::super::kernel::OBJECT).expect("an object");
        object.maps[name].max_entries()
    }

    #[test]
    fn both_sides_agree_on_every_size() {
        let size = |bytes: usize| bytes as u32;
        assert_eq!(sizes("SLOTS"), (4, 4));
        assert_eq!(sizes("ORDERS"), (4, size(size_of::<Orders>())));
        assert_eq!(sizes("GPU_ORDERS"), (4, size(size_of::<GpuOrders>())));
        assert_eq!(sizes("CONTROL"), (4, size(size_of::<Control>())));
        assert_eq!(sizes("SPANS"), (4, size(size_of::<Span>())));
        assert_eq!(sizes("GPU_STATES"), (4, size(size_of::<GpuState>())));
        assert_eq!(sizes("STANDING"), (4, size(size_of::<Standing>())));
        assert_eq!(["SLOTS", "ORDERS", "SPANS"].map(entries), [SLOTS; 3]);
        assert_eq!(size_of::<Span>(), 16 * 8 + 8 * 4 + 16 * STREAM_BITS, "no padding");
    }
}
