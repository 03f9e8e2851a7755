//! The launch gate: the process is stopped by the kernel at its next launch, before the launch reaches the GPU.

use super::{LaunchGate, is_under_a_shell};
use crate::facts::launches::Launches;
use sched::Process;
use sched::task::Gate;
use std::io;

impl LaunchGate for Launches {
    /// A program that a shell watches is not stopped alone: the shell would take it for the user's doing.
    fn covers(&self, process: Process) -> bool {
        Launches::covers(self, process) && !is_under_a_shell(process)
    }

    fn shut(&mut self, process: Process, gate: Gate) -> io::Result<()> {
        Launches::shut(self, process, gate)
    }

    fn let_run(&mut self, process: Process) {
        Launches::let_run(self, process);
    }

    fn pass(&mut self, process: Process) -> io::Result<()> {
        Launches::pass(self, process)
    }

    fn open(&mut self, process: Process) -> io::Result<()> {
        Launches::open(self, process)
    }
}
