//! Holding, in real Docker containers on a simulated GPU: who waits for whom, and that nobody is ever left standing.

#[path = "../docker/daemon.rs"]
#[expect(dead_code, reason = "the Docker tests use more of it")]
mod daemon;

#[path = "../agent/running.rs"]
mod running;
#[path = "../agent/scene.rs"]
#[expect(dead_code, reason = "the agent's tests use more of it")]
mod scene;

mod stand;

/// These are about freezing, which every process can be held by; `tests/probes` is about the launch gate.
const CONFIG: &str = "probes = \"off\"\n";

mod faults;
mod living;
mod memory;
mod order;
mod version2;
mod words;
