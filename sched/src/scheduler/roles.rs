//! Who is urgent and who yields, in advance: so that the gate can act at an urgent launch without asking first.

use super::Scheduler;
use super::verdict::candidates;
use crate::fact::{GpuId, Process};
use crate::time::Instant;
use alloc::collections::BTreeMap;
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
    /// What each process on a GPU is to the others. Only who may be held is something special, and nobody who was frozen with work on the
    /// GPU: that is soon done, and nobody would see when.
    pub fn roles(&self, now: Instant, gpu: GpuId) -> BTreeMap<Process, Role> {
        let policy = self.policies.get(&gpu).unwrap_or(&self.policy);
        let mut candidates = candidates(self, now, gpu);
        candidates.retain(|candidate| !candidate.task.is_away());
        let urgent: Vec<bool> =
            candidates.iter().map(|candidate| policy.is_urgent(now, &self.settings, candidate)).collect();
        let of_candidates = candidates.iter().zip(urgent).map(|(candidate, urgent)| {
            let role = match candidate.due {
                _ if candidate.task.is_frozen_in_flight() => Role::Plain,
                _ if urgent => Role::Urgent,
                None if policy.knows_urgency() => Role::Yields,
                _ => Role::Plain,
            };
            (candidate.task.process, role)
        });
        let mut roles: BTreeMap<Process, Role> =
            self.tracker.tasks_on(gpu).map(|task| (task.process, Role::Plain)).collect();
        roles.extend(of_candidates);
        roles
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fact::{ContainerId, Fact, Terms};
    use crate::node_under_test::*;
    use crate::task::Mode;

    #[test]
    fn tasks_without_a_deadline_yield_to_those_whose_slack_is_thin() {
        let roles = |policy: &str, deadline_ms: i64| {
            let mut desk = Desk::new(policy);
            for (number, deadline_ms) in [(1, deadline_ms), (2, 0)] {
                desk.hears(
                    0,
                    on_terms(number, Terms { expect: Some(ms(10)), ..terms(Mode::Burst, deadline_ms) }),
                );
                desk.hears(0, arrives(number, number));
            }
            let roles = desk.scheduler.roles(at(0), GPU);
            (roles[&process(1)], roles[&process(2)])
        };
        assert_eq!(roles("least-slack", 30), (Role::Urgent, Role::Yields));
        assert_eq!(roles("least-slack", 1000), (Role::Plain, Role::Yields), "there is time for both");
        assert_eq!(roles("earliest-deadline", 1000), (Role::Urgent, Role::Yields));
        assert_eq!(roles("fifo", 30), (Role::Plain, Role::Plain));
        assert_eq!(roles("least-slack", 0), (Role::Yields, Role::Yields), "nobody is urgent");
    }

    #[test]
    fn who_cannot_tell_that_it_has_drained_is_urgent_no_more() {
        let urgent = || {
            let mut desk = Desk::with_two_deadlines("earliest-deadline");
            desk.hears(1, submits(1));
            assert_eq!(desk.scheduler.roles(at(1), GPU)[&process(1)], Role::Urgent);
            desk
        };
        let mut frozen = urgent();
        frozen.hears(2, stopped(1));
        assert_eq!(frozen.scheduler.roles(at(2), GPU)[&process(1)], Role::Plain);
        let mut paused = urgent();
        paused.hears(2, Fact::ContainerPaused(ContainerId(1)));
        assert_eq!(paused.scheduler.roles(at(2), GPU)[&process(1)], Role::Plain);
    }
}
