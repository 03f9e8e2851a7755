//! What a process does when its present step is over: allocate, launch, wait, leave.

use super::process::{Proc, Step, work};
use super::{Happening, Pod, Tier, World};
use sched::task::Gate;
use sched::{ContainerId, Fact, GpuId, Process, Span};

/// How soon a start is tried again that a frozen or paused container refused.
const RETRY_START: Span = Span::from_millis(50);

impl World<'_> {
    pub(super) fn arrive(&mut self, index: usize) {
        let spec = &self.workload.tasks[index];
        let container = self.containers[index].0 as usize;
        let stands = |index: usize| self.procs[index].as_ref().is_some_and(|proc| proc.frozen || proc.paused);
        if self.procs_of(self.containers[index]).into_iter().any(stands) {
            // Nothing starts in a container that is frozen or paused; it is tried again.
            return self.after(RETRY_START, Happening::Arrival(index));
        }
        // Pids are reused on purpose: only with its start time is a process one process.
        let process = Process { pid: 100 + (index as u32 % 50), started: index as u64 };
        let proc = Proc::new(spec, process, ContainerId(container as u32), self.now);
        self.procs[index] = Some(proc);
        self.live.push(index);
        self.arrived += 1;
        let Pod { terms, paused, .. } = self.pods[container];
        self.say(&format!("{} arrives", spec.name));
        self.tell_docker(Fact::Container { container: ContainerId(container as u32), terms, paused });
        self.tell_process(index, false);
        self.walk(index);
    }

    /// The step that was under way is over; goes on as far as no time passes.
    pub(super) fn go_on(&mut self, index: usize) {
        let Some(proc) = self.procs[index].as_mut() else { return };
        if proc.step == Step::Synchronise {
            let fact = Fact::Drained { process: proc.process, gpu: GpuId(proc.gpu as u16) };
            proc.after();
            self.tell_launch(fact);
        } else {
            proc.after();
        }
        self.walk(index);
    }

    /// Walks through the steps that take no time of their own.
    pub(super) fn walk(&mut self, index: usize) {
        loop {
            let Some(proc) = self.procs[index].as_mut() else { return };
            if proc.is_still() {
                return;
            }
            let timed = matches!(proc.step, Step::Context | Step::Host | Step::Gap | Step::Think)
                || matches!(proc.step, Step::Input | Step::Output);
            match proc.step {
                _ if timed && proc.left > 0 => return,
                _ if timed => proc.after(),
                Step::Allocate => {
                    if !self.allocate(index) {
                        return;
                    }
                }
                Step::Launch => {
                    if !self.launch(index) {
                        return;
                    }
                }
                Step::Free => self.free(index),
                Step::Done => return self.exit(index),
                _ => return,
            }
        }
    }

    /// Allocates, unless the gate is shut or memory has run out. Whether the process goes on.
    fn allocate(&mut self, index: usize) -> bool {
        let now = self.now;
        let Some(proc) = self.procs[index].as_mut() else { return false };
        let (process, gpu, bytes) = (proc.process, GpuId(proc.gpu as u16), proc.memory_need);
        if proc.gate.is_some_and(|gate| gate != Gate::Launches) && !std::mem::take(&mut proc.passed) {
            proc.stopped = true;
            proc.come_to_a_stand(now);
            self.tell_launch(Fact::AtAllocation { process, gpu, bytes });
            return false;
        }
        let device = &mut self.devices[proc.gpu];
        if device.memory_used + bytes > device.memory_total {
            proc.failed = true;
            proc.out_of_memory = true;
            proc.step = Step::Done;
            let name = &self.workload.tasks[index].name;
            self.say(&format!("{name} runs out of GPU memory"));
            return true;
        }
        device.memory_used += bytes;
        proc.memory = bytes;
        proc.after();
        self.tell_memory(index);
        true
    }

    /// Queues kernels, unless the gate is shut. Whether the process goes on.
    fn launch(&mut self, index: usize) -> bool {
        let now = self.now;
        let Some(proc) = self.procs[index].as_mut() else { return false };
        let (process, gpu) = (proc.process, GpuId(proc.gpu as u16));
        if proc.gate.is_some() {
            proc.stopped = true;
            proc.come_to_a_stand(now);
            self.tell_launch(Fact::AtLaunch { process, gpu });
            return false;
        }
        let batch = proc.kernels_left.min(proc.phases.depth.max(1));
        proc.kernels_left -= batch;
        proc.in_flight += u64::from(batch) * work(proc.phases.kernel);
        proc.after();
        self.tell_launch(Fact::Submitted { process, gpu });
        true
    }

    fn free(&mut self, index: usize) {
        let Some(proc) = self.procs[index].as_mut() else { return };
        self.devices[proc.gpu].memory_used -= proc.memory;
        proc.memory = 0;
        proc.step = Step::Done;
        self.tell_memory(index);
    }

    /// The process is gone, however it went: what it had is given back, and the kernel says so.
    pub(super) fn exit(&mut self, index: usize) {
        let now = self.now;
        let Some(proc) = self.procs[index].as_mut().filter(|proc| proc.ended.is_none()) else { return };
        self.devices[proc.gpu].memory_used -= proc.memory;
        proc.memory = 0;
        proc.in_flight = 0;
        proc.step = Step::Done;
        proc.ended = Some(now);
        proc.go_on(now);
        let (process, container, failed, started) = (proc.process, proc.container, proc.failed, proc.started);
        self.live.retain(|live| *live != index);
        let spec = &self.workload.tasks[index];
        let turnaround = now.since(started);
        let float = spec.deadline.map(|deadline| deadline - turnaround);
        let how = match float {
            _ if failed => "fails".to_owned(),
            Some(float) if float < sched::Span::ZERO => format!("done, {} late", -float),
            Some(float) => format!("done, {float} float"),
            None => "done".to_owned(),
        };
        self.say(&format!("{} {how}", spec.name));
        self.tell_agent(Fact::ProcessGone(process));
        let pod = &mut self.pods[container.0 as usize];
        pod.tasks_left -= 1;
        if pod.tasks_left == 0 {
            pod.gone = true;
            self.tell_docker(Fact::ContainerGone(container));
        }
    }

    pub(super) fn kill(&mut self, index: usize) {
        if let Some(proc) = self.procs[index].as_mut().filter(|proc| proc.ended.is_none()) {
            proc.failed = true;
            self.exit(index);
        }
    }

    pub(super) fn tell_memory(&mut self, index: usize) {
        let Some(proc) = self.procs[index].as_ref() else { return };
        let fact = Fact::Memory { process: proc.process, gpu: GpuId(proc.gpu as u16), bytes: proc.memory };
        self.tell_agent(fact);
    }

    /// A process shows: at once where its calls are seen, late where NVML must list it.
    pub(super) fn tell_process(&mut self, index: usize, approximate: bool) {
        let Some(proc) = self.procs[index].as_ref() else { return };
        let gate = self.setup.tier == Tier::Gate;
        let fact = Fact::Process {
            process: proc.process,
            container: Some(proc.container),
            gpu: GpuId(proc.gpu as u16),
            launches_seen: gate,
            approximate,
        };
        if gate || approximate {
            self.tell_agent(fact);
        } else {
            self.tell_agent_late(fact, self.setup.costs.sight_delay);
        }
    }

    /// Launches are seen only where there are probes.
    fn tell_launch(&mut self, fact: Fact) {
        if self.setup.tier == Tier::Gate {
            let late = self.setup.faults.crosses(self.now);
            self.tell_agent_delayed(fact, late);
        }
    }
}
