//! Where decisions become deeds, and deeds come back as facts.
//!
//! Problem: the scheduler holds tasks, a task is one process on one GPU, and what can be held is a process (at its gate) or a
//! whole container (frozen). Approach: a process's gate is shut while any of its tasks is held, and a container is
//! frozen once all its tasks are, and at least one of them can be held no other way. What takes time is done by other
//! threads; what is asked of them and not done yet is a state here.
//!
//! Nothing is held that is not written down first, and nothing while no guard watches.

pub mod freezer;
mod gate;
mod hands;
mod held;
pub mod pause;
mod place;
mod shell;
#[cfg(test)]
mod stories;
mod swapper;
mod swapping;
mod told;

pub use gate::LaunchGate;
pub use hands::Done;
pub use shell::is_under_a_shell;
pub use swapper::Moved;
pub(crate) use swapper::{Swapper, What};

use crate::facts::Teller;
use crate::run::Connect;
use hands::{Hands, Order};
use held::Held;
use place::{Asked, Place, Way};
use sched::task::Gate;
use sched::{Action, ContainerId, Fact, GpuId, Outcome, Process, RequestId, Task};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::io;
use std::path::{Path, PathBuf};
use swapping::Away;
use wire::swap::SwappedLine;

/// What came of something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Happened {
    /// For the scheduler.
    Fact(Fact),
    /// For people: a container was frozen.
    Frozen(ContainerId),
    /// For people: a container was thawed.
    Thawed(ContainerId),
    /// For people: a container cannot be swapped out, and why.
    Unswappable(ContainerId, String),
}

/// Everything that is or could be held.
pub(crate) struct Actuator {
    hands: Option<Hands>,
    gate: Option<Box<dyn LaunchGate>>,
    held: Held,
    connect: Connect,
    /// Containers are paused through Docker, for everybody to see.
    pub(crate) visible: bool,
    /// A guard watches that would let everything go. Without one nothing is held.
    pub(crate) guarded: bool,
    places: BTreeMap<ContainerId, Place>,
    homes: HashMap<Process, ContainerId>,
    /// None where nothing can be swapped.
    pub(crate) swapper: Option<Swapper>,
    /// Whose memory is out, or on its way.
    away: BTreeMap<Process, Away>,
    /// What an earlier agent left out, as long as nothing else is known of it.
    left: Vec<SwappedLine>,
    run_dir: PathBuf,
    /// Who does not stay at its gate.
    distrusted: HashSet<Process>,
    orders: u64,
}

impl Actuator {
    /// Starts the threads that do the slow part. `run_dir` is where what is held is written down; processes that the gate covers
    /// are held there.
    pub(crate) fn start(
        run_dir: &Path,
        connect: &Connect,
        teller: &Teller,
        visible: bool,
        gate: Option<Box<dyn LaunchGate>>,
    ) -> io::Result<Self> {
        Ok(Self {
            hands: Some(Hands::start(connect, teller)?),
            gate,
            held: Held::new(run_dir),
            connect: connect.clone(),
            visible,
            guarded: false,
            places: BTreeMap::new(),
            homes: HashMap::new(),
            swapper: None,
            away: BTreeMap::new(),
            left: Vec::new(),
            run_dir: run_dir.to_owned(),
            distrusted: HashSet::new(),
            orders: 0,
        })
    }

    /// Whether anything is held, or about to be: then the guard's patience counts.
    pub(crate) fn holds_anything(&self) -> bool {
        self.places.values().any(Place::holds_anything) || self.has_somebody_out()
    }

    /// Whether anything of a container is held.
    pub(crate) fn holds(&self, container: ContainerId) -> bool {
        self.places.get(&container).is_some_and(Place::holds_anything) || self.has_swapped(container)
    }

    /// Whether a process is of a container that a person let go.
    pub(crate) fn leaves_alone(&self, process: Process) -> bool {
        let place = self.homes.get(&process).and_then(|container| self.places.get(container));
        place.is_some_and(|place| place.hands_off)
    }

    /// Whether we froze a container.
    pub(crate) fn has_frozen(&self, container: ContainerId) -> bool {
        self.places.get(&container).is_some_and(|place| place.frozen && !place.theirs)
    }

    /// A process of a container uses a GPU. Nobody knew of it when its container was frozen, so that is looked at again.
    pub(crate) fn meet(
        &mut self,
        key: (Process, GpuId),
        container: ContainerId,
        id: &str,
        name: &str,
    ) -> Vec<Happened> {
        let place = self.places.entry(container).or_insert_with(|| Place::new(id));
        name.clone_into(&mut place.name);
        place.members.entry(key).or_insert(None);
        self.homes.insert(key.0, container);
        self.settle(container, None)
    }

