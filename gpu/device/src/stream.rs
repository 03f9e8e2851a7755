//! A stream: work of one process on one device, done in the order it was submitted.

use std::collections::VecDeque;

/// What a piece of work is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// It shares the device's cores with the kernels of others.
    Kernel,
    /// It shares the link with other copies.
    Copy,
    /// An event that happens when its turn comes.
    Event(u64),
    /// What follows waits until this piece of work of another stream is done.
    Await { stream: u64, number: u64 },
}

/// One piece of work.
#[derive(Debug)]
pub(crate) struct Work {
    /// Its place among all that the process ever submitted.
    pub(crate) number: u64,
    pub(crate) kind: Kind,
    /// What is left of it, at full speed.
    pub(crate) left_ns: f64,
    /// All work that the stream ever got, up to the end of this.
    end_ns: f64,
}

/// What is queued on one stream; the first is under way, or waits for another stream.
#[derive(Debug, Default)]
pub(crate) struct Stream {
    queue: VecDeque<Work>,
    submitted_ns: f64,
}

impl Stream {
    pub(crate) fn submit(&mut self, number: u64, kind: Kind, work_ns: f64) {
        self.submitted_ns += work_ns;
        self.queue.push_back(Work { number, kind, left_ns: work_ns, end_ns: self.submitted_ns });
    }

    pub(crate) fn first(&self) -> Option<&Work> {
        self.queue.front()
    }

    pub(crate) fn first_mut(&mut self) -> Option<&mut Work> {
        self.queue.front_mut()
    }

    pub(crate) fn finish_first(&mut self) {
        self.queue.pop_front();
    }

    pub(crate) fn clear(&mut self) {
        self.queue.clear();
    }

    /// Whether nothing up to this number is left.
    pub(crate) fn is_done(&self, number: u64) -> bool {
        self.queue.front().is_none_or(|work| work.number > number)
    }

    /// How many pieces up to this number are left, and their work at full speed: no less time will pass.
    pub(crate) fn left_until(&self, number: u64) -> f64 {
        let count = self.queue.partition_point(|work| work.number <= number);
        match (self.queue.front(), count.checked_sub(1).and_then(|last| self.queue.get(last))) {
            (Some(first), Some(last)) => (last.end_ns - (first.end_ns - first.left_ns)).max(0.0),
            _ => 0.0,
        }
    }
}
