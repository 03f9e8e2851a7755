//! Swapping, step by step: written down, locked, made to run, moved; and back.
//!
//! A move lasts: what is under way is a state here, and each step is ordered when the one before is done. A process that is stopped or
//! frozen cannot be moved, for it takes part; once it is locked it may run, for then it cannot reach the GPU. So it is locked
//! first and let go then.

use super::place::Way;
use super::swapper::{Moved, SwapOrder, What};
use super::{Actuator, Happened, answer};
use crate::swap::mover::Why;
use sched::task::Gate;
use sched::{ContainerId, Fact, GpuId, Outcome, Process, RequestId};
use wire::swap::{self, SwappedLine};

/// One process whose memory is out, or on its way.
#[derive(Debug)]
pub(super) struct Away {
    pub(super) container: ContainerId,
    /// What the file says of it.
    line: SwappedLine,
    /// Who waits for an answer.
    request: Option<RequestId>,
    stage: Stage,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Nothing was done to it yet.
    Locking,
    Leaving,
    Out,
    Returning,
}

impl Actuator {
    /// Whether a container has a process whose memory is out.
    pub(crate) fn has_swapped(&self, container: ContainerId) -> bool {
        let left = |stage: Stage| matches!(stage, Stage::Out | Stage::Returning);
        self.away.values().any(|away| away.container == container && left(away.stage))
    }

    /// Whether anybody's memory is out, or on its way.
    pub(crate) fn has_somebody_out(&self) -> bool {
        !self.away.is_empty() || !self.left.is_empty()
    }

    /// Begins to take a process's memory off the GPU.
    pub(super) fn swap_out(
        &mut self,
        request: RequestId,
        container: ContainerId,
        process: Process,
    ) -> Vec<Happened> {
        if let Some(away) = self.away.get_mut(&process) {
            // It uses several GPUs, or is asked again.
            away.request = Some(request);
            let out = away.stage == Stage::Out;
            return if out { self.tell_that_it_is_out(process) } else { Vec::new() };
        }
        let place = self.places.get(&container).filter(|place| !place.hands_off && !place.theirs);
        let place = place.filter(|place| !place.unswappable && self.guarded && self.swapper.is_some());
        let Some(place) = place else { return vec![answer(request, Outcome::Failed)] };
        let (id, name) = (place.id.clone(), place.name.clone());
        let line = SwappedLine {
            container: id,
            name,
            pid: process.pid,
            started: process.started,
            rooms: Vec::new(),
        };
        let request = Some(request);
        self.away.insert(process, Away { container, line, request, stage: Stage::Locking });
        // Before the deed, or whoever finds it locked would not know of it.
        if !self.write_down_the_away() {
            return self.stays(process, &Why::Refused("it cannot be written down".to_owned()));
        }
        self.order_swap(SwapOrder::Lock(process));
        Vec::new()
    }

    /// Begins to bring it back. Who `asks` is held at its next allocation by then, if it can be.
    pub(super) fn swap_in(&mut self, request: RequestId, key: (Process, GpuId), asks: bool) -> Vec<Happened> {
        let (process, gpu) = key;
        let Some(away) = self.away.get_mut(&process) else {
            return vec![Happened::Fact(Fact::SwappedIn { process, gpu, asks: false })];
        };
        away.request = Some(request);
        if away.stage != Stage::Out {
            return Vec::new();
        }
        away.stage = Stage::Returning;
        let (container, rooms) = (away.container, away.line.rooms.clone());
        // Its container may be frozen for others, and it must run to take part.
        let mut happened = self.set_ways(container, process, None);
        self.set_moves(process, true);
        if asks && self.may_be_held_at_its_gate(container, process) {
            happened.extend(self.set_ways(container, process, Some(Way::Returning)));
            if !self.write_down() || self.set_process_gate(container, process).is_err() {
                happened.extend(self.set_ways(container, process, None));
            }
        }
        self.order_swap(SwapOrder::Back(process, rooms));
        happened
    }

    fn may_be_held_at_its_gate(&self, container: ContainerId, process: Process) -> bool {
        let ours = self.places.get(&container).is_some_and(|place| !place.hands_off && !place.theirs);
        let covered = self.gate.as_ref().is_some_and(|gate| gate.covers(process));
        ours && covered && self.guarded && !self.distrusted.contains(&process)
    }

    fn set_moves(&mut self, process: Process, moves: bool) {
        if let Some(gate) = &mut self.gate {
            gate.set_moves(process, moves);
        }
    }

