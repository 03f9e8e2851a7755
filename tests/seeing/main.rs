//! What people and programs see of a running agent: metrics, events, traces, the terminal view.
//!
//! Against a real agent on a simulated GPU; containers are plain cgroups with labels.

#[path = "../agent/running.rs"]
mod running;
#[allow(dead_code, reason = "shared with tests/browser; each uses its part")]
mod scene;

mod metrics;
mod terminal;
mod tmux;
mod told;
