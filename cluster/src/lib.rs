//! The master: who can take another container, and where a new one goes.
//!
//! ```text
//! agents ─> door (TLS) ─> service (gRPC) ─> book (node list) ─> placing ─> engine (swarm)
//!                                              ^                   ^
//!                                     store (who may report)    server (the API)
//! ```
//!
//! Everything that agents told is soft state: a master that starts anew hears it again within a heartbeat. What must last is
//! in the engine's own store. Read the modules in the order below.

pub mod certificates;

pub mod store;

mod clock;

mod complaints;

mod meter;

mod book;

mod master;

mod service;

mod door;

mod placing;

mod engine;

mod moving;

mod live;

mod server;

pub mod run;

pub use clock::wall_now_us;
pub use run::{Config, Failed, run};
