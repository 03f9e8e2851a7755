//! An allocation that is let through, by every GPU on which its process waits for memory: for which of them it is cannot be told from outside.

use super::place::Place;
use super::{Actuator, Happened};
use sched::task::Gate;
use sched::{ContainerId, GpuId, Process};

impl Place {
    /// Whether a process waits for memory on a GPU that has not let its allocation through.
    fn waits_for_memory(&self, process: Process) -> bool {
        let own = self.members.iter().filter(|((member, _), _)| *member == process);
        let mut waiting =
            own.filter(|(_, way)| way.and_then(super::Way::gate).is_some_and(|gate| gate != Gate::Launches));
        waiting.any(|(key, _)| !self.passed.contains(key))
    }
}

impl Actuator {
    /// One GPU has room for it. One that cannot be resumed says so when it is looked at again: it still stands.
    pub(super) fn pass(&mut self, container: ContainerId, key: (Process, GpuId)) -> Vec<Happened> {
        if let Some(place) = self.places.get_mut(&container) {
            place.passed.insert(key);
        }
        self.pass_on(container, key.0);
        Vec::new()
    }

    /// Lets it through, if every GPU has that matters.
    pub(super) fn pass_on(&mut self, container: ContainerId, process: Process) {
        let Some(place) = self.places.get_mut(&container) else { return };
        let is_its = |(member, _): &(Process, GpuId)| *member == process;
        if !place.passed.iter().any(is_its) || place.waits_for_memory(process) {
            return;
        }
        place.passed.retain(|key| !is_its(key));
        if let Some(Err(error)) = self.gate.as_mut().map(|gate| gate.pass(process)) {
            eprintln!("warning: could not let process {} allocate: {error}", process.pid);
        }
    }
}
