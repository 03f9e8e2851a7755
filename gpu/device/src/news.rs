//! Monitors that are told whenever the figures of a device change, so that looking costs them nothing.

use crate::status;
use crate::world::World;

/// A monitor's connection.
#[derive(Debug)]
pub(crate) struct Subscriber {
    pub(crate) connection: u64,
    pub(crate) device: usize,
    /// What it was last told.
    pub(crate) told: Vec<u64>,
}

impl World {
    /// Tells every monitor what has changed. It comes before the replies to what changed it.
    pub fn publish(&mut self) {
        let percents = self.devices.iter().map(|device| (device.usage.percent, device.usage.memory_percent));
        let percents: Vec<_> = percents.collect();
        if self.subscribers.is_empty() || (!self.changed && percents == self.published) {
            return;
        }
        (self.changed, self.published) = (false, percents);
        let mut subscribers = std::mem::take(&mut self.subscribers);
        for subscriber in &mut subscribers {
            let mut words = vec![u64::from(status::SUCCESS)];
            match self.snapshot(subscriber.device) {
                Some(figures) => words.extend(figures),
                None => words[0] = u64::from(status::ECC_UNCORRECTABLE),
            }
            if words != subscriber.told {
                self.replies.insert(0, (subscriber.connection, words.clone()));
                subscriber.told = words;
            }
        }
        self.subscribers = subscribers;
    }

    /// When a figure of utilisation may change next, if anybody wants to know.
    pub(crate) fn next_figure_ns(&self) -> Option<u64> {
        if self.subscribers.is_empty() {
            return None;
        }
        let works = self.processes.values().any(|process| process.flowing().next().is_some());
        let usages = self.devices.iter().map(|device| &device.usage);
        usages.filter(|usage| works || !usage.is_quiet()).map(|usage| usage.window_end_ns()).min()
    }
}
