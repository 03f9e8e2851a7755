//! The simulated GPU's folder: what `leeway gpu simulate` puts there, and how a container gets it.

pub mod elf;
pub mod folder;
pub mod libraries;
pub mod options;
pub mod program;
