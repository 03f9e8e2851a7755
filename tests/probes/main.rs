//! The probes and the launch gate, in real Docker containers on a simulated GPU: what is seen is what the programs themselves wrote
//! down, nothing passes a gate that is shut, and nobody is left standing.
//!
//! The figures that `--nocapture` shows are those of the machine; what is asserted leaves room for one with other work to do.

#[path = "../docker/daemon.rs"]
#[expect(dead_code, reason = "the Docker tests use more of it")]
mod daemon;

#[path = "../agent/running.rs"]
mod running;
#[path = "../agent/scene.rs"]
#[expect(dead_code, reason = "the agent's tests use more of it")]
mod scene;

#[path = "../agent/copy.rs"]
mod copy;

/// As the agent is by default.
const CONFIG: &str = "";

mod errors;
mod stand;

mod contexts;
mod times;

mod requests;

mod gate;
mod hostile;
mod leaks;

mod lives;
mod own_library;

#[path = "../gpu/driver.rs"]
#[expect(dead_code, reason = "the GPU's own tests use more of it")]
mod driver;
mod program;
mod streams;

mod compiled;
mod fallback;

mod version_2;
