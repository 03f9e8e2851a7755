//! Which policy runs, and what happens when deciding fails.

use super::Owner;
use crate::clock;
use sched::{GpuId, Instant};

/// How often deciding may fail before the agent gives up: its guard lets go, and whoever started it starts it again.
const FAILURES_MAX: u32 = 10;

impl Owner {
    /// The scheduler failed, which it must not: everything on that GPU is let go, or on all of them, and left alone from now on.
    pub(super) fn fall_back(&mut self, gpu: Option<GpuId>) {
        self.failures += 1;
        let which = gpu.map_or_else(|| "every GPU".to_owned(), |gpu| format!("GPU {}", gpu.0));
        eprintln!("error: deciding failed: everything on {which} is let go, and policy none runs there");
        for (at, fact) in &self.facts {
            eprintln!("error: before that, at {} µs: {fact:?}", at.since(Instant::ZERO).as_micros());
        }
        self.facts.clear();
        if self.failures > FAILURES_MAX {
            eprintln!("error: deciding failed {FAILURES_MAX} times: the agent gives up");
            std::process::abort();
        }
        self.run_policy("none", gpu);
        let now = clock::now();
        let happened = self.actuator.let_go(|_, on| gpu.is_none_or(|gpu| gpu == on));
        self.note(now, happened);
    }

    /// Runs another policy on every GPU. Where nothing can be held that is `none`.
    pub(crate) fn set_policy(&mut self, name: &str) {
        match self.cannot_hold {
            Some(why) if name != "none" => {
                eprintln!("notice: policy none runs instead of {name}: nothing can be held, for {why}");
                self.run_policy("none", None);
            }
            _ => self.run_policy(name, None),
        }
    }

    /// Runs another policy from now on, on one GPU or on all.
    pub(crate) fn run_policy(&mut self, name: &str, gpu: Option<GpuId>) {
        let Some(policy) = sched::policy::by_name(name) else { return };
        let now = clock::now();
        match gpu {
            Some(gpu) => self.scheduler.set_policy(now, gpu, policy),
            None => {
                self.scheduler.set_every_policy(now, policy);
                name.clone_into(&mut self.policy);
            }
        }
        self.probed.stale = true;
        if let Some(journal) = &mut self.journal {
            journal.policy(now, gpu, name);
        }
    }
}
