//! What people do to containers while they run: pause, resume, stop.

use super::World;
use sched::{ContainerId, Fact};

/// What somebody does to a container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hand {
    /// `docker pause`
    Pause,
    /// `docker unpause`
    Resume,
    /// `docker stop`: the container is told, and exits by itself.
    Stop,
}

impl World<'_> {
    pub(super) fn lay_hand(&mut self, container: usize, hand: Hand) {
        let id = ContainerId(container as u32);
        let here = |world: &World<'_>| -> Vec<usize> {
            let of = |index: &&usize| world.procs[**index].as_ref().is_some_and(|proc| proc.container == id);
            world.live.iter().filter(of).copied().collect()
        };
        if self.pods[container].gone || here(self).is_empty() {
            return;
        }
        match hand {
            Hand::Pause => {
                self.pods[container].paused = true;
                self.tell_agent(Fact::ContainerPaused(id));
            }
            Hand::Resume => {
                self.pods[container].paused = false;
                self.tell_agent(Fact::ContainerResumed(id));
            }
            Hand::Stop => {
                self.tell_agent(Fact::ContainerStopping(id));
                here(self).into_iter().for_each(|index| self.kill(index));
            }
        }
    }
}
