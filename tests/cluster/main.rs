//! The cluster with real parts: TLS, gRPC, masters and agents as processes. Those with Docker's swarm are in `tests/swarm`.

mod hall;
mod leaving;
#[path = "../agent/running.rs"]
mod running;
mod security;
#[allow(dead_code, reason = "shared with tests/seeing; each uses its part")]
#[path = "../seeing/tmux.rs"]
mod tmux;
mod views;
