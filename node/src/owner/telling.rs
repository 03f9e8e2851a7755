//! What the owner tells: events as they happen, and what is true after each turn.

use super::Owner;
use crate::{clock, link, views};
use sched::{Event, Mode};
use std::sync::atomic::Ordering;

impl Owner {
    /// Tells everybody what happened.
    pub(super) fn tell(&mut self, events: &[Event]) {
        for event in events {
            self.measure(event);
            match event {
                Event::Started { task, at } => {
                    self.starts_us.insert(*task, clock::wall_us(*at));
                }
                Event::Finished(finished) => {
                    let row = views::finished(self, finished);
                    if let Some(container) = finished.container {
                        self.latest.insert(container, views::in_table(&row));
                    }
                    self.ledger.keep(row);
                    if let Some(outlook) = &mut self.outlook {
                        outlook.note(&self.registry, self.scheduler.tracker(), finished);
                    }
                    // What it took changes how urgent its next is.
                    self.probed.stale = true;
                }
                // It is urgent no more.
                Event::Missed { .. } => self.probed.stale = true,
                _ => {}
            }
            if let Some((at_us, line)) = views::event(self, event) {
                self.feed.tell(at_us, line);
            }
            match event {
                Event::Finished(finished) => self.starts_us.remove(&finished.task),
                Event::Forgotten { task } => self.starts_us.remove(task),
                _ => None,
            };
        }
    }

    /// Says what is true now, to masters and in the table.
    pub(super) fn publish(&mut self) {
        link::publish(self);
        let by_memory = self.scheduler.tracker().tasks().any(|task| task.mode == Mode::Memory);
        self.poll.finely.store(by_memory, Ordering::Relaxed);
        if self.table.is_some() {
            let tasks = views::table(self);
            if let Some(table) = &mut self.table {
                table.publish(&tasks);
            }
        }
    }
}