    /// A process exited.
    pub(crate) fn part(&mut self, process: Process) -> Vec<Happened> {
        self.distrusted.remove(&process);
        self.forget_the_away(process);
        let Some(container) = self.homes.remove(&process) else { return Vec::new() };
        let Some(place) = self.places.get_mut(&container) else { return Vec::new() };
        place.members.retain(|(member, _), _| *member != process);
        if place.members.is_empty() {
            place.hands_off = false;
        }
        let happened = self.settle(container, None);
        self.write_down();
        if self.places.get(&container).is_some_and(Place::is_idle) {
            self.places.remove(&container);
        }
        happened
    }

    /// Does what the scheduler asks, or starts to.
    pub(crate) fn act(&mut self, action: Action, task: &Task) -> Vec<Happened> {
        let key = (task.process, task.gpu);
        let known = task.container.filter(|container| {
            self.places.get(container).is_some_and(|place| place.members.contains_key(&key))
        });
        match (action, known) {
            // A process that has left cannot be held or let go.
            (
                Action::Hold { request, .. }
                | Action::Release { request, .. }
                | Action::Pass { request, .. }
                | Action::SwapOut { request, .. }
                | Action::SwapIn { request, .. },
                None,
            ) => vec![answer(request, Outcome::Failed)],
            (Action::Hold { request, gate, .. }, Some(container)) => self.hold(request, container, key, gate),
            (Action::Release { request, .. }, Some(container)) => self.release(request, container, key),
            (Action::Pass { .. }, Some(_)) => self.pass(key.0),
            (Action::SwapOut { request, .. }, Some(container)) => self.swap_out(request, container, key.0),
            (Action::SwapIn { request, asks, .. }, Some(_)) => self.swap_in(request, key, asks),
        }
    }

    /// One that cannot be resumed says so when it is looked at again: it still stands.
    fn pass(&mut self, process: Process) -> Vec<Happened> {
        if let Some(Err(error)) = self.gate.as_mut().map(|gate| gate.pass(process)) {
            eprintln!("warning: could not let process {} allocate: {error}", process.pid);
        }
        Vec::new()
    }

    fn hold(
        &mut self,
        request: RequestId,
        container: ContainerId,
        key: (Process, GpuId),
        gate: Gate,
    ) -> Vec<Happened> {
        let failed = vec![answer(request, Outcome::Failed)];
        let guarded = self.guarded;
        let covered = self.gate.as_ref().is_some_and(|gate| gate.covers(key.0));
        let Some(place) = self.places.get_mut(&container) else { return failed };
        if !guarded || place.hands_off || place.theirs {
            return failed;
        }
        let held_as = place.members.get(&key).copied().flatten();
        let distrusted = self.distrusted.contains(&key.0);
        let mut way = Way::to_hold(held_as, gate, covered, distrusted);
        if way.freezes() && !place.finds_its_freezer(key.0) {
            if !covered {
                return failed;
            }
            way = Way::Gate(gate);
        }
        place.members.insert(key, Some(way));
        if !self.write_down() {
            return self.take_back(request, container, key);
        }
        if way == Way::Freeze(gate) {
            return self.settle(container, Some((request, Outcome::Held)));
        }
        match self.set_process_gate(container, key.0) {
            Ok(()) => {
                let mut happened = vec![answer(request, Outcome::Held)];
                happened.extend(self.settle(container, None));
                happened
            }
            Err(error) => {
                eprintln!("warning: could not shut the gate of process {}: {error}", key.0.pid);
                self.take_back(request, container, key)
            }
        }
    }

    /// A process's launches are seen from now on. One that was frozen for want of that is held at its gate instead, and goes on until there.
    pub(crate) fn covered(&mut self, process: Process) -> Vec<Happened> {
        let covers = self.gate.as_ref().is_some_and(|gate| gate.covers(process));
        let trusted = covers && !self.distrusted.contains(&process);
        let container = self.homes.get(&process).copied().filter(|_| trusted);
        let Some(container) = container.filter(|container| self.swap_ways(*container, process, true)) else {
            return Vec::new();
        };
        if !self.write_down() || self.set_process_gate(container, process).is_err() {
            self.swap_ways(container, process, false);
            self.write_down();
            return Vec::new();
        }
        self.settle(container, None)
    }

    /// From frozen to the gate, or back. Whether any task of the process is held in the one way.
    fn swap_ways(&mut self, container: ContainerId, process: Process, to_gate: bool) -> bool {
        let Some(place) = self.places.get_mut(&container) else { return false };
        let mut swapped = false;
        for (_, way) in place.members.iter_mut().filter(|((member, _), _)| *member == process) {
            let other = match *way {
                Some(Way::Freeze(Gate::Anywhere)) if to_gate => Way::Both(Gate::Anywhere),
                Some(Way::Freeze(gate)) if to_gate => Way::Gate(gate),
                Some(Way::Gate(gate)) if !to_gate => Way::Freeze(gate),
                _ => continue,
            };
            *way = Some(other);
            swapped = true;
        }
        swapped
    }

