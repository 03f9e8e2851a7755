//! A made-up world from one seed: GPUs, containers and faults, around the real scheduler.
//!
//! ```text
//! Workload ─> World ─ facts ─> sched ─ actions ─> World ─> Outcome
//!               ^                                   │
//!               └──────────── Faults ───────────────┘
//! ```

pub mod luck;

pub mod workload;

pub mod fault;

pub mod world;

pub mod outcome;

pub mod bound;

pub mod scenario;

pub mod cluster;
