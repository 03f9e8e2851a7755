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
        let here = self.procs_of(id);
        // Whoever paused a container resumes it, also if what ran in it has exited since.
        if self.pods[container].gone || (here.is_empty() && hand != Hand::Resume) {
            return;
        }
        match hand {
            Hand::Pause | Hand::Resume => {
                let paused = hand == Hand::Pause;
                self.pods[container].paused = paused;
                for index in here {
                    if let Some(proc) = self.procs[index].as_mut() {
                        proc.paused = paused;
                    }
                    self.walk(index);
                }
                let fact = if paused { Fact::ContainerPaused(id) } else { Fact::ContainerResumed(id) };
                self.tell_docker(fact);
            }
            Hand::Stop => {
                self.tell_docker(Fact::ContainerStopping(id));
                here.into_iter().for_each(|index| self.kill(index));
            }
        }
    }
}
