//! Which processes NVML lists on a device: each comes late, and goes late.

use crate::usage::Usage;
use crate::world::World;

/// One line of NVML's list.
#[derive(Debug)]
pub(crate) struct Line {
    /// Tells it from a later line of the same pid.
    pub(crate) number: u64,
    pub(crate) pid: u32,
    pub(crate) birth: u64,
    /// Its contexts are gone, and so will it be, soon.
    pub(crate) leaving: bool,
}

/// One device.
#[derive(Debug)]
pub(crate) struct Device {
    pub(crate) used_bytes: u64,
    pub(crate) lost: bool,
    pub(crate) usage: Usage,
    pub(crate) lines: Vec<Line>,
}

impl Device {
    pub(crate) fn new(now_ns: u64) -> Self {
        Self { used_bytes: 0, lost: false, usage: Usage::new(now_ns), lines: Vec::new() }
    }
}

impl World {
    /// NVML lists the process from now on.
    pub(crate) fn list(&mut self, pid: u32, device: usize) {
        let Some(birth) = self.processes.get(&pid).map(|process| process.birth) else { return };
        let number = self.fresh();
        let Some(device) = self.devices.get_mut(device) else { return };
        let known = device.lines.iter_mut().find(|line| line.birth == birth);
        match known {
            // The line that was to go stays; what was to remove it finds another number.
            Some(line) => (line.leaving, line.number) = (false, number),
            None => device.lines.push(Line { number, pid, birth, leaving: false }),
        }
    }

    /// The process has left the device: NVML notices later.
    pub(crate) fn unlist_soon(&mut self, birth: u64, device: usize) {
        let at_ns = self.clock_ns + self.settings.unlisted_after_ns;
        let lines = self.devices.get_mut(device).map(|device| &mut device.lines);
        let line = lines.and_then(|lines| lines.iter_mut().find(|line| line.birth == birth && !line.leaving));
        if let Some(line) = line {
            line.leaving = true;
            let number = line.number;
            self.plan(at_ns, crate::world::Due::Unlist { device, number });
        }
    }

    /// Total, used, utilisation in percent, and the processes, as [`crate::message::Request::Snapshot`] has them.
    pub(crate) fn snapshot(&self, device: usize) -> Option<Vec<u64>> {
        let device_number = device;
        let device = self.devices.get(device).filter(|device| !device.lost)?;
        let usage = &device.usage;
        let mut words =
            vec![self.settings.memory_bytes, device.used_bytes, usage.percent, usage.memory_percent];
        for line in &device.lines {
            let process = self.processes.get(&line.pid).filter(|process| process.birth == line.birth);
            let bytes = process.map_or(0, |process| process.bytes_on(device_number));
            words.extend([u64::from(line.pid), bytes.max(crate::costs::CONTEXT_BYTES)]);
        }
        words.truncate(crate::message::REPLY_WORDS_MAX - 1);
        Some(words)
    }
}
