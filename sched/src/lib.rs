//! The pure scheduler: facts in, actions out.
//!
//! ```text
//! Fact ─> Tracker ─> Policy ─> Action
//!            │
//!            └─> Event (started, missed, finished, …)
//! ```
//!
//! There is no clock, no I/O, no error and no dependency here. Time is an argument, outcomes come
//! back as facts, and the same code runs in the agent and in the simulator. Read the modules in the
//! order below.
#![no_std]

extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod time;

pub mod fact;

pub mod task;

pub mod forecast;

pub mod tracker;

pub mod action;

pub mod policy;

pub mod scheduler;

pub mod check;

pub mod node;

pub mod admission;

pub mod placement;

#[cfg(test)]
mod node_under_test;

pub use action::{Action, Reason};
pub use fact::{ContainerId, Fact, GpuId, Outcome, Process, Reading, RequestId, Terms};
pub use scheduler::{Scheduler, Settings};
pub use task::{Deadline, Mode, Task, TaskId};
pub use time::{Instant, Span};
pub use tracker::{Event, Finished, Tracker};
