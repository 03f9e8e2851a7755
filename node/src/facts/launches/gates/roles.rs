//! Who is urgent and who yields: what the kernel needs to know to stop somebody at an urgent launch, without asking.

use super::{GPUS_MAX, Gates, Tracked};
use crate::facts::launches::layout::{BOUNDED, GpuOrders, URGENT, YIELDS};
use sched::scheduler::Role;
use sched::{GpuId, Process};
use std::collections::BTreeSet;

impl Gates {
    /// What each process is to others on its GPU, and whether time in flight is bounded there: that is decided when all are known, or those who
    /// stand would be let go between two of them.
    pub(in crate::facts::launches) fn set_roles(
        &mut self,
        roles: impl IntoIterator<Item = (Process, (GpuId, Role))>,
    ) {
        let changed =
            roles.into_iter().filter_map(|(process, (gpu, role))| self.set_role(process, gpu, role));
        let gpus: BTreeSet<u32> = changed.flatten().collect();
        gpus.into_iter().for_each(|gpu| self.write_gpu(gpu));
    }

    /// The GPUs on which that changes something.
    fn set_role(&mut self, process: Process, gpu: GpuId, role: Role) -> Option<[u32; 2]> {
        let index = u32::from(gpu.0 % GPUS_MAX);
        let known = self.known(process).filter(|known| known.role != role || known.orders.gpu != index)?;
        let before = known.orders.gpu;
        let free = if role == Role::Urgent { self.free_bit(index, process) } else { None };
        let known = self.known(process)?;
        known.role = role;
        known.was_bounded |= role.yields();
        known.orders.gpu = index;
        known.orders.flags &= !(URGENT | YIELDS | BOUNDED);
        match role {
            Role::Plain => {}
            Role::Yields | Role::Late => known.orders.flags |= YIELDS | BOUNDED,
            Role::Urgent => {
                known.orders.urgent_bit = free.unwrap_or(0);
                known.orders.flags |= if free.is_some() { URGENT } else { 0 };
            }
        }
        if !role.yields() {
            known.stand_until(0);
        }
        let _ = self.write(process.pid);
        Some([before, index])
    }

    /// A bit for an urgent process: its own, or one that nobody has. Not one that its last owner died with, as long as there are others:
    /// until this process drains, it would look urgent.
    fn free_bit(&self, gpu: u32, process: Process) -> Option<u64> {
        let here = |known: &&Tracked| known.orders.gpu == gpu;
        let of = |own: bool| {
            let known = self.tracked.values().filter(here).filter(|known| (known.process == process) == own);
            known.fold(0, |bits, known| bits | known.orders.urgent_bit)
        };
        let (own, taken) = (of(true), of(false));
        let left_behind = self.tables.gpu_states.get(&gpu, 0).map_or(0, |state| state.urgent);
        let bits = || (0..u64::BITS).map(|bit| 1_u64 << bit);
        let free = || bits().find(|bit| (taken | left_behind) & bit == 0);
        Some(own).filter(|own| *own != 0).or_else(free).or_else(|| bits().find(|bit| taken & bit == 0))
    }

    /// Whether the kernel stops somebody by itself, when urgent work comes or so that little is in its way: of any two of these, one yields.
    pub(in crate::facts::launches) fn somebody_yields(&self) -> bool {
        let is = |role: &Role| self.tracked.values().any(|known| known.covered && known.role == *role);
        [Role::Urgent, Role::Late, Role::Yields].iter().filter(|role| is(role)).count() > 1
    }

    /// Since when urgent work is on the GPU of a process.
    pub(super) fn urgent_on(&self, process: Process) -> Option<u64> {
        let gpu = self.tracked.get(&process.pid)?.orders.gpu;
        let mask = self.urgent_bits(gpu);
        let state = self.tables.gpu_states.get(&gpu, 0).ok()?;
        (state.urgent & mask != 0).then_some(state.urgent_since)
    }

    /// The bits of the urgent processes on one GPU.
    fn urgent_bits(&self, gpu: u32) -> u64 {
        let urgent = |known: &&Tracked| known.role == Role::Urgent && known.orders.gpu == gpu;
        self.tracked.values().filter(urgent).fold(0, |bits, known| bits | known.orders.urgent_bit)
    }

    /// Time in flight is bounded while somebody with a deadline is there, or will be with its next request: what is queued meanwhile would
    /// make that late, too.
    pub(super) fn write_gpu(&mut self, gpu: u32) {
        let urgent_mask = self.urgent_bits(gpu);
        let is =
            |role: Role| self.tracked.values().any(|known| known.role == role && known.orders.gpu == gpu);
        let in_the_way = is(Role::Urgent) || is(Role::Late) && is(Role::Yields);
        let bound = if in_the_way { self.bound_ns } else { 0 };
        let before = self.tables.gpu_orders.get(&gpu, 0).unwrap_or_default();
        let _ = self.tables.gpu_orders.set(gpu, GpuOrders { urgent_mask, bound, ..before }, 0);
        self.stand_no_longer_than_needed(gpu);
    }
}
