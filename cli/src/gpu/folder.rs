//! The device's folder: the simulated libraries, the device's socket, and this program for containers.

use super::libraries::{CUDA, NVML};
use super::program::{LIBRARIES, Program};
use anyhow::{Context, Result};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// This program's copy in the folder.
pub(crate) const PROGRAM: &str = "leeway";

/// The folder while the device runs. What was put there goes with it.
pub(crate) struct Folder {
    path: PathBuf,
    /// Whether it was made by us, and is ours to remove.
    made: bool,
    files: Vec<PathBuf>,
}

impl Folder {
    /// The folder, made where it is missing.
    pub(crate) fn open(path: &Path) -> Result<Self> {
        let made = !path.exists();
        let doing = || format!("could not make the folder {}", path.display());
        fs::create_dir_all(path).with_context(doing)?;
        let path = path.canonicalize().with_context(doing)?;
        Ok(Self { path, made, files: Vec::new() })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Puts the libraries and the program there.
    pub(crate) fn fill(&mut self) -> Result<()> {
        for library in [CUDA, NVML] {
            let found = library.find()?;
            let contents = read(&found)?;
            self.put(Path::new(library.name), &contents)?;
        }
        let program = Program::of_this_process()?;
        self.put(Path::new(PROGRAM), &program.file)?;
        fs::create_dir_all(self.path.join(LIBRARIES)).context("could not make a folder for libraries")?;
        for (name, path) in &program.libraries {
            self.put(&Path::new(LIBRARIES).join(name), &read(path)?)?;
        }
        Ok(())
    }

    /// A file that is there with the same contents is kept: containers may have it mounted, and probes sit on it.
    /// Any other is replaced, never written over: who has it mapped keeps the old one.
    fn put(&mut self, name: &Path, contents: &[u8]) -> Result<()> {
        let path = self.path.join(name);
        self.files.push(path.clone());
        if fs::read(&path).is_ok_and(|there| there == contents) {
            return Ok(());
        }
        let doing = || format!("could not write {}", path.display());
        let new = path.with_extension("new");
        fs::write(&new, contents).with_context(doing)?;
        fs::set_permissions(&new, fs::Permissions::from_mode(0o755)).with_context(doing)?;
        fs::rename(&new, &path).with_context(doing)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        for file in &self.files {
            let _ = fs::remove_file(file);
        }
        let _ = fs::remove_dir(self.path.join(LIBRARIES));
        if self.made {
            let _ = fs::remove_dir(&self.path);
        }
    }
}

fn read(path: &Path) -> Result<Vec<u8>> {
    fs::read(path).with_context(|| format!("could not read {}", path.display()))
}
