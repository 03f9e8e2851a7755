//! A process whose GPU memory is being moved: it must run to take part, and cannot reach the GPU meanwhile.

use super::{Gates, LEASE_NS, Stand, Tracked, Work, ns_now};
use crate::facts::launches::layout::{SHUT_ALLOCATIONS, kind};
use sched::Process;

/// How long it may stand at its next allocation, where its gate was shut for that: then the move is done and the word of that is on its way. An owner
/// that has not heard of it after that time holds nobody any more.
const MOVED_WITHIN_NS: u64 = LEASE_NS;

impl Tracked {
    /// Whether a stop of its keeps its memory from being moved: any, but at its next allocation if it is to stop there once it is back.
    pub(super) fn must_not_stand(&self, stop: u32) -> bool {
        let asks = stop == kind::STAND_ALLOCATION && self.orders.flags & SHUT_ALLOCATIONS != 0;
        self.moves && kind::STANDS.contains(&stop) && !asks
    }
}

impl Gates {
    /// While its memory is moved, a process is let run again wherever it is stopped. From the end of that on it is held like any other.
    pub(in crate::facts::launches) fn set_moves(&mut self, process: Process, moves: bool) {
        if let Some(known) = self.known(process) {
            known.moves = moves;
        }
        if moves {
            self.let_launch(process);
        }
    }

    /// Lets those go on who came to an allocation with another thread before their memory was back.
    pub(super) fn let_the_moving_run(&mut self, now_ns: u64) {
        let stuck = |known: &&Tracked| {
            let long = known.stopped_ns + MOVED_WITHIN_NS <= now_ns;
            known.moves && known.stands == Some(Stand::Allocation) && long
        };
        let stuck: Vec<Process> = self.tracked.values().filter(stuck).map(|known| known.process).collect();
        for process in stuck {
            if self.resume(process.pid).is_ok() {
                self.outbox.push((ns_now(), process, Work::Resumed));
            }
        }
    }
}
