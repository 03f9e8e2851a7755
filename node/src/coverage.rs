//! Whose work is probed, what the probes say, and who yields to whom: the owner's side of the probes tier.
//!
//! A probe costs the program half a microsecond, so it is there only where it is worth that: where one request is one task, and where two
//! processes that may be held share a GPU. Allocations are probed where they delimit a task.

use crate::actuator::is_under_a_shell;
use crate::clock;
use crate::facts::Home;
use crate::facts::launches::{Coverage, Launches, Seen, Work};
use crate::owner::Owner;
use crate::views;
use sched::scheduler::Role;
use sched::task::{Grip, Task};
use sched::{ContainerId, Fact, GpuId, Instant, Mode, Process, Span, Terms};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

/// How much is remembered of a process that is not on any GPU yet.
const EARLY_MAX: usize = 64;

/// How long others that are due sooner may come first when contexts are made.
const OVERTAKEN_FOR: Span = Span::from_secs(10);

/// How long a process that called the driver, and has no context yet, counts as one that shares a GPU. Some only ask whether there is one, and
/// live on for hours.
const STARTS_FOR: Span = Span::from_secs(60);

/// How often a process may be resumed at its gate by others before the gate alone is not trusted with it.
const LEAKS_MAX: u32 = 2;
/// How many of one process's leaks are told: who resumes itself where only its work in flight is bounded could do so a thousand times a second.
const LEAKS_TOLD_MAX: u32 = 16;

/// A process that was seen to start.
struct Start {
    at: Instant,
    container: Option<ContainerId>,
    /// What it did before anybody knew on which GPU.
    early: Vec<(Instant, Work)>,
}

/// Somebody who uses a GPU, or is about to.
struct Person {
    gpus: BTreeSet<GpuId>,
    /// Nobody knows yet on which it will be.
    anywhere: bool,
    terms: Terms,
}

impl Default for Person {
    fn default() -> Self {
        Self { gpus: BTreeSet::new(), anywhere: false, terms: Terms::UNMANAGED }
    }
}

impl Person {
    /// Whether both may be held, and use the same GPU.
    fn shares_with(&self, other: &Person) -> bool {
        let may_meet =
            |one: &Person, other: &Person| one.anywhere && (other.anywhere || !other.gpus.is_empty());
        let both_managed = self.terms.managed && other.terms.managed;
        both_managed
            && (may_meet(self, other) || may_meet(other, self) || !self.gpus.is_disjoint(&other.gpus))
    }
}

/// Who should be seen: on which GPU, if it is known, and how much.
pub(crate) type Wanted = BTreeMap<Process, (Option<GpuId>, Option<Coverage>)>;

/// What the owner knows of probes.
#[derive(Default)]
pub(crate) struct Probed {
    pub(crate) launches: Option<Launches>,
    starts: HashMap<Process, Start>,
    /// Whose work is seen; whether from the very beginning.
    covered: HashMap<Process, bool>,
    /// What was last ordered.
    ordered: HashMap<Process, Coverage>,
    /// Whose allocations were probed before its launches were: some of those may not have been seen.
    widened: HashSet<Process>,
    /// What NVML last said that a process has on a GPU.
    pub(crate) looked_at: HashMap<(Process, GpuId), u64>,
    /// Whether a process runs under an interactive shell.
    under_a_shell: HashMap<Process, bool>,
    /// How often a process went on that we had stopped.
    leaks: HashMap<Process, u32>,
    /// Whose launches are seen only because it is held: until it is let go, or it would be let go with its probes.
    kept: HashSet<Process>,
    /// Until when those count who have no context yet, the first of them.
    starting_until: Option<Instant>,
    /// The probes were asked for what they have not told yet.
    asked: bool,
    /// Something changed that coverage or roles depend on.
    pub(crate) stale: bool,
}

impl Probed {
    pub(crate) fn new(launches: Option<Launches>) -> Self {
        Self { launches, ..Self::default() }
    }

