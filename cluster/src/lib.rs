//! The master: who can take another container, and where a new one goes.
pub mod certificates;

pub mod store;
