//! Who is urgent and who yields, in advance: so that the gate can act at an urgent launch without asking first.

use super::Scheduler;
use super::verdict::candidates;
use crate::fact::{GpuId, Process};
use crate::time::Instant;
use alloc::vec::Vec;

/// What a process is to the others on its GPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Role {
    /// Nothing special.
    #[default]
    Plain,
    /// Those that yield must stop the moment it launches.
    Urgent,
    /// It has no deadline to make, and stops while somebody urgent has work on the GPU.
    Yields,
}

impl Scheduler {
    /// What each process on a GPU is to the others. Only processes that may be held have a role.
    pub fn roles(&self, now: Instant, gpu: GpuId) -> Vec<(Process, Role)> {
        let policy = self.policies.get(&gpu).unwrap_or(&self.policy);
        let mut candidates = candidates(self, now, gpu);
        candidates.retain(|candidate| !candidate.task.is_away());
        let urgent: Vec<bool> =
            candidates.iter().map(|candidate| policy.is_urgent(now, &self.settings, candidate)).collect();
        let roles = candidates.iter().zip(urgent).map(|(candidate, urgent)| {
            let role = match candidate.due {
                _ if urgent => Role::Urgent,
                None if policy.knows_urgency() => Role::Yields,
                _ => Role::Plain,
            };
            (candidate.task.process, role)
        });
        roles.collect()
    }
}