    /// When a process started, if that was seen.
    pub(crate) fn start_of(&self, process: Process) -> Option<Instant> {
        self.starts.get(&process).map(|start| start.at)
    }

    /// Whether a process's probes are wanted, as far as was ordered.
    pub(crate) fn is_seen(&self, process: Process) -> bool {
        self.ordered.contains_key(&process)
    }

    /// Whether everything a process did on the GPU was seen.
    pub(crate) fn saw_all_of(&self, process: Process) -> bool {
        self.covered.get(&process) == Some(&true)
    }

    /// Whether a process's launches are seen, and no work of its can be on the GPU that was not.
    pub(crate) fn sees_launches_of(&self, process: Process) -> bool {
        self.saw_all_of(process)
            && !self.widened.contains(&process)
            && matches!(self.ordered.get(&process), Some(Coverage::Work | Coverage::Requests))
    }

    /// The containers of those who have called the driver, and are on no GPU yet, for all we know.
    pub(crate) fn starting_in(&self) -> impl Iterator<Item = ContainerId> {
        self.starts.values().filter_map(|start| start.container)
    }

    pub(crate) fn forget(&mut self, process: Process) {
        self.starts.remove(&process);
        self.looked_at.retain(|(known, _), _| *known != process);
        self.covered.remove(&process);
        self.ordered.remove(&process);
        self.widened.remove(&process);
        self.under_a_shell.remove(&process);
        self.leaks.remove(&process);
        self.stale = true;
        if let Some(launches) = &self.launches {
            launches.forget(process);
        }
    }
}

impl Owner {
    /// What probes say.
    pub(crate) fn on_probes(&mut self, at: Instant, seen: Seen) {
        match seen {
            Seen::Init(process, home) => self.on_init(at, process, home),
            Seen::Context(process) => self.on_context(process),
            Seen::Covered(process, fresh) => self.on_covered(process, fresh),
            Seen::Work(process, work) => self.on_work(at, process, work),
            Seen::Heard => {
                self.probed.asked = false;
                self.learn(at, Fact::Heard);
            }
            Seen::Beat => {
                let Some(launches) = self.probed.launches.clone() else { return };
                launches.beat();
                // Who waits becomes urgent with time alone.
                if !self.probed.covered.is_empty() {
                    self.warn_the_guard();
                    launches.set_roles(self.roles(at));
                }
            }
        }
    }

    /// Time goes on while news is on its way: from the beginning nothing is over before the probes say that nothing was missed.
    pub(crate) fn begin_hearing(&mut self) {
        if self.probed.launches.is_some() {
            self.learn(clock::now(), Fact::Heard);
        }
    }

    /// Asks the probes for what they have not told yet, where something depends on it.
    pub(crate) fn hear(&mut self) {
        if let Some(launches) = self.probed.launches.as_ref().filter(|_| !self.probed.asked)
            && self.scheduler.tracker().awaits_word()
        {
            launches.hear();
            self.probed.asked = true;
        }
    }

    /// A process called the driver for the first time.
    fn on_init(&mut self, at: Instant, process: Process, home: Home) {
        if self.scheduler.tracker().has_left(process) {
            return;
        }
        let container = self.at_home(at, home);
        self.probed.starts.insert(process, Start { at, container, early: Vec::new() });
        self.probed.stale = true;
    }

    /// A process has a context. With one GPU there is no doubt where; with several NVML says so, before its first launch.
    fn on_context(&mut self, process: Process) {
        let mut gpus = self.gpus.keys();
        if let (Some(&gpu), None, Some(start)) = (gpus.next(), gpus.next(), self.probed.starts.get(&process))
        {
            self.on_gpu(start.at, process, gpu, start.container, false);
        }
    }

