//! The simulated GPU's folder: what `leeway gpu simulate` puts there, and how a container gets it; and how one gets a real GPU.

pub mod elf;
pub mod folder;
pub mod host;
pub mod libraries;
pub mod options;
pub mod program;
