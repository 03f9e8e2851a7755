//! The made-up world: GPUs, processes, and between them and the scheduler the delays and faults of a
//! real node.
//!
//! Units: time in microseconds, work in millionths of that. Between two events everything flows at a
//! constant rate: a host phase at full speed, copies sharing the link, kernels sharing the GPU by time
//! slicing, at its cost. The loop jumps from event to event, so a run depends on its input alone.

mod agent;
mod flow;
mod hands;
mod process;
mod steps;

pub use agent::{Logged, Tier};
pub use hands::Hand;

use crate::fault::Faults;
use crate::outcome::{Outcome, TaskOutcome};
use crate::workload::{TaskSpec, Workload};
use agent::{Agent, Message};
use process::Proc;
use sched::policy::Policy;
use sched::{ContainerId, Instant, Mode, Settings, Span, Terms};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

/// What the world costs.
#[derive(Clone, Debug)]
pub struct Costs {
    /// How much slower time slicing makes kernels, in thousandths (FIELD-NOTES: 12–13 %).
    pub slicing_permille: u64,
    /// Input copies that run at full speed side by side; more share the link.
    pub copies_at_once: u64,
    /// From something happening to the scheduler knowing.
    pub fact_delay: Span,
    /// From an action to its effect.
    pub action_delay: Span,
    /// How often the GPU is read.
    pub reading_period: Span,
    /// How often containers and processes are listed anew, for what was not told.
    pub listing_period: Span,
    /// How late NVML lists a process, where launches are not seen.
    pub sight_delay: Span,
}

impl Costs {
    /// As measured on an H200 with probes.
    pub const H200: Costs = Costs {
        slicing_permille: 125,
        copies_at_once: 5,
        fact_delay: Span::from_micros(20),
        action_delay: Span::from_micros(12),
        reading_period: Span::from_millis(200),
        listing_period: Span::from_secs(1),
        sight_delay: Span::from_millis(140),
    };

    /// Without delays: for stories whose times should be round.
    pub const INSTANT: Costs = Costs { fact_delay: Span::ZERO, action_delay: Span::ZERO, ..Costs::H200 };
}

/// How to run a workload.
pub struct Setup {
    /// The policy under test.
    pub policy: Box<dyn Fn() -> Box<dyn Policy>>,
    /// The scheduler's numbers.
    pub settings: Settings,
    /// What the world costs.
    pub costs: Costs,
    /// What the node can see and do.
    pub tier: Tier,
    /// What goes wrong.
    pub faults: Faults,
    /// Whether to keep a log for a person to read.
    pub log: bool,
    /// Whether `sched::check` is asked after every step.
    pub check: bool,
}

impl Setup {
    /// The named policy in a world without faults.
    pub fn plain(policy: &'static str, costs: Costs) -> Setup {
        Setup {
            policy: Box::new(move || {
                sched::policy::by_name(policy).expect("the name was checked at the door")
            }),
            // Launches within a millisecond are one request, not several.
            settings: Settings { burst_gap: Span::from_millis(1), ..Settings::default() },
            costs,
            tier: Tier::Gate,
            faults: Faults::none(),
            log: false,
            check: false,
        }
    }
}

/// Something that happens at a moment of its own.
#[derive(Clone, Copy, Debug)]
enum Happening {
    /// A task's process starts.
    Arrival(usize),
    /// Something reaches the scheduler, or the actuator.
    Message(Message),
    /// The GPUs are read.
    Reading,
    /// Containers and processes are listed anew.
    Listing,
    /// The scheduler asked to be woken.
    Wake,
    /// A fault strikes.
    Kill(usize),
    /// The agent dies.
    AgentDies,
    /// It is started again.
    AgentStarts,
    /// Somebody pauses, resumes or stops a container by hand.
    Hand(usize, hands::Hand),
}

/// A GPU: its memory, and how long it was busy since it was last read.
#[derive(Clone, Debug)]
struct Device {
    memory_total: u64,
    memory_used: u64,
    busy: Span,
    last_reading: Option<sched::Reading>,
}

/// A container of the world.
#[derive(Clone, Copy, Debug)]
struct Pod {
    terms: Terms,
    paused: bool,
    tasks_left: usize,
    gone: bool,
}