    /// A process has been resumed at its gate by others, again: from now on its container is frozen, too.
    pub(crate) fn distrust(&mut self, process: Process) -> Vec<Happened> {
        let container = self.homes.get(&process).copied().filter(|_| self.distrusted.insert(process));
        let Some((container, place)) = container.and_then(|c| Some((c, self.places.get_mut(&c)?))) else {
            return Vec::new();
        };
        if !place.finds_its_freezer(process) {
            return Vec::new();
        }
        for (_, way) in place.members.iter_mut().filter(|((member, _), _)| *member == process) {
            *way = way.map(|way| if let Way::Gate(gate) = way { Way::Both(gate) } else { way });
        }
        self.settle(container, None)
    }

    /// A hold that cannot be: the process is as free as before, or freer.
    fn take_back(
        &mut self,
        request: RequestId,
        container: ContainerId,
        key: (Process, GpuId),
    ) -> Vec<Happened> {
        let _ = self.free(container, key);
        let mut happened = self.settle(container, None);
        happened.push(answer(request, Outcome::Failed));
        happened
    }

    fn release(
        &mut self,
        request: RequestId,
        container: ContainerId,
        key: (Process, GpuId),
    ) -> Vec<Happened> {
        if let Err(error) = self.free(container, key) {
            eprintln!("warning: could not open the gate of process {}: {error}", key.0.pid);
            return vec![answer(request, Outcome::Failed)];
        }
        let happened = self.settle(container, Some((request, Outcome::Released)));
        self.write_down();
        happened
    }

    /// Takes a hold off a task, and opens the process's gate unless another of its tasks is held there.
    fn free(&mut self, container: ContainerId, key: (Process, GpuId)) -> io::Result<()> {
        let Some(place) = self.places.get_mut(&container) else { return Ok(()) };
        let way = place.members.get(&key).copied().flatten();
        place.members.insert(key, None);
        match way {
            Some(Way::Out) => Ok(()),
            // In doubt, it is opened: the kernel stops by itself whom nobody has held here.
            Some(_) | None => self.set_process_gate(container, key.0),
        }
    }

    /// Shuts a process's gate as far as any of its tasks asks, or opens it.
    fn set_process_gate(&mut self, container: ContainerId, process: Process) -> io::Result<()> {
        let Some(gate) = self.gate.as_mut() else { return Ok(()) };
        let wanted = self.places.get(&container).and_then(|place| place.gate_of(process));
        match wanted {
            Some(wanted) => gate.shut(process, wanted),
            // Whether it could be held there anew is another question: a shell may have become its parent while it stands.
            None => gate.open(process),
        }
    }

    /// Orders the difference between how a container should be and how it is, and answers what needs no order.
    fn settle(&mut self, container: ContainerId, asked: Option<(RequestId, Outcome)>) -> Vec<Happened> {
        let at_once = |asked: Option<(RequestId, Outcome)>| {
            asked.into_iter().map(|(request, outcome)| answer(request, outcome)).collect::<Vec<_>>()
        };
        let Some(place) = self.places.get_mut(&container) else { return at_once(asked) };
        let freeze = place.should_be_frozen();
        if place.theirs || freeze == place.will_be_frozen() {
            return match (&mut place.asked, asked) {
                (Some(under_way), Some((request, _))) if !place.theirs => {
                    under_way.requests.push(request);
                    Vec::new()
                }
                (_, asked) => at_once(asked),
            };
        }
        // Who waited for an order that is overtaken is answered: what it asked for is noted.
        let overtaken = place.asked.take().into_iter().flat_map(|asked| {
            let outcome = if asked.freeze { Outcome::Held } else { Outcome::Released };
            asked.requests.into_iter().map(move |request| answer(request, outcome))
        });
        let happened: Vec<Happened> = overtaken.collect();
        let requests = asked.into_iter().map(|(request, _)| request).collect();
        self.order(container, freeze, requests);
        happened
    }

    fn order(&mut self, container: ContainerId, freeze: bool, requests: Vec<RequestId>) {
        let Some(place) = self.places.get_mut(&container) else { return };
        let Some(freezer) = place.freezer.clone() else { return };
        self.orders += 1;
        place.asked = Some(Asked { number: self.orders, freeze, requests });
        if freeze {
            place.through_docker = self.visible && !place.theirs && !place.id.starts_with('/');
            place.pauses_awaited += u32::from(place.through_docker);
        } else {
            place.unpauses_awaited += u32::from(place.through_docker);
        }
        let through_docker = place.through_docker.then(|| place.id.clone());
        let number = self.orders;
        // Before the deed, or whoever lets go would not know of it.
        self.write_down();
        if let Some(hands) = &self.hands {
            hands.give(Order { number, container, freezer, freeze, through_docker });
        }
    }

