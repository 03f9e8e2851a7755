//! One container as something to hold: who is in it, who of them is held and how, and whether it is frozen.

use super::freezer::Freezer;
use super::{Happened, answer};
use sched::task::Gate;
use sched::{ContainerId, Fact, GpuId, Outcome, Process, RequestId};
use std::collections::BTreeMap;
use wire::held::{HeldLine, How};

/// How one task is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// At its process's gate.
    Gate(Gate),
    /// By freezing its container, because its launches are not seen. It could be held at that gate.
    Freeze(Gate),
    /// Both: it has been resumed at its gate by others, and the gate alone does not keep it; or it is to stop wherever it is.
    Both(Gate),
    /// Its memory is swapped out: it waits inside the driver.
    Out,
    /// Its memory is on its way back, in which it must run to take part; from there on it is held at its gate, at its next allocation.
    Returning,
}

impl Way {
    /// How a task is to be held that is held so now, if at all. At its gate, if that is seen and keeps it; one that must stop wherever it
    /// is stops there, and goes on to its gate when that is enough.
    pub(super) fn to_hold(held_as: Option<Way>, gate: Gate, covered: bool, distrusted: bool) -> Way {
        let for_want_of_room =
            matches!(held_as, Some(Way::Both(Gate::Anywhere) | Way::Freeze(Gate::Anywhere)));
        match held_as {
            _ if gate == Gate::Anywhere => {
                if covered {
                    Way::Both(gate)
                } else {
                    Way::Freeze(gate)
                }
            }
            Some(Way::Gate(_)) => Way::Gate(gate),
            Some(Way::Both(_)) if !for_want_of_room => Way::Both(gate),
            Some(Way::Freeze(_)) if !for_want_of_room => Way::Freeze(gate),
            _ if covered && distrusted => Way::Both(gate),
            _ if covered => Way::Gate(gate),
            _ => Way::Freeze(gate),
        }
    }

    pub(super) fn freezes(self) -> bool {
        matches!(self, Way::Freeze(_) | Way::Both(_))
    }

    /// What its process's gate stops.
    pub(super) fn gate(self) -> Option<Gate> {
        match self {
            Way::Gate(gate) | Way::Both(gate) => Some(gate),
            Way::Returning => Some(Gate::Allocations),
            Way::Freeze(_) | Way::Out => None,
        }
    }
}

/// An order that is under way.
#[derive(Debug)]
pub(super) struct Asked {
    pub(super) number: u64,
    pub(super) freeze: bool,
    /// Who waits for an answer.
    pub(super) requests: Vec<RequestId>,
}

#[derive(Debug)]
pub(super) struct Place {
    pub(super) id: String,
    pub(super) name: String,
    pub(super) members: BTreeMap<(Process, GpuId), Option<Way>>,
    /// Looked up when it is first needed.
    pub(super) freezer: Option<Freezer>,
    /// It stands, as the kernel confirmed.
    pub(super) frozen: bool,
    pub(super) asked: Option<Asked>,
    /// Docker or a person paused it.
    pub(super) theirs: bool,
    /// It stands by Docker's pause, which we asked for.
    pub(super) through_docker: bool,
    /// Docker will tell of that many pauses, and of the opposite, that were ours.
    pub(super) pauses_awaited: u32,
    pub(super) unpauses_awaited: u32,
    /// A person let it go: it is not held again while it has a task.
    pub(super) hands_off: bool,
    /// The driver cannot swap it out, and people were told.
    pub(super) unswappable: bool,
}

impl Place {
    pub(super) fn new(id: &str) -> Self {
        Self {
            id: id.to_owned(),
            name: String::new(),
            members: BTreeMap::new(),
            freezer: None,
            frozen: false,
            asked: None,
            theirs: false,
            through_docker: false,
            pauses_awaited: 0,
            unpauses_awaited: 0,
            hands_off: false,
            unswappable: false,
        }
    }

    /// Looks its cgroup up, by a process that is in it. False if it has none that freezes.
    pub(super) fn finds_its_freezer(&mut self, process: Process) -> bool {
        if self.freezer.is_none() {
            self.freezer = Freezer::of(process.pid, &self.id);
        }
        self.freezer.is_some()
    }