/// The world while it runs.
pub struct World<'w> {
    workload: &'w Workload,
    setup: Setup,
    now: Instant,
    agenda: BinaryHeap<Reverse<(Instant, u64, Entry)>>,
    happenings: u64,
    devices: Vec<Device>,
    pods: Vec<Pod>,
    /// The container of each task.
    containers: Vec<ContainerId>,
    procs: Vec<Option<Proc>>,
    live: Vec<usize>,
    arrived: usize,
    agent: Option<Agent>,
    agents_started: u64,
    log: Vec<Logged>,
    broken: Option<String>,
    /// What the scheduler says of finished tasks.
    records: Vec<sched::Finished>,
    spans: Vec<crate::outcome::Stretch>,
}

/// An agenda entry; ordered by time and number alone.
#[derive(Debug)]
struct Entry(Happening);

impl PartialEq for Entry {
    fn eq(&self, _: &Entry) -> bool {
        true
    }
}
impl Eq for Entry {}
impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Entry) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Entry {
    fn cmp(&self, _: &Entry) -> std::cmp::Ordering {
        std::cmp::Ordering::Equal
    }
}

/// How long a world may go on after its last arrival, times the work it has: beyond that it hangs.
const PATIENCE_FACTOR: i64 = 20;

/// Runs a workload to its end. `progress` is told how many tasks are done, now and then.
pub fn run(workload: &Workload, setup: Setup, mut progress: impl FnMut(usize)) -> Outcome {
    let mut world = World::new(workload, setup);
    let limit = world.limit();
    let mut done = 0;
    while !world.is_over() && world.broken.is_none() {
        if world.now > limit {
            world.broken = Some(format!("the world does not come to an end: {}", world.who_is_left()));
            break;
        }
        world.step();
        let finished = world.arrived - world.live.len();
        if finished != done {
            done = finished;
            progress(done);
        }
    }
    world.into_outcome()
}

