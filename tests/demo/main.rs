//! The tour, as it is shown on every ground, and as it ends.
//!
//! Each test has a folder for temporary files of its own, so that what a show leaves behind is seen.

// The Docker tests' own, of which these need a part.
#[allow(dead_code, reason = "shared with tests/docker, which uses all of it")]
#[path = "../docker/daemon.rs"]
mod daemon;

#[path = "../agent/copy.rs"]
mod copy;
mod theatre;

mod endings;
mod shows;
mod terminal;
