//! Every type and layout that leaves a process. Keys may be added, none renamed.

pub mod agent;
pub mod bench;
pub mod bytes;
pub mod client;
pub mod cluster;
pub mod deadlines;
pub mod demo;
pub mod duration;
pub mod held;
pub mod journal;
pub mod kept;
pub mod labels;
pub mod link;
pub mod ps;
pub mod replace;
pub mod report;
pub mod sim;
pub mod swap;
pub mod table;
pub mod token;
pub mod work;
