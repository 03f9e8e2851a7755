//! The agent against real Docker containers on a simulated GPU: what it records is what the programs and their parents saw.

#[path = "../docker/daemon.rs"]
#[expect(dead_code, reason = "the Docker tests use more of it")]
mod daemon;

mod copy;
mod running;
mod scene;

/// These are about polling, which every machine can do; `tests/probes` is about the other way.
const CONFIG: &str = "probes = \"off\"\n";

mod cost;
mod faults;
mod forks;
mod restarts;
mod tracking;
