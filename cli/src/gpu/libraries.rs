//! Where the simulated driver libraries are that cargo built, or a package installed, with this program.

use crate::failure::Failure;
use anyhow::{Context, Result};
use std::path::PathBuf;

/// A library: what cargo calls its file, and what programs look for.
pub(crate) struct Library {
    built: &'static str,
    pub(crate) name: &'static str,
}

/// The CUDA driver.
pub(crate) const CUDA: Library = Library { built: "libgpu_cuda.so", name: "libcuda.so.1" };
/// NVML.
pub(crate) const NVML: Library = Library { built: "libgpu_nvml.so", name: "libnvidia-ml.so.1" };

/// Where a library may be, from the folder of this program: cargo leaves those that a program depends on in
/// `deps`, and those it was asked for beside the program. An installation has them in `lib`.
const PLACES: [&str; 4] = ["deps", ".", "../lib/leeway", "../deps"];

impl Library {
    /// The library's file.
    pub(crate) fn find(&self) -> Result<PathBuf> {
        let program = std::env::current_exe().context("could not find this program's own file")?;
        let program = program.canonicalize().unwrap_or(program);
        let beside = program.parent().unwrap_or(&program);
        let found =
            PLACES.iter().map(|place| beside.join(place).join(self.built)).find(|path| path.is_file());
        let missing = || {
            let places: Vec<String> =
                PLACES.iter().map(|place| beside.join(place).display().to_string()).collect();
            Failure::new(format!("{} is in none of {}", self.built, places.join(", "))).help(
                "run the `target/release/leeway` of a checkout after `cargo build --release --workspace`, which builds it beside",
            )
        };
        found.ok_or_else(missing).map_err(Into::into)
    }
}