    /// It can only be frozen whole: once all its tasks are held, and one of them can be held no other way.
    pub(super) fn should_be_frozen(&self) -> bool {
        let stands = |way: &Option<Way>| way.is_some_and(|way| way != Way::Returning);
        self.members.values().all(stands) && self.members.values().flatten().any(|way| way.freezes())
    }

    /// How it will be once everything that was ordered is done.
    pub(super) fn will_be_frozen(&self) -> bool {
        self.asked.as_ref().map_or(self.frozen, |asked| asked.freeze)
    }

    pub(super) fn holds_anything(&self) -> bool {
        let is_held = |way: &Option<Way>| way.is_some_and(|way| way != Way::Out);
        self.frozen || self.asked.is_some() || self.members.values().any(is_held)
    }

    /// Nobody is in it and nothing is to be done: it can be forgotten.
    pub(super) fn is_idle(&self) -> bool {
        self.members.is_empty() && !self.frozen && self.asked.is_none()
    }

    /// What a process's gate should stop, if anything.
    pub(super) fn gate_of(&self, process: Process) -> Option<Gate> {
        let own = self.members.iter().filter(|((member, _), _)| *member == process);
        let gates: Vec<Gate> = own.filter_map(|(_, way)| way.and_then(Way::gate)).collect();
        let strictest = gates.iter().find(|gate| **gate != Gate::Launches).or(gates.first());
        strictest.copied()
    }

    /// It stands.
    pub(super) fn froze(&mut self, container: ContainerId, requests: &[RequestId]) -> Vec<Happened> {
        self.frozen = true;
        let mut happened: Vec<Happened> =
            requests.iter().map(|request| answer(*request, Outcome::Held)).collect();
        if self.theirs {
            return happened;
        }
        let stopped =
            self.members.keys().map(|(process, gpu)| Fact::Stopped { process: *process, gpu: *gpu });
        happened.extend(stopped.map(Happened::Fact));
        happened.push(Happened::Frozen(container));
        happened
    }

    /// It goes on. Those whom nobody released go on, too.
    pub(super) fn thawed(&mut self, container: ContainerId, requests: &[RequestId]) -> Vec<Happened> {
        let stood = std::mem::replace(&mut self.frozen, false);
        self.through_docker = false;
        let mut happened: Vec<Happened> =
            requests.iter().map(|request| answer(*request, Outcome::Released)).collect();
        let resumed =
            self.members.keys().map(|(process, gpu)| Fact::Resumed { process: *process, gpu: *gpu });
        happened.extend(resumed.map(Happened::Fact));
        happened.extend(stood.then_some(Happened::Thawed(container)));
        happened
    }

    /// It did not freeze, and runs: nobody in it is held that way.
    pub(super) fn could_not_be_frozen(&mut self, requests: &[RequestId]) -> Vec<Happened> {
        self.through_docker = false;
        self.pauses_awaited = 0;
        let mut happened: Vec<Happened> =
            requests.iter().map(|request| answer(*request, Outcome::Failed)).collect();
        for ((process, gpu), way) in &mut self.members {
            match *way {
                Some(Way::Freeze(_)) => {
                    *way = None;
                    happened.push(Happened::Fact(Fact::LetGo { process: *process, gpu: *gpu }));
                }
                Some(Way::Both(gate)) => *way = Some(Way::Gate(gate)),
                Some(Way::Gate(_) | Way::Out | Way::Returning) | None => {}
            }
        }
        happened
    }

    /// What of it is held, for the file. What others paused is not ours to let go.
    pub(super) fn lines(&self) -> Vec<HeldLine> {
        let line = |how| HeldLine {
            how,
            container: self.id.clone(),
            name: self.name.clone(),
            cgroup: self.freezer.as_ref().map(|freezer| freezer.folder().to_owned()),
            pid: None,
            started: None,
        };
        let mut lines = Vec::new();
        if (self.frozen || self.asked.is_some()) && !self.theirs && self.freezer.is_some() {
            lines.push(line(if self.through_docker { How::Paused } else { How::Frozen }));
        }
        let at_gate = self.members.iter().filter(|(_, way)| way.and_then(Way::gate).is_some());
        lines.extend(at_gate.map(|((process, _), _)| HeldLine {
            pid: Some(process.pid),
            started: Some(process.started),
            ..line(How::Stopped)
        }));
        lines
    }
}
