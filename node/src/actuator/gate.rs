//! The launch gate: the process is stopped by the kernel at its next launch, before the launch reaches the GPU.

use super::is_under_a_shell;
use crate::facts::launches::Launches;
use sched::Process;
use sched::task::Gate;
use std::io;

/// Holds a process at its next launch or allocation, before it reaches the GPU.
pub trait LaunchGate: Send {
    /// Whether this process's launches are seen on this GPU, so that it can be held there.
    fn covers(&self, process: Process) -> bool;
    /// From the return of this call on, the process stops at its next launch (or allocation).
    fn shut(&mut self, process: Process, gate: Gate) -> io::Result<()>;
    /// Lets the process make the allocation it stands at; the gate stays shut.
    fn pass(&mut self, process: Process) -> io::Result<()>;
    /// While the process's memory is moved it runs, whatever else is on the GPU: it must, and cannot get there before that is done. Its gate opens
    /// with the beginning.
    fn set_moves(&mut self, process: Process, moves: bool);
    /// Opens the gate, and lets the process launch whatever else is on the GPU.
    fn let_launch(&mut self, process: Process);
    /// Lets the process through, and lets it run if it stands at the gate. Of one that is not seen there nothing is to be done.
    fn open(&mut self, process: Process) -> io::Result<()>;
}

impl LaunchGate for Launches {
    /// A program that a shell watches is not stopped alone: the shell would take it for the user's doing.
    fn covers(&self, process: Process) -> bool {
        Launches::covers(self, process) && !is_under_a_shell(process)
    }

    fn shut(&mut self, process: Process, gate: Gate) -> io::Result<()> {
        Launches::shut(self, process, gate)
    }

    fn set_moves(&mut self, process: Process, moves: bool) {
        Launches::set_moves(self, process, moves);
    }

    fn let_launch(&mut self, process: Process) {
        Launches::let_launch(self, process);
    }

    fn pass(&mut self, process: Process) -> io::Result<()> {
        Launches::pass(self, process)
    }

    fn open(&mut self, process: Process) -> io::Result<()> {
        Launches::open(self, process)
    }
}
