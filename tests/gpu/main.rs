//! The simulated GPU, as CUDA programs, monitors and containers meet it. Each test has a device of its own.
//!
//! Processes of other tests share the machine's processors, so a measured time may be late: what depends on one
//! is tried a few times (see `machine::in_one_of`), and must hold once.

// The Docker tests' own, of which these need a part.
#[allow(dead_code, reason = "shared with tests/docker, which uses all of it")]
#[path = "../docker/daemon.rs"]
mod daemon;
#[expect(dead_code, reason = "the probes' tests use more of it")]
mod driver;
mod machine;

mod calls;
mod checkpoint;
mod container;
mod folder;
mod lost;
mod monitor;
mod phases;
mod sharing;
mod stopped;
mod symbols;