    /// A step is done, or could not be.
    pub(crate) fn moved(&mut self, Moved { process, what }: Moved) -> Vec<Happened> {
        let stage = self.away.get(&process).map(|away| away.stage);
        self.set_moves(process, false);
        match (what, stage) {
            (What::Locked(rooms), Some(Stage::Locking)) => self.locked(process, rooms),
            (What::Out, Some(Stage::Leaving)) => self.is_out(process),
            (What::Back, Some(_)) => self.is_back(process),
            (What::Failed(Why::Gone), _) => self.forget_the_away(process),
            (What::Failed(why @ Why::Lost(_)), Some(_)) => self.is_lost(process, &why),
            (What::Failed(why), Some(Stage::Locking | Stage::Leaving)) => self.stays(process, &why),
            (What::Failed(why), Some(Stage::Returning)) => self.stays_out(process, &why),
            // It left before anybody heard that it was locked, or what was out is where it was.
            (What::Locked(rooms), None) => {
                self.order_swap(SwapOrder::Back(process, rooms));
                Vec::new()
            }
            (What::Failed(why), None) if !matches!(why, Why::Lost(_)) => {
                // It stays in the file, for whoever comes next.
                eprintln!(
                    "warning: process {} was left swapped out by an earlier agent: {}",
                    process.pid,
                    why.words()
                );
                Vec::new()
            }
            (What::Back | What::Failed(_), None) => {
                self.left.retain(|line| (line.pid, line.started) != (process.pid, process.started));
                self.write_down_the_away();
                Vec::new()
            }
            _ => Vec::new(),
        }
    }

    /// It cannot reach the GPU: so it may run, and must.
    fn locked(&mut self, process: Process, rooms: Vec<swap::Room>) -> Vec<Happened> {
        let Some(away) = self.away.get_mut(&process) else { return Vec::new() };
        away.line.rooms.clone_from(&rooms);
        away.stage = Stage::Leaving;
        let container = away.container;
        let happened = self.set_ways(container, process, None);
        self.set_moves(process, true);
        // What must be free to bring it back is written down before it leaves.
        let order = if self.write_down_the_away() {
            SwapOrder::Take(process, rooms)
        } else {
            SwapOrder::Back(process, rooms)
        };
        self.order_swap(order);
        happened
    }

    fn is_out(&mut self, process: Process) -> Vec<Happened> {
        let Some(away) = self.away.get_mut(&process) else { return Vec::new() };
        away.stage = Stage::Out;
        away.request = None;
        let container = away.container;
        let mut happened = self.set_ways(container, process, Some(Way::Out));
        happened.extend(self.tell_that_it_is_out(process));
        happened
    }

    fn is_back(&mut self, process: Process) -> Vec<Happened> {
        let Some(away) = self.away.remove(&process) else { return Vec::new() };
        self.write_down_the_away();
        let failed = away.request.filter(|_| matches!(away.stage, Stage::Locking | Stage::Leaving));
        let mut happened: Vec<Happened> =
            failed.into_iter().map(|request| answer(request, Outcome::Failed)).collect();
        let asks = self.is_held_from_now_on(away.container, process);
        happened.extend(if asks {
            self.settle(away.container, None)
        } else {
            self.set_ways(away.container, process, None)
        });
        let gpus = self.gpus_of(away.container, process);
        let facts = gpus.into_iter().map(|gpu| Happened::Fact(Fact::SwappedIn { process, gpu, asks }));
        happened.extend(facts);
        happened
    }

    /// Who is back stops at its next allocation, if its gate was shut for that when it was let in. Whether it was.
    fn is_held_from_now_on(&mut self, container: ContainerId, process: Process) -> bool {
        let members = self.places.get_mut(&container).into_iter().flat_map(|place| &mut place.members);
        let mut returned = false;
        for (_, way) in members.filter(|((member, _), _)| *member == process) {
            if *way == Some(Way::Returning) {
                *way = Some(Way::Gate(Gate::Allocations));
                returned = true;
            }
        }
        // Its probes may have left meanwhile, and its gate with them.
        returned && self.set_process_gate(container, process).is_ok()
    }

    /// It could not leave, and people are told once. Before it was locked nothing was done to it, and it is held as it was; else nobody holds it any more.
    fn stays(&mut self, process: Process, why: &Why) -> Vec<Happened> {
        let Some(away) = self.away.remove(&process) else { return Vec::new() };
        self.write_down_the_away();
        let mut happened: Vec<Happened> =
            away.request.map(|request| answer(request, Outcome::Failed)).into_iter().collect();
        if away.stage != Stage::Locking {
            happened.extend(self.set_ways(away.container, process, None));
            let gpus = self.gpus_of(away.container, process).into_iter();
            happened.extend(gpus.map(|gpu| Happened::Fact(Fact::LetGo { process, gpu })));
        }
        if let Some(place) = self.places.get_mut(&away.container).filter(|place| !place.unswappable) {
            place.unswappable = true;
            eprintln!(
                "warning: container {} cannot be swapped out, and is held instead: {}",
                place.name,
                why.words()
            );
            happened.push(Happened::Unswappable(away.container, why.words().to_owned()));
        }
        happened
    }

    /// It could not come back yet: whoever decides tries again.
    fn stays_out(&mut self, process: Process, why: &Why) -> Vec<Happened> {
        let Some(away) = self.away.get_mut(&process) else { return Vec::new() };
        away.stage = Stage::Out;
        let (container, request) = (away.container, away.request.take());
        if !matches!(why, Why::NoRoom(_)) {
            eprintln!("warning: container {} could not be brought back yet: {}", away.line.name, why.words());
        }
        let mut happened = self.set_ways(container, process, Some(Way::Out));
        happened.extend(request.map(|request| answer(request, Outcome::Failed)));
        happened
    }

