//! The agent: every GPU task of every container of one machine, seen from outside.
//!
//! ```text
//! NVML ────┐
//! pidfd ───┼─> News ─> the owner (one thread: Scheduler, Registry) ─> events, ledger, table, API
//! Docker ──┘
//! ```
//!
//! One thread owns what is known; everything else sends to it through one bounded channel. Read the modules in the
//! order below.

pub mod config;

pub mod clock;

pub mod facts;

mod settings;

mod terms;

mod registry;

pub mod swap;

pub mod actuator;

pub mod guard;

pub mod journal;

mod commands;

mod explain;

mod owner;

pub mod link;

mod coverage;

mod views;

mod metrics;

pub mod ledger;

mod table;

mod server;

pub mod webhook;

mod notify;

pub mod doctor;

pub mod run;

pub use config::{Config, Layer};
pub use run::{Connect, Failed, run};