impl<'w> World<'w> {
    fn new(workload: &'w Workload, setup: Setup) -> World<'w> {
        let device = |memory: &u64| Device {
            memory_total: *memory,
            memory_used: 0,
            busy: Span::ZERO,
            last_reading: None,
        };
        let mut world = World {
            workload,
            now: Instant::ZERO,
            agenda: BinaryHeap::new(),
            happenings: 0,
            devices: workload.gpus.iter().map(device).collect(),
            pods: Vec::new(),
            containers: Vec::new(),
            procs: vec![None; workload.tasks.len()],
            live: Vec::new(),
            arrived: 0,
            agent: None,
            agents_started: 0,
            log: Vec::new(),
            broken: None,
            records: Vec::new(),
            spans: Vec::new(),
            setup,
        };
        let mut known = HashMap::new();
        for spec in &workload.tasks {
            let container = world.pod_for(spec, &mut known);
            world.containers.push(container);
        }
        for (index, spec) in workload.tasks.iter().enumerate() {
            world.at(Instant::ZERO + spec.arrives, Happening::Arrival(index));
        }
        world.start_agent();
        world.at(Instant::ZERO, Happening::Reading);
        world.at(Instant::ZERO + world.setup.costs.listing_period, Happening::Listing);
        for (moment, index) in world.setup.faults.kills(workload) {
            world.at(moment, Happening::Kill(index));
        }
        for moment in world.setup.faults.restarts(workload) {
            world.at(moment, Happening::AgentDies);
        }
        for (moment, hand, index) in world.setup.faults.hands(workload) {
            world.at(moment, Happening::Hand(world.containers[index].0 as usize, hand));
        }
        world
    }

    /// The container of a task; tasks with the same container name share it.
    fn pod_for(&mut self, spec: &'w TaskSpec, known: &mut HashMap<&'w str, ContainerId>) -> ContainerId {
        if let Some(container) = known.get(spec.container.as_str()) {
            self.pods[container.0 as usize].tasks_left += 1;
            return *container;
        }
        let terms = Terms {
            deadline: spec.deadline.and_then(sched::Deadline::new),
            mode: spec.mode,
            expect: spec.expect,
            memory: spec.memory_declared.then_some(spec.memory),
            hold_max: None,
            swap: false,
            managed: spec.managed,
        };
        self.pods.push(Pod { terms, paused: false, tasks_left: 1, gone: false });
        let container = ContainerId(self.pods.len() as u32 - 1);
        known.insert(&spec.container, container);
        container
    }

    fn at(&mut self, moment: Instant, what: Happening) {
        self.happenings += 1;
        self.agenda.push(Reverse((moment.max(self.now), self.happenings, Entry(what))));
    }

    fn after(&mut self, span: Span, what: Happening) {
        self.at(self.now + span, what);
    }

    /// Everything that happens at the next moment something does: first what was due, then what
    /// came to its end by itself.
    fn step(&mut self) {
        let due = self.agenda.peek().map(|Reverse((moment, ..))| *moment);
        let Some(next) = due.into_iter().chain(self.next_completion()).min() else {
            self.broken = Some(format!("nothing will ever happen again: {}", self.who_is_left()));
            return;
        };
        self.flow_until(next);
        loop {
            while let Some(Reverse((moment, ..))) = self.agenda.peek()
                && *moment <= self.now
            {
                let Some(Reverse((_, _, Entry(what)))) = self.agenda.pop() else { break };
                self.happen(what);
            }
            if !self.let_agent_decide() && !self.complete() {
                break;
            }
        }
    }

    fn happen(&mut self, what: Happening) {
        match what {
            Happening::Arrival(index) => self.arrive(index),
            Happening::Message(message) => self.deliver(message),
            Happening::Reading => self.read_gpus(),
            Happening::Listing => self.list_anew(),
            Happening::Wake => self.wake_agent(),
            Happening::Kill(index) => self.kill(index),
            Happening::AgentDies => self.agent_dies(),
            Happening::AgentStarts => self.agent_starts_again(),
            Happening::Hand(container, hand) => self.lay_hand(container, hand),
        }
    }

    /// All tasks came and went, and the scheduler has heard of it.
    fn is_over(&self) -> bool {
        let knows_nothing = |agent: &Agent| agent.scheduler.tracker().tasks().next().is_none();
        self.arrived == self.workload.tasks.len()
            && self.live.is_empty()
            && self.agent.as_ref().is_some_and(knows_nothing)
    }

    /// Generous: sliced, behind everybody, and patient every time.
    fn limit(&self) -> Instant {
        let last = self.workload.tasks.iter().map(|task| task.arrives).max().unwrap_or_default();
        let work: Span = self.workload.tasks.iter().map(|task| task.phases.solo()).sum();
        Instant::ZERO + last + work.scaled(PATIENCE_FACTOR, 1) + Span::from_secs(600)
    }

    fn who_is_left(&self) -> String {
        let states = self.live.iter().filter_map(|index| {
            let proc = self.procs[*index].as_ref()?;
            let name = &self.workload.tasks[*index].name;
            Some(format!("{name} {:?}{}", proc.step, if proc.is_still() { ", stopped" } else { "" }))
        });
        let left: Vec<String> = states.collect();
        let known = self.agent.as_ref().map_or(0, |agent| agent.scheduler.tracker().tasks().count());
        format!("{} after {}, {known} tasks known", left.join("; "), self.now.since(Instant::ZERO))
    }

    fn into_outcome(self) -> Outcome {
        let mut missed = vec![0; self.workload.tasks.len()];
        for record in self.records.iter().filter(|record| record.hit() == Some(false)) {
            missed[record.process.started as usize] += 1;
        }
        let tasks = self.workload.tasks.iter().zip(&self.procs).zip(missed).map(|((spec, proc), missed)| {
            let proc = proc.as_ref();
            let arrived = proc.map_or(Instant::ZERO + spec.arrives, |proc| proc.started);
            TaskOutcome {
                name: spec.name.clone(),
                arrived,
                ended: proc.and_then(|proc| proc.ended).unwrap_or(self.now),
                deadline: spec.deadline,
                failed: proc.is_none_or(|proc| proc.failed),
                out_of_memory: proc.is_some_and(|proc| proc.out_of_memory),
                requests_missed: (spec.mode != Mode::Process).then_some(missed),
                stops: proc.map_or(0, |proc| proc.stops),
                waited: proc.map_or(Span::ZERO, |proc| proc.waited),
            }
        });
        let tasks = tasks.collect();
        Outcome { tasks, log: self.log, broken: self.broken, records: self.records, stretches: self.spans }
    }
}
