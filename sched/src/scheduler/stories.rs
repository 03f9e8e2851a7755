//! Stories about the scheduler.
