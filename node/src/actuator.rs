//! Where decisions become deeds. So far there is one actuator, which does nothing: the agent only watches.

use sched::{Action, Task};

/// Something that can hold and release tasks. The outcome of each action comes back as a fact, under its number.
pub trait Actuator: Send {
    /// Does one thing, or starts to.
    fn act(&mut self, action: Action, task: &Task);
}

/// Touches nothing. Under policy `none`, which is the only one that runs with it, nothing is asked of it either.
pub struct OnlyWatch;

impl Actuator for OnlyWatch {
    fn act(&mut self, _: Action, _: &Task) {}
}
