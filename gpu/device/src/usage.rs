//! How busy a device was, as NVML tells it: one figure per 200 ms, and a ring of samples per process.

use crate::costs::{SAMPLE_AGE_NS_MAX, SAMPLES_MAX, WINDOW_NS};
use std::collections::{BTreeMap, VecDeque};

/// What one process did in one window.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Sample {
    pub(crate) pid: u32,
    pub(crate) at_us: u64,
    pub(crate) percent: u64,
}

/// The figures of one device.
#[derive(Debug)]
pub(crate) struct Usage {
    window_ns: u64,
    busy_ns: u64,
    copying_ns: u64,
    by_process: BTreeMap<u32, f64>,
    /// Share of the last whole window in which some kernel ran.
    pub(crate) percent: u64,
    /// Share of the last whole window in which some copy ran.
    pub(crate) memory_percent: u64,
    pub(crate) samples: VecDeque<Sample>,
}

impl Usage {
    pub(crate) fn new(now_ns: u64) -> Self {
        Self {
            window_ns: now_ns,
            busy_ns: 0,
            copying_ns: 0,
            by_process: BTreeMap::new(),
            percent: 0,
            memory_percent: 0,
            samples: VecDeque::new(),
        }
    }

    /// Whether nothing happened in this window, nor in the last.
    pub(crate) fn is_quiet(&self) -> bool {
        self.busy_ns == 0 && self.copying_ns == 0 && self.percent == 0 && self.memory_percent == 0
    }

    pub(crate) fn window_end_ns(&self) -> u64 {
        self.window_ns + WINDOW_NS
    }

    /// From then until then, these processes had kernels on the device, and somebody copied or not.
    pub(crate) fn note(&mut self, from_ns: u64, until_ns: u64, pids: &[u32], copying: bool) {
        let mut at = from_ns;
        while at < until_ns {
            let idle = pids.is_empty() && !copying && self.busy_ns == 0 && self.copying_ns == 0;
            if idle && self.window_ns == at {
                // Nothing happens in whole windows: skip them at once, so that hours of rest cost nothing.
                let windows = (until_ns - at) / WINDOW_NS;
                if windows > 0 {
                    self.close();
                    at += windows * WINDOW_NS;
                    self.window_ns = at;
                    continue;
                }
            }
            let end = until_ns.min(self.window_ns + WINDOW_NS);
            let span = end - at;
            self.busy_ns += if pids.is_empty() { 0 } else { span };
            self.copying_ns += if copying { span } else { 0 };
            for pid in pids {
                *self.by_process.entry(*pid).or_default() += span as f64 / pids.len() as f64;
            }
            at = end;
            if at == self.window_ns + WINDOW_NS {
                self.close();
                self.window_ns = at;
            }
        }
    }

    fn close(&mut self) {
        let end_ns = self.window_ns + WINDOW_NS;
        self.percent = self.busy_ns * 100 / WINDOW_NS;
        self.memory_percent = self.copying_ns * 100 / WINDOW_NS;
        (self.busy_ns, self.copying_ns) = (0, 0);
        for (pid, busy_ns) in std::mem::take(&mut self.by_process) {
            let percent = (busy_ns * 100.0 / WINDOW_NS as f64).round() as u64;
            self.samples.push_back(Sample { pid, at_us: end_ns / 1_000, percent });
        }
        let oldest_us = end_ns.saturating_sub(SAMPLE_AGE_NS_MAX) / 1_000;
        while self.samples.len() > SAMPLES_MAX
            || self.samples.front().is_some_and(|sample| sample.at_us < oldest_us)
        {
            self.samples.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_figure_is_that_of_the_last_whole_window() {
        let mut usage = Usage::new(0);
        usage.note(0, WINDOW_NS / 2, &[7], false);
        assert_eq!(usage.percent, 0);
        usage.note(WINDOW_NS / 2, WINDOW_NS, &[], true);
        assert_eq!((usage.percent, usage.memory_percent), (50, 50));
        assert_eq!(usage.samples[0], Sample { pid: 7, at_us: 200_000, percent: 50 });
        usage.note(WINDOW_NS, 1_000 * WINDOW_NS + 1, &[], false);
        assert_eq!((usage.percent, usage.memory_percent), (0, 0));
        usage.note(1_000 * WINDOW_NS + 1, 1_001 * WINDOW_NS, &[7, 8], false);
        assert_eq!(usage.percent, 99);
        let shares: Vec<_> = usage.samples.iter().map(|sample| (sample.pid, sample.percent)).collect();
        assert_eq!(shares, [(7, 50), (8, 50)], "the first sample is too old by now");
    }
}