    /// A process uses a GPU.
    pub(crate) fn on_gpu(
        &mut self,
        at: Instant,
        process: Process,
        gpu: GpuId,
        container: Option<ContainerId>,
        approximate: bool,
    ) {
        let launches_seen = self.probed.sees_launches_of(process);
        let seen = self.probed.start_of(process);
        let approximate = approximate && seen.is_none();
        let fact = Fact::Process { process, container, gpu, launches_seen, approximate };
        self.learn(seen.unwrap_or(at), fact);
        self.meet(at, (process, gpu), container);
        if self.probed.saw_all_of(process) && !self.counts_allocations_of(process) {
            let looked_at = self.probed.looked_at.iter().filter(|((known, _), _)| *known == process);
            let looked_at: Vec<(GpuId, u64)> = looked_at.map(|((_, gpu), bytes)| (*gpu, *bytes)).collect();
            looked_at
                .into_iter()
                .for_each(|(gpu, bytes)| self.learn(at, Fact::Memory { process, gpu, bytes }));
        }
        self.probed.stale = true;
        let early = self.probed.starts.get_mut(&process).map(|start| std::mem::take(&mut start.early));
        early.into_iter().flatten().for_each(|(at, work)| self.on_work(at, process, work));
        if let (Some(launches), None) = (&self.probed.launches, seen) {
            launches.meet(process);
        }
    }

    /// Probes are in place. A process that was there before them may have work on the GPU: its next call will tell.
    fn on_covered(&mut self, process: Process, fresh: bool) {
        if self.scheduler.tracker().has_left(process) {
            return;
        }
        if fresh {
            self.probed.widened.remove(&process);
        }
        let was = self.probed.covered.insert(process, fresh);
        let fresh = fresh || was == Some(true);
        self.probed.covered.insert(process, fresh);
        if self.probed.sees_launches_of(process) {
            for (gpu, container) in self.places_of(process) {
                let fact = Fact::Process { process, container, gpu, launches_seen: true, approximate: false };
                self.learn(clock::now(), fact);
            }
        }
        let happened = self.actuator.covered(process);
        self.note(clock::now(), happened);
        self.probed.stale = true;
    }

    /// What a process's probes saw. On which of several GPUs cannot be told from outside, so it counts for each; but it stands only where it yields or
    /// is held. Elsewhere it would be let go at once, though it stands for somebody.
    fn on_work(&mut self, at: Instant, process: Process, work: Work) {
        let places = self.places_of(process);
        if places.is_empty() {
            let start = self.probed.starts.get_mut(&process).filter(|start| start.early.len() < EARLY_MAX);
            if let Some(start) = start {
                start.early.push((at, work));
            }
        }
        let first = places.iter().map(|(gpu, _)| *gpu).min();
        for (gpu, _) in places {
            match work {
                Work::AtLaunch if Some(gpu) != first && !self.is_in_hand(process, gpu) => {}
                Work::Copies => self.learn(at, Fact::Copying { process, gpu }),
                Work::Submitted | Work::Leaked => self.learn(at, Fact::Submitted { process, gpu }),
                Work::Drained => self.learn(at, Fact::Drained { process, gpu }),
                Work::AtLaunch => self.learn(at, Fact::AtLaunch { process, gpu }),
                Work::AtAllocation(bytes) => self.learn(at, Fact::AtAllocation { process, gpu, bytes }),
                Work::Resumed | Work::LeakedAtAllocation => self.learn(at, Fact::Resumed { process, gpu }),
                Work::Memory(bytes) if self.counts_allocations_of(process) => {
                    self.learn(at, Fact::Memory { process, gpu, bytes });
                }
                Work::Memory(_) => {}
            }
        }
        // It went on once, whichever GPU that was for.
        if let (Work::Leaked | Work::LeakedAtAllocation, Some(gpu)) = (work, first) {
            self.on_leak(at, process, gpu);
        }
    }