    /// The driver has given it up: it is nowhere, and its next call fails. It is not ours to keep.
    fn is_lost(&mut self, process: Process, why: &Why) -> Vec<Happened> {
        let container = self.away.get(&process).map(|away| (away.container, away.line.name.clone()));
        let mut happened = self.is_back(process);
        if let Some((container, name)) = container {
            eprintln!("error: container {name} lost its GPU memory: {}", why.words());
            happened.push(Happened::Unswappable(container, why.words().to_owned()));
        }
        happened
    }

    fn tell_that_it_is_out(&self, process: Process) -> Vec<Happened> {
        let Some(away) = self.away.get(&process) else { return Vec::new() };
        let bytes_on = |gpu: GpuId| {
            away.line.rooms.iter().filter(|(on, _)| *on == gpu.0).map(|(_, bytes)| *bytes).sum::<u64>()
        };
        let gpus = self.gpus_of(away.container, process);
        let facts = gpus.into_iter().map(|gpu| Fact::SwappedOut { process, gpu, bytes: bytes_on(gpu) });
        facts.map(Happened::Fact).collect()
    }

    fn gpus_of(&self, container: ContainerId, process: Process) -> Vec<GpuId> {
        let members = self.places.get(&container).into_iter().flat_map(|place| place.members.keys());
        members.filter(|(member, _)| *member == process).map(|(_, gpu)| *gpu).collect()
    }

    /// Notes for all tasks of a process how they are kept, opens its gate, and settles its container.
    fn set_ways(&mut self, container: ContainerId, process: Process, way: Option<Way>) -> Vec<Happened> {
        for gpu in self.gpus_of(container, process) {
            if let Err(error) = self.free(container, (process, gpu)) {
                eprintln!("warning: could not open the gate of process {}: {error}", process.pid);
            }
            if let Some(place) = self.places.get_mut(&container) {
                place.members.insert((process, gpu), way);
            }
        }
        let happened = self.settle(container, None);
        self.write_down();
        happened
    }

    /// A process is gone, and with it what was out.
    pub(super) fn forget_the_away(&mut self, process: Process) -> Vec<Happened> {
        let known = self.away.remove(&process).is_some();
        let count = self.left.len();
        self.left.retain(|line| (line.pid, line.started) != (process.pid, process.started));
        if known || self.left.len() != count {
            self.write_down_the_away();
        }
        Vec::new()
    }

    pub(super) fn forget_the_away_of(&mut self, container: ContainerId) {
        let count = self.away.len();
        self.away.retain(|_, away| away.container != container);
        if self.away.len() != count {
            self.write_down_the_away();
        }
    }

    /// Looks for what an earlier agent left out. Until that is known it stays in the file.
    pub(crate) fn find_what_was_left(&mut self) {
        let known =
            |line: &SwappedLine| self.away.contains_key(&Process { pid: line.pid, started: line.started });
        let mut lines = swap::read(&self.run_dir);
        lines.retain(|line| !known(line));
        self.left.clone_from(&lines);
        lines.into_iter().for_each(|line| self.order_swap(SwapOrder::Find(line)));
    }

    /// The guard let everything go while we were silent: it may have brought somebody back.
    pub(crate) fn look_after_the_away(&self) {
        let out = self.away.values().filter(|away| away.stage == Stage::Out);
        out.for_each(|away| self.order_swap(SwapOrder::Find(away.line.clone())));
    }

    /// Something that an earlier agent left out, in a container that is known by now.
    pub(crate) fn adopt(&mut self, line: SwappedLine) -> Vec<Happened> {
        let process = Process { pid: line.pid, started: line.started };
        let Some(container) = self.homes.get(&process).copied().filter(|_| !self.away.contains_key(&process))
        else {
            return Vec::new();
        };
        eprintln!("notice: container {} was left swapped out by an earlier agent, and comes back", line.name);
        self.left.retain(|left| *left != line);
        self.away.insert(process, Away { container, line, request: None, stage: Stage::Out });
        let mut happened = self.set_ways(container, process, Some(Way::Out));
        happened.extend(self.tell_that_it_is_out(process));
        happened
    }

    fn order_swap(&self, order: SwapOrder) {
        if let Some(swapper) = &self.swapper {
            swapper.give(order);
        }
    }

    /// Writes down what is out, or about to be. False if that cannot be done: then nobody may leave.
    fn write_down_the_away(&self) -> bool {
        let lines: Vec<SwappedLine> =
            self.left.iter().chain(self.away.values().map(|away| &away.line)).cloned().collect();
        let written = swap::write(&self.run_dir, &lines);
        if let Err(error) = &written {
            let file = self.run_dir.join(swap::FILE);
            eprintln!("warning: nobody is swapped out while {} cannot be written: {error}", file.display());
        }
        written.is_ok()
    }
}
