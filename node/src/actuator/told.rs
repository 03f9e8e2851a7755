//! What Docker says of containers that are held, or may be: paused and resumed, by us or by others; started anew; gone.

use super::{Actuator, Happened};
use sched::ContainerId;

impl Actuator {
    /// Docker says that a container is paused. Whether somebody else did that: then it is not ours to touch.
    pub(crate) fn paused(&mut self, container: ContainerId) -> bool {
        let Some(place) = self.places.get_mut(&container) else { return true };
        if place.pauses_awaited > 0 {
            place.pauses_awaited -= 1;
            return false;
        }
        if place.through_docker {
            return false;
        }
        place.theirs = true;
        self.write_down();
        true
    }

    /// Docker says that a container is not paused. One that somebody let go is left alone.
    pub(crate) fn resumed(&mut self, container: ContainerId) -> Vec<Happened> {
        let Some(place) = self.places.get_mut(&container) else { return Vec::new() };
        if place.unpauses_awaited > 0 {
            place.unpauses_awaited -= 1;
            return Vec::new();
        }
        let ours_was_undone = place.through_docker && place.frozen;
        if !place.theirs && !ours_was_undone {
            return Vec::new();
        }
        place.hands_off |= ours_was_undone;
        place.theirs = false;
        place.through_docker = false;
        // Docker thawed it. An order of ours may have crossed that, so it is thawed once more: in doubt, it runs.
        place.frozen = place.freezer.is_some();
        self.let_go(|number, _| number == container)
    }

    /// A container was started anew: whoever paused it or let it go meant its life before.
    pub(crate) fn started(&mut self, container: ContainerId) {
        if let Some(place) = self.places.get_mut(&container) {
            (place.theirs, place.hands_off) = (false, false);
        }
    }

    /// A container was removed, and its cgroup with it.
    pub(crate) fn forget(&mut self, container: ContainerId) {
        self.places.remove(&container);
        self.homes.retain(|_, home| *home != container);
        self.forget_the_away_of(container);
        self.write_down();
    }

    /// Docker's events begin anew: what was awaited before will not come.
    pub(crate) fn docker_is_back(&mut self) {
        for place in self.places.values_mut() {
            (place.pauses_awaited, place.unpauses_awaited) = (0, 0);
        }
    }
}