    /// Whether what a process allocates says what it has on its GPU. Half of the story is worse than NVML's whole, and of several GPUs nobody knows
    /// on which it allocates.
    pub(crate) fn counts_allocations_of(&self, process: Process) -> bool {
        self.probed.saw_all_of(process) && self.places_of(process).len() <= 1
    }

    /// Whether something is ordered of a process on a GPU.
    fn is_in_hand(&self, process: Process, gpu: GpuId) -> bool {
        let mut tasks = self.scheduler.tracker().tasks_on(gpu).filter(|task| task.process == process);
        tasks.any(is_in_hand)
    }

    /// Orders probes where they are needed, and tells the gates who yields to whom.
    pub(crate) fn order_probes(&mut self, now: Instant) {
        let in_hand = |process: &Process| {
            self.places_of(*process).iter().any(|(gpu, _)| self.is_in_hand(*process, *gpu))
        };
        let kept = self.probed.kept.iter().all(in_hand);
        let starting = self.probed.starting_until.is_none_or(|until| now < until);
        if !std::mem::take(&mut self.probed.stale) && kept && starting {
            return;
        }
        let Some(launches) = self.probed.launches.clone() else { return };
        self.warn_the_guard();
        let (wanted, kept) = self.wanted(now);
        self.probed.kept = kept;
        let starts = self.probed.starts.values().map(|start| start.at + STARTS_FOR);
        self.probed.starting_until = starts.filter(|until| *until > now).min();
        for (process, (gpu, coverage)) in wanted {
            let before = match coverage {
                Some(coverage) => self.probed.ordered.insert(process, coverage),
                None => self.probed.ordered.remove(&process),
            };
            if before != coverage {
                if before == Some(Coverage::Memory) && coverage.is_some() {
                    self.probed.widened.insert(process);
                }
                let due = self.first_due(process, gpu, now);
                launches.cover(process, gpu.unwrap_or(GpuId(0)), coverage, due);
                if coverage.is_none() {
                    self.probed.covered.remove(&process);
                }
            }
        }
        launches.set_roles(self.roles(now));
    }

    /// The kernel may stop somebody from here on, and the guard must know before.
    fn warn_the_guard(&mut self) {
        self.guard.iter_mut().for_each(|guard| guard.renew(true));
    }

    /// What each process is to the others on its GPU; of one on several, on the first. Who may not be stopped yields to nobody.
    fn roles(&mut self, now: Instant) -> BTreeMap<Process, (GpuId, Role)> {
        let mut roles = BTreeMap::new();
        for gpu in self.scheduler.tracker().gpus() {
            for (process, role) in self.scheduler.roles(now, gpu) {
                roles.entry(process).or_insert((gpu, role));
            }
        }
        for (process, (_, role)) in &mut roles {
            if role.yields() && !self.may_be_stopped(*process) {
                *role = Role::Plain;
            }
        }
        roles
    }

    /// A shell would take the stop for its user's Ctrl-Z; without a guard nobody is stopped, nor is whom a person let go.
    fn may_be_stopped(&mut self, process: Process) -> bool {
        let shells = &mut self.probed.under_a_shell;
        let under_a_shell = *shells.entry(process).or_insert_with(|| is_under_a_shell(process));
        self.actuator.guarded && !self.actuator.leaves_alone(process) && !under_a_shell
    }

    /// When what a process does first is due, where anybody may be stopped before it. Nobody is overtaken for ever.
    fn first_due(&mut self, process: Process, gpu: Option<GpuId>, now: Instant) -> Option<Instant> {
        let may_be = |known: &GpuId| gpu.is_none_or(|gpu| gpu == *known);
        if !self.may_be_stopped(process) {
            return None;
        }
        if !self.gpus.keys().copied().filter(may_be).all(|gpu| self.scheduler.policy(gpu).acts()) {
            return None;
        }
        let start = self.probed.starts.get(&process);
        let known =
            start.and_then(|start| start.container).and_then(|container| self.registry.get(container));
        let deadline = known.and_then(|known| known.terms).and_then(|terms| terms.deadline);
        let from = start.map_or(now, |start| start.at);
        Some(from + deadline.map_or(OVERTAKEN_FOR, |deadline| deadline.span().min(OVERTAKEN_FOR)))
    }