    /// An order was carried out, or could not be. One that was overtaken says nothing.
    pub(crate) fn done(&mut self, done: Done) -> Vec<Happened> {
        let container = done.container;
        let Some(place) = self.places.get_mut(&container) else { return Vec::new() };
        let Some(asked) = place.asked.take_if(|asked| asked.number == done.number) else {
            return Vec::new();
        };
        let happened = match (asked.freeze, done.outcome) {
            (true, Ok(())) => place.froze(container, &asked.requests),
            (false, Ok(())) => place.thawed(container, &asked.requests),
            (true, Err(why)) => {
                eprintln!("warning: could not freeze container {}: {why}", place.name);
                place.could_not_be_frozen(&asked.requests)
            }
            (false, Err(why)) => {
                eprintln!("warning: could not thaw container {}: {why}", place.name);
                asked.requests.iter().map(|request| answer(*request, Outcome::Failed)).collect()
            }
        };
        self.write_down();
        if self.places.get(&container).is_some_and(Place::is_idle) {
            self.places.remove(&container);
        }
        happened
    }

    /// Lets go whom somebody names, and leaves them alone until they have no task any more. `stand`: whom the kernel stopped, with nobody's order
    /// but urgent work.
    pub(crate) fn leave_alone(
        &mut self,
        chosen: impl Fn(ContainerId) -> bool,
        stand: &[(ContainerId, Process, GpuId)],
    ) -> Vec<Happened> {
        for (number, place) in &mut self.places {
            let mut in_hand =
                self.away.values().map(|away| away.container).chain(stand.iter().map(|one| one.0));
            place.hands_off |=
                chosen(*number) && (place.holds_anything() || in_hand.any(|one| one == *number));
        }
        self.let_go_who_stands(chosen, stand)
    }

    /// Lets go everybody of these containers, whoever stopped them.
    pub(crate) fn let_go_who_stands(
        &mut self,
        chosen: impl Fn(ContainerId) -> bool,
        stand: &[(ContainerId, Process, GpuId)],
    ) -> Vec<Happened> {
        let mut happened = self.let_go(|number, _| chosen(number));
        for (_, process, gpu) in stand.iter().copied().filter(|(container, ..)| chosen(*container)) {
            let let_go = Happened::Fact(Fact::LetGo { process, gpu });
            if let Some(gate) = self.gate.as_mut().filter(|_| !happened.contains(&let_go)) {
                gate.let_launch(process);
                happened.push(let_go);
            }
        }
        happened
    }

    /// Lets go everybody whom a rule names by container and GPU.
    pub(crate) fn let_go(&mut self, chosen: impl Fn(ContainerId, GpuId) -> bool) -> Vec<Happened> {
        let mut happened = Vec::new();
        let numbers: Vec<ContainerId> = self.places.keys().copied().collect();
        for container in numbers {
            let Some(place) = self.places.get(&container) else { continue };
            let is_held = |way: &Option<Way>| way.is_some_and(|way| way != Way::Out);
            let held = place.members.iter().filter(|(key, way)| is_held(way) && chosen(container, key.1));
            let held: Vec<(Process, GpuId)> = held.map(|(key, _)| *key).collect();
            for (process, gpu) in held {
                if let Err(error) = self.free(container, (process, gpu)) {
                    eprintln!("warning: could not open the gate of process {}: {error}", process.pid);
                }
                happened.push(Happened::Fact(Fact::LetGo { process, gpu }));
            }
            happened.extend(self.settle(container, None));
        }
        self.write_down();
        happened
    }

    /// Lets everything go, and returns once that is so.
    pub(crate) fn finish(&mut self) {
        if let Some(hands) = self.hands.take() {
            hands.finish();
        }
        let processes: Vec<Process> = self.homes.keys().copied().collect();
        if let Some(gate) = &mut self.gate {
            for process in processes {
                let _ = gate.open(process);
            }
        }
        for place in self.places.values().filter(|place| !place.theirs) {
            let Some(freezer) = &place.freezer else { continue };
            let thawed = if place.through_docker {
                pause::unpause(&self.connect, &place.id, Some(freezer))
            } else {
                freezer.thaw().map_err(|error| error.to_string())
            };
            if let Err(why) = thawed {
                eprintln!("warning: could not thaw container {}: {why}", place.name);
            }
        }
        self.places.clear();
        self.write_down();
    }

    /// Writes down what is held. False if that cannot be done: then nothing may be held.
    fn write_down(&mut self) -> bool {
        let lines = self.places.values().flat_map(Place::lines).collect();
        self.held.write(lines)
    }
}

fn answer(request: RequestId, outcome: Outcome) -> Happened {
    Happened::Fact(Fact::Answer { request, outcome })
}
