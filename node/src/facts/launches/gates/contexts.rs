//! Who makes its first context, and who waits to: the turnstile, and those who stand before it.

use super::{Gates, Stand};
use crate::facts::launches::layout::{SHUT_CONTEXT, kind};

impl Gates {
    /// A process was stopped before its first context. One that was let in meanwhile goes on: it may have asked with two threads.
    pub(super) fn comes_to_its_context(&mut self, pid: u32) {
        let Some(known) = self.tracked.get_mut(&pid) else { return };
        known.stands = Some(Stand::Context);
        if known.orders.flags & SHUT_CONTEXT == 0 {
            let _ = self.resume(pid);
        } else {
            self.contexts.comes(pid, known.due_us);
        }
    }

    /// A process has its first context. Another of its threads may stand before one.
    pub(in crate::facts::launches) fn has_context(&mut self, pid: u32) {
        self.contexts.is_through(pid);
        self.open_context(pid);
    }

    /// Whether a process has made a context since it last called `cuInit`, for all the kernel knows: word of it may be on its way, or was dropped.
    pub(in crate::facts::launches) fn has_made_a_context(&self, pid: u32) -> bool {
        let told = |kind: u32| self.tables.told.get(&[pid, kind], 0).ok();
        told(kind::CONTEXT).is_some_and(|context| told(kind::INIT).is_none_or(|init| context >= init))
    }

    /// Lets those go on whose turn it is to make a context.
    pub(super) fn let_in(&mut self, now_ns: u64) {
        while let Some(pid) = self.contexts.next(now_ns) {
            self.open_context(pid);
        }
    }

    /// Lets everybody make its context at once.
    pub(in crate::facts::launches) fn let_all_in(&mut self) {
        let pids: Vec<u32> = self.tracked.keys().copied().collect();
        pids.into_iter().for_each(|pid| self.has_context(pid));
    }

    /// Whether somebody stands before its context, or will.
    pub(in crate::facts::launches) fn keeps_somebody_waiting(&self) -> bool {
        self.tracked.values().any(|known| known.orders.flags & SHUT_CONTEXT != 0)
    }

    fn open_context(&mut self, pid: u32) {
        let Some(known) = self.tracked.get_mut(&pid) else { return };
        let shut = known.orders.flags & SHUT_CONTEXT != 0;
        let stands = known.stands == Some(Stand::Context);
        known.orders.flags &= !SHUT_CONTEXT;
        if shut {
            let _ = self.write(pid);
        }
        if stands {
            let _ = self.resume(pid);
        }
    }
}
