//! Who is urgent and who yields, in advance: so that the gate can act at an urgent launch without asking first.

use super::Scheduler;
use super::verdict::candidates;
use crate::fact::{GpuId, Process};
use crate::policy::Candidate;
use crate::task::{Deadline, Mode};
use crate::time::{Instant, Span};
use alloc::collections::BTreeMap;
use alloc::vec::Vec;

/// How many times longer than an urgent deadline a task must have left to make way whatever its own slack: of a first run nobody
/// knows the slack, and hours can wait for milliseconds.
const FAR_LONGER: i64 = 8;

/// What a process is to the others on its GPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Role {
    /// Nothing special.
    #[default]
    Plain,
    /// Those that yield must stop the moment it launches.
    Urgent,
    /// It has no deadline to make, or longer left than somebody urgent ever has: it stops while urgent work is on the GPU, and never has much of its own
    /// in flight.
    Yields,
    /// It yields, for its request has missed its deadline; but the next one will be urgent, and nobody may have much in flight when it comes.
    Late,
}

impl Role {
    /// Whether it stops while urgent work is on the GPU.
    pub const fn yields(self) -> bool {
        matches!(self, Role::Yields | Role::Late)
    }
}

impl Scheduler {
    /// What each process on a GPU is to the others. Only who may be held is something special, and nobody who was frozen with work on the
    /// GPU: that is soon done, and nobody would see when.
    pub fn roles(&self, now: Instant, gpu: GpuId) -> BTreeMap<Process, Role> {
        let policy = self.policies.get(&gpu).unwrap_or(&self.policy);
        let mut candidates = candidates(self, now, gpu);
        candidates.retain(|candidate| !candidate.task.is_away());
        let is_urgent = |candidate: &Candidate<'_>| {
            !candidate.task.is_frozen_in_flight() && policy.is_urgent(now, &self.settings, candidate)
        };
        let of_terms = |candidate: &Candidate<'_>| self.tracker.terms_of(candidate.task).deadline;
        let deadline = |candidate: &Candidate<'_>| {
            of_terms(candidate).filter(|_| candidate.due.is_some()).map(Deadline::span)
        };
        let next_is_urgent = |candidate: &Candidate<'_>| {
            let due = of_terms(candidate).map(|deadline| now + deadline.span());
            let next = Candidate { due, served: Span::ZERO, ..*candidate };
            candidate.task.mode == Mode::Burst && policy.is_urgent(now, &self.settings, &next)
        };
        let urgent: Vec<bool> = candidates.iter().map(is_urgent).collect();
        let of_urgent = candidates.iter().zip(&urgent).filter(|(_, urgent)| **urgent);
        let shortest = of_urgent.filter_map(|(candidate, _)| deadline(candidate)).min();
        let of_candidates = candidates.iter().zip(urgent).map(|(candidate, urgent)| {
            let left = deadline(candidate).and(candidate.due).map(|due| due.since(now));
            let role = match (left, shortest) {
                _ if candidate.task.is_frozen_in_flight() => Role::Plain,
                (None, _) if next_is_urgent(candidate) => Role::Late,
                (None, _) if policy.knows_urgency() => Role::Yields,
                (Some(left), Some(shortest)) if left > shortest.scaled(FAR_LONGER, 1) => Role::Yields,
                _ if urgent => Role::Urgent,
                (Some(left), Some(shortest)) if left > shortest => Role::Yields,
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
    fn who_has_a_longer_deadline_yields_to_who_is_urgent() {
        // A server whose requests take nearly all of the time they have, and a task of which something is known or nothing.
        let roles_at = |now_ms: u64, policy: &str, deadline_ms: i64, expect_ms: Option<i64>| {
            let mut desk = Desk::new(policy);
            let server = Terms { expect: Some(ms(290)), ..terms(Mode::Burst, 300) };
            let other = Terms { expect: expect_ms.map(ms), ..terms(Mode::Process, deadline_ms) };
            for (number, terms) in [(1, server), (2, other)] {
                desk.hears(0, on_terms(number, terms));
                desk.hears(0, arrives(number, number));
            }
            let roles = desk.scheduler.roles(at(now_ms), GPU);
            (roles[&process(1)], roles[&process(2)])
        };
        let roles = |policy: &str, deadline_ms, expect_ms| roles_at(0, policy, deadline_ms, expect_ms);
        let hours = 4 * 60 * 60 * 1000;
        for policy in ["least-slack", "earliest-deadline"] {
            assert_eq!(roles(policy, hours, None), (Role::Urgent, Role::Yields), "hours can wait");
            assert_eq!(roles(policy, 2400, None), (Role::Urgent, Role::Urgent), "eight times as long");
        }
        assert_eq!(
            roles("least-slack", 2000, Some(10)),
            (Role::Urgent, Role::Yields),
            "it has time to spare"
        );
        assert_eq!(
            roles("least-slack", 200, Some(10)),
            (Role::Urgent, Role::Plain),
            "but a shorter deadline"
        );
        assert_eq!(roles("fifo", hours, None), (Role::Plain, Role::Plain));
        let nearly_over = roles_at(hours.unsigned_abs() - 1000, "earliest-deadline", hours, None);
        assert_eq!(nearly_over, (Role::Urgent, Role::Urgent), "what it has left counts, not what it had");
    }

    #[test]
    fn a_server_is_as_urgent_between_two_requests_as_at_the_beginning_of_one() {
        let mut desk = Desk::new("least-slack");
        for (number, terms) in [(1, terms(Mode::Burst, 100)), (2, terms(Mode::Process, 0))] {
            desk.hears(0, on_terms(number, terms));
            desk.hears(0, arrives(number, number));
        }
        desk.hears(10, submits(1));
        desk.hears(40, drains(1));
        desk.decides(60);
        assert!(desk.scheduler.tracker().tasks().any(|task| task.process == process(1) && task.dormant));
        let roles = |now_ms: u64| {
            let roles = desk.scheduler.roles(at(now_ms), GPU);
            (roles[&process(1)], roles[&process(2)])
        };
        // Of the 100 ms it has, its request needs 45, at most, and so it has no time to spare.
        for now_ms in [60, 100, 10_000] {
            assert_eq!(roles(now_ms), (Role::Urgent, Role::Yields), "at {now_ms} ms");
        }
    }

    #[test]
    fn who_is_late_will_be_urgent_again_if_it_serves_requests() {
        let late = |policy: &str, mode: Mode| {
            let mut desk = Desk::new(policy);
            for (number, terms) in [(1, terms(mode, 20)), (2, terms(Mode::Process, 0))] {
                desk.hears(0, on_terms(number, terms));
                desk.hears(0, arrives(number, number));
                desk.hears(0, submits(number));
            }
            desk.decides(21);
            assert!(desk.task(1).missed);
            let roles = desk.scheduler.roles(at(21), GPU);
            (roles[&process(1)], roles[&process(2)])
        };
        for policy in ["least-slack", "earliest-deadline"] {
            assert_eq!(late(policy, Mode::Burst), (Role::Late, Role::Yields));
            assert_eq!(late(policy, Mode::Process), (Role::Yields, Role::Yields), "it has no next");
        }
        assert_eq!(late("fifo", Mode::Burst), (Role::Plain, Role::Plain));
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