    /// Those of a container that have no context yet need not wait for it: they are to end, or to be left alone.
    pub(crate) fn let_in(&self, container: ContainerId) {
        let Some(launches) = &self.probed.launches else { return };
        let of = |start: &Start| start.container == Some(container);
        let starting = self.probed.starts.iter().filter(|(_, start)| of(start)).map(|(process, _)| *process);
        starting
            .filter(|process| self.places_of(*process).is_empty())
            .for_each(|process| launches.let_run(process));
    }

    /// Everybody we know of, where it is first, and how much of it should be seen; and of whom that is because it is held.
    pub(crate) fn wanted(&self, now: Instant) -> (Wanted, HashSet<Process>) {
        let in_hand: HashSet<Process> = self
            .scheduler
            .tracker()
            .tasks()
            .filter(|task| is_in_hand(task))
            .map(|task| task.process)
            .collect();
        let people = self.people(now);
        let mut kept = HashSet::new();
        let mut wants = |process: Process, person: &Person| match person.terms.mode {
            _ if !person.terms.managed => None,
            Mode::Burst => Some(Coverage::Requests),
            _ if people.iter().any(|(other, beside)| *other != process && beside.shares_with(person)) => {
                Some(Coverage::Work)
            }
            _ if in_hand.contains(&process) => {
                kept.insert(process);
                Some(Coverage::Work)
            }
            Mode::Memory => Some(Coverage::Memory),
            Mode::Process => None,
        };
        let wanted = people
            .iter()
            .map(|(process, person)| (*process, (person.gpus.first().copied(), wants(*process, person))));
        (wanted.collect(), kept)
    }

    /// Everybody who may use a GPU. One that has begun may use any, and soon does, or it does not count.
    fn people(&self, now: Instant) -> BTreeMap<Process, Person> {
        let terms = |container: Option<ContainerId>| {
            let known = container.and_then(|container| self.registry.get(container));
            known.and_then(|known| known.terms).unwrap_or(Terms::UNMANAGED)
        };
        let starting = self.probed.starts.iter().map(|(process, start)| {
            let anywhere = now < start.at + STARTS_FOR;
            (*process, Person { gpus: BTreeSet::new(), anywhere, terms: terms(start.container) })
        });
        let mut people: BTreeMap<Process, Person> = starting.collect();
        for task in self.scheduler.tracker().tasks() {
            let person = people.entry(task.process).or_default();
            person.gpus.insert(task.gpu);
            (person.anywhere, person.terms) = (false, terms(task.container));
        }
        people
    }

    fn places_of(&self, process: Process) -> Vec<(GpuId, Option<ContainerId>)> {
        let tasks = self.scheduler.tracker().tasks().filter(|task| task.process == process);
        tasks.map(|task| (task.gpu, task.container)).collect()
    }

    /// A tenant can resume itself. One launch, or allocation, got through; the next was stopped again.
    fn on_leak(&mut self, at: Instant, process: Process, gpu: GpuId) {
        let leaks = self.probed.leaks.entry(process).or_default();
        *leaks += 1;
        let leaks = *leaks;
        let told = views::leak(self, at, (process, gpu), leaks, leaks >= LEAKS_MAX);
        if let Some((at_us, line)) = told.filter(|_| leaks <= LEAKS_TOLD_MAX) {
            self.feed.tell(at_us, line);
        }
        if leaks == LEAKS_MAX {
            let happened = self.actuator.distrust(process);
            self.note(at, happened);
        }
    }
}

/// Something is ordered of it; one whose memory is out may be held as soon as it is back.
fn is_in_hand(task: &Task) -> bool {
    task.grip != Grip::Free || task.is_away()
}
