//! The scheduler in its world: facts reach it late, actions take effect late, answers get lost.

use super::{Happening, Pod, World};
use crate::fault::Fate;
use sched::task::Gate;
use sched::{
    Action, ContainerId, Event, Fact, GpuId, Instant, Outcome, Process, Reading, RequestId, Scheduler, Span,
    TaskId,
};
use std::collections::BTreeMap;

/// What a node can see and do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tier {
    /// Probes: launches are seen, and held at a gate.
    Gate,
    /// NVML only: processes are seen, and containers frozen.
    Freeze,
}

/// One line for a person: when, and what.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Logged {
    /// When.
    pub at: Instant,
    /// What.
    pub what: String,
}

/// Something on its way. The number says which life of the agent it belongs to.
#[derive(Clone, Copy, Debug)]
pub(super) enum Message {
    Fact(u64, Instant, Fact),
    Action(u64, RequestId, Process, Deed),
}

/// What is to be done to a process. Nothing is swapped in this world: no container of it allows that.
#[derive(Clone, Copy, Debug)]
pub(super) enum Deed {
    Shut(Gate),
    Open,
    Pass,
    Cannot,
}

/// The agent while it lives.
pub(super) struct Agent {
    pub scheduler: Scheduler,
    life: u64,
    changed: bool,
    wake: Option<Instant>,
    names: BTreeMap<TaskId, String>,
}

