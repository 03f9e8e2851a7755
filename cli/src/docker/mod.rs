//! Docker, from both sides: its command line, which `leeway run` stands in front of, and its Engine API.

pub mod globals;
pub mod words;

pub mod exec;
pub mod options;
pub mod relay;

pub(crate) mod service;

pub mod client;
pub mod containers;
pub mod endpoint;
pub mod making;
