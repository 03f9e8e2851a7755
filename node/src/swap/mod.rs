//! Swapping: a process's GPU memory to host memory and back, by the driver's own calls.
//!
//! The driver does it from outside, on a process that knows nothing of it: lock, checkpoint; restore, unlock. A locked process waits
//! inside its next call of the driver, so it need not be frozen: whoever looks after it, a health check or `docker exec`, meets
//! it alive. The calls take seconds and can hang, so a process of its own makes them (`caller`, the helper), and whoever wants something moved
//! (`mover`) waits for it for so long and no longer. What is swapped out stands in a file: the agent, its guard and a person can each bring it
//! back.

pub mod caller;
mod driver;
pub mod mover;
pub mod returning;

use std::io;
use std::process::Command;
use std::sync::Arc;

/// How to start the helper: this program once more; the caller knows the words.
pub type Spawn = Arc<dyn Fn() -> io::Result<Command> + Send + Sync>;