impl World<'_> {
    pub(super) fn start_agent(&mut self) {
        let mut scheduler = Scheduler::new(self.setup.settings.clone(), (self.setup.policy)());
        self.agents_started += 1;
        // As the real one does, which remembers its last number on disk.
        scheduler.number_requests_from(self.agents_started * 1_000_000_000);
        self.agent = Some(Agent {
            scheduler,
            life: self.agents_started,
            changed: true,
            wake: None,
            names: BTreeMap::new(),
        });
    }

    /// The agent dies: the guard opens every gate, and what was on its way is lost.
    pub(super) fn agent_dies(&mut self) {
        if self.agent.take().is_none() {
            return;
        }
        self.say("the agent dies");
        for index in self.live.clone() {
            self.open(index);
        }
        self.after(Span::from_millis(500), Happening::AgentStarts);
    }

    /// A new agent finds what is there, and no more.
    pub(super) fn agent_starts_again(&mut self) {
        self.start_agent();
        self.say("the agent starts");
        for (index, pod) in self.pods.clone().into_iter().enumerate().filter(|(_, pod)| !pod.gone) {
            let container = ContainerId(index as u32);
            self.tell_agent(Fact::Container { container, terms: pod.terms, paused: pod.paused });
        }
        for index in self.live.clone() {
            self.tell_process(index, true);
            self.tell_memory(index);
            let Some(proc) = self.procs[index].as_ref() else { continue };
            let fact = Fact::Submitted { process: proc.process, gpu: GpuId(proc.gpu as u16) };
            if proc.in_flight > 0 && self.setup.tier == Tier::Gate {
                self.tell_agent(fact);
            }
        }
    }

    pub(super) fn tell_agent(&mut self, fact: Fact) {
        self.tell_agent_late(fact, Span::ZERO);
    }

    /// A fact that could only be seen late is true, for the agent, since it was seen.
    pub(super) fn tell_agent_late(&mut self, fact: Fact, late: Span) {
        self.send(fact, self.now + late, late);
    }

    /// A fact that carries its own time, and takes longer than others to arrive.
    pub(super) fn tell_agent_delayed(&mut self, fact: Fact, late: Span) {
        self.send(fact, self.now, late);
    }

    fn send(&mut self, fact: Fact, at: Instant, late: Span) {
        if let Some(agent) = &self.agent {
            let message = Message::Fact(agent.life, at, fact);
            self.after(late + self.setup.costs.fact_delay, Happening::Message(message));
        }
    }

    /// Docker's events get lost now and then; the next listing makes up for it.
    pub(super) fn tell_docker(&mut self, fact: Fact) {
        if !self.setup.faults.loses_docker_event(self.now) {
            self.tell_agent(fact);
        }
    }

    pub(super) fn deliver(&mut self, message: Message) {
        match message {
            Message::Fact(life, at, fact) => {
                let Some(agent) = self.agent.as_mut().filter(|agent| agent.life == life) else { return };
                agent.changed = true;
                let events = agent.scheduler.learn(at, fact);
                self.note_events(&events);
            }
            Message::Action(life, request, process, deed) => {
                if self.agent.as_ref().is_some_and(|agent| agent.life == life) {
                    self.act(request, process, deed);
                }
            }
        }
    }

    /// Carries out one action, and answers. A process that has left cannot be held or let go.
    fn act(&mut self, request: RequestId, process: Process, deed: Deed) {
        let found = self
            .live
            .iter()
            .copied()
            .find(|index| self.procs[*index].as_ref().is_some_and(|proc| proc.process == process));
        let outcome = match (found, deed) {
            (None, _) | (_, Deed::Cannot) => Outcome::Failed,
            (Some(_), Deed::Shut(_)) if self.setup.faults.hold_fails(self.now) => Outcome::Failed,
            (Some(index), Deed::Shut(gate)) => self.shut(index, gate),
            (Some(index), Deed::Pass) => return self.pass(index),
            (Some(index), Deed::Open) => {
                self.open(index);
                Outcome::Released
            }
        };
        let answer = Fact::Answer { request, outcome };
        match self.setup.faults.fate_of_answer(self.now) {
            Fate::Lost => {}
            Fate::Late(late) => self.tell_agent_late(answer, late),
            Fate::Twice(late) => {
                self.tell_agent(answer);
                self.tell_agent_late(answer, late);
            }
        }
    }

    /// Lets a process make the allocation it stands at; its gate stays shut.
    fn pass(&mut self, index: usize) {
        let now = self.now;
        let Some(proc) = self.procs[index].as_mut().filter(|proc| proc.stopped) else { return };
        if proc.step == super::process::Step::Allocate {
            proc.stopped = false;
            proc.passed = true;
            proc.go_on(now);
            self.walk(index);
        }
    }

    fn shut(&mut self, index: usize, gate: Gate) -> Outcome {
        let now = self.now;
        let Some(proc) = self.procs[index].as_mut() else { return Outcome::Failed };
        if self.setup.tier == Tier::Freeze {
            proc.wants_frozen = true;
            let container = proc.container;
            self.freeze_if_all_want(container);
            return Outcome::Held;
        }
        proc.gate = Some(gate);
        // A gate that no longer stops allocations lets go whoever stands at one.
        if gate == Gate::Launches && proc.stopped && proc.step == super::process::Step::Allocate {
            proc.stopped = false;
            proc.go_on(now);
            self.walk(index);
        }
        Outcome::Held
    }

    /// A container can only be frozen whole, so it is once all its processes are to be held.
    fn freeze_if_all_want(&mut self, container: ContainerId) {
        let now = self.now;
        let here = self.procs_of(container);
        let wants = |index: &usize| self.procs[*index].as_ref().is_some_and(|proc| proc.wants_frozen);
        if !here.iter().all(wants) {
            return;
        }
        for index in here {
            let Some(proc) = self.procs[index].as_mut().filter(|proc| !proc.frozen) else { continue };
            proc.frozen = true;
            proc.come_to_a_stand(now);
            let fact = Fact::Stopped { process: proc.process, gpu: GpuId(proc.gpu as u16) };
            self.tell_agent(fact);
        }
    }

    pub(super) fn open(&mut self, index: usize) {
        let now = self.now;
        let Some(proc) = self.procs[index].as_mut() else { return };
        proc.gate = None;
        proc.stopped = false;
        proc.wants_frozen = false;
        proc.go_on(now);
        let thaws = proc.frozen;
        proc.frozen = false;
        let container = proc.container;
        self.walk(index);
        for other in self.procs_of(container).into_iter().filter(|other| thaws && *other != index) {
            let Some(proc) = self.procs[other].as_mut().filter(|proc| proc.frozen) else { continue };
            proc.frozen = false;
            proc.go_on(now);
            let fact = Fact::Resumed { process: proc.process, gpu: GpuId(proc.gpu as u16) };
            self.tell_agent(fact);
            self.walk(other);
        }
    }

    pub(super) fn procs_of(&self, container: ContainerId) -> Vec<usize> {
        let of =
            |index: &&usize| self.procs[**index].as_ref().is_some_and(|proc| proc.container == container);
        self.live.iter().filter(of).copied().collect()
    }

    /// Lets the agent decide if it learnt something. Whether it did.
    pub(super) fn let_agent_decide(&mut self) -> bool {
        let now = self.now;
        let Some(agent) = self.agent.as_mut().filter(|agent| agent.changed) else { return false };
        agent.changed = false;
        let (events, actions) = agent.scheduler.decide(now);
        if self.setup.check && self.broken.is_none() {
            self.broken =
                sched::check::broken(&agent.scheduler, now).map(|what| format!("at {now:?}: {what}"));
        }
        let wake = agent.scheduler.wake();
        let life = agent.life;
        let wanted = (agent.wake != wake).then_some(wake).flatten();
        agent.wake = wake;
        if let Some(wake) = wanted {
            self.at(wake, Happening::Wake);
        }
        self.note_events(&events);
        for action in actions {
            self.note_action(action);
            let (request, task, deed) = match action {
                Action::Hold { request, task, gate, .. } => (request, task, Deed::Shut(gate)),
                Action::Release { request, task, .. } => (request, task, Deed::Open),
                Action::Pass { request, task, .. } => (request, task, Deed::Pass),
                Action::SwapOut { request, task, .. } | Action::SwapIn { request, task, .. } => {
                    (request, task, Deed::Cannot)
                }
            };
            let Some(agent) = self.agent.as_ref() else { break };
            if let Some(process) = agent.scheduler.tracker().task(task).map(|task| task.process) {
                let message = Message::Action(life, request, process, deed);
                self.after(self.setup.costs.action_delay, Happening::Message(message));
            }
        }
        true
    }

    pub(super) fn wake_agent(&mut self) {
        let now = self.now;
        if let Some(agent) = self.agent.as_mut().filter(|agent| agent.wake.is_some_and(|wake| wake <= now)) {
            agent.changed = true;
            agent.wake = None;
        }
    }

    pub(super) fn read_gpus(&mut self) {
        let period = self.setup.costs.reading_period;
        for gpu in 0..self.devices.len() {
            let stale = self.setup.faults.reading_is_stale(self.now);
            let device = &mut self.devices[gpu];
            let fresh = Reading {
                core_permille: (device.busy.as_micros() * 1000 / period.as_micros()).min(1000) as u16,
                memory_used: device.memory_used,
                memory_total: device.memory_total,
            };
            let reading = if stale { device.last_reading.unwrap_or(fresh) } else { fresh };
            device.busy = Span::ZERO;
            device.last_reading = Some(reading);
            self.tell_agent(Fact::Gpu { gpu: GpuId(gpu as u16), reading });
        }
        self.after(period, Happening::Reading);
    }

    /// Containers and processes as they are, against what the agent believes.
    pub(super) fn list_anew(&mut self) {
        let tracker = self.agent.as_ref().map(|agent| agent.scheduler.tracker());
        let known = tracker.into_iter().flat_map(|tracker| tracker.containers()).map(|(id, _)| id);
        let gone: Vec<ContainerId> = known.filter(|id| self.pods[id.0 as usize].gone).collect();
        gone.into_iter().for_each(|container| self.tell_agent(Fact::ContainerGone(container)));
        for index in self.live.clone() {
            let Some(proc) = self.procs[index].as_ref() else { continue };
            let container = proc.container;
            let Pod { terms, paused, .. } = self.pods[container.0 as usize];
            self.tell_agent(Fact::Container { container, terms, paused });
            self.tell_process(index, false);
            self.tell_memory(index);
        }
        self.after(self.setup.costs.listing_period, Happening::Listing);
    }

    pub(super) fn say(&mut self, what: &str) {
        if self.setup.log {
            self.log.push(Logged { at: self.now, what: what.to_owned() });
        }
    }

    fn note_action(&mut self, action: Action) {
        if !self.setup.log {
            return;
        }
        let Some(agent) = &self.agent else { return };
        let name =
            |task: TaskId| agent.names.get(&task).cloned().unwrap_or_else(|| format!("task {}", task.0));
        let line = match action {
            Action::Hold { task, because, .. } => format!("hold {}, {}", name(task), because.words(name)),
            Action::Pass { .. } => return,
            Action::SwapOut { task, .. } => format!("swap {} out", name(task)),
            Action::SwapIn { task, .. } => format!("swap {} in", name(task)),
            Action::Release { task, because: sched::Reason::ItsTurn, .. } => {
                format!("release {}", name(task))
            }
            Action::Release { task, because, .. } => {
                format!("release {}, {}", name(task), because.words(name))
            }
        };
        self.say(&line);
    }

    fn note_events(&mut self, events: &[Event]) {
        for event in events {
            if let Event::Finished(finished) = event {
                self.records.push(*finished);
            }
            let Some(agent) = self.agent.as_mut().filter(|_| self.setup.log) else { continue };
            match event {
                Event::Started { task, .. } => {
                    let process = agent.scheduler.tracker().task(*task).map(|task| task.process);
                    let index = process.map_or(0, |process| process.started as usize);
                    agent.names.insert(*task, self.workload.tasks[index].name.clone());
                }
                Event::Missed { task, .. } => {
                    let line = format!("{} misses its deadline", agent.names[task]);
                    self.say(&line);
                }
                _ => {}
            }
        }
    }
}
