//! Every type and layout that leaves a process. Keys may be added, none renamed.

pub mod bytes;
pub mod duration;
pub mod sim;
