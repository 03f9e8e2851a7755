//! This program, made to run in any container: with its own loader and libraries, whatever the image has.
//!
//! An image may have no C library, or one that is older than ours, and must keep the one it has. So the copy asks
//! for a loader in the device's folder, and has been linked to look for its libraries there first.

use super::elf;
use crate::failure::Failure;
use anyhow::{Context, Result};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The folder of the loader and the libraries, in the device's folder. `build.rs` has it, too.
pub(crate) const LIBRARIES: &str = "lib";
/// The loader's file there.
const LOADER: &str = "ld.so";

/// A program, ready to be copied.
pub(crate) struct Program {
    /// The program itself, asking for the loader in the container.
    pub(crate) file: Vec<u8>,
    /// Each library: its name for the loader, and its file on this machine.
    pub(crate) libraries: Vec<(String, PathBuf)>,
    /// Where this machine's C library is: NVIDIA's container toolkit puts the driver's libraries there.
    pub(crate) system: PathBuf,
}

impl Program {
    /// This program.
    pub(crate) fn of_this_process() -> Result<Self> {
        let path = std::env::current_exe().context("could not find this program's own file")?;
        let mut file = std::fs::read(&path).with_context(|| format!("could not read {}", path.display()))?;
        let loader = elf::loader(&file).map(PathBuf::from);
        let loader = loader.ok_or_else(|| Failure::new(format!("{} has no loader", path.display())))?;
        let mut libraries = libraries(&loader, &path)?;
        let system = libraries.iter().find(|(name, _)| name.starts_with("libc.so"));
        let system = system.and_then(|(_, path)| path.parent()).unwrap_or(Path::new("/usr/lib"));
        let system = system.strip_prefix("/usr").unwrap_or(system);
        let system = Path::new("/usr").join(system.strip_prefix("/").unwrap_or(system));
        let inside = format!("{}/{LIBRARIES}/{LOADER}", ::gpu::FOLDER_IN_CONTAINER);
        elf::set_loader(&mut file, &inside)
            .ok_or_else(|| Failure::new(format!("{} has no room for the loader {inside}", path.display())))?;
        libraries.push((LOADER.to_owned(), loader));
        Ok(Self { file, libraries, system })
    }
}

/// What a loader would load for a program, as it says itself: `libm.so.6 => /lib/…/libm.so.6 (0x…)`.
fn libraries(loader: &Path, program: &Path) -> Result<Vec<(String, PathBuf)>> {
    let doing = || format!("could not ask {} for the libraries of {}", loader.display(), program.display());
    let listed = Command::new(loader).arg("--list").arg(program).output().with_context(doing)?;
    let text = String::from_utf8_lossy(&listed.stdout);
    let found = text.lines().filter_map(|line| {
        let (name, rest) = line.trim().split_once(" => ")?;
        let path = rest.rsplit_once(" (").map_or(rest, |(path, _)| path);
        (!name.contains('/')).then(|| (name.to_owned(), PathBuf::from(path)))
    });
    Ok(found.collect())
}
