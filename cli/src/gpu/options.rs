//! The Docker options that give a container the simulated GPU.

use super::folder::PROGRAM;
use super::libraries::{CUDA, NVML};
use super::program::Program;
use crate::failure::Failure;
use anyhow::Result;
use std::path::Path;

/// Where this program is in a container: a folder that is on every image's PATH.
pub(crate) const PROGRAM_IN_CONTAINER: &str = "/bin/leeway";

/// The options, in words that a shell takes as they are.
pub(crate) fn of(folder: &Path, device: Option<usize>) -> Result<Vec<String>> {
    let mut words = Vec::new();
    for (source, target) in mounts(folder)? {
        words.push("--mount".to_owned());
        words.push(format!("type=bind,source={source},target={target},readonly"));
    }
    if let Some(device) = device {
        words.extend(["--env".to_owned(), format!("CUDA_VISIBLE_DEVICES={device}")]);
    }
    Ok(words)
}

/// What a container must have mounted, read-only: the path here, and the path there.
pub(crate) fn mounts(folder: &Path) -> Result<[(String, String); 4]> {
    let missing = || {
        let folder = folder.display();
        Failure::new(format!("no simulated GPU is running in {folder}"))
            .help(format!("start one with `leeway gpu simulate --dir {folder}`"))
    };
    let folder = folder.canonicalize().map_err(|_| missing())?;
    if !folder.join(::gpu::SOCKET).exists() || !folder.join(PROGRAM).exists() {
        return Err(missing().into());
    }
    let path = folder.to_str().filter(|path| is_plain(path)).ok_or_else(|| {
        Failure::input(format!(
            "the folder {} has a name that a shell or Docker takes apart",
            folder.display()
        ))
        .help("use letters, digits and ._-+@ in it")
    })?;
    let system = Program::of_this_process()?.system;
    let library = |name: &str| (format!("{path}/{name}"), system.join(name).display().to_string());
    Ok([
        (path.to_owned(), ::gpu::FOLDER_IN_CONTAINER.to_owned()),
        library(CUDA.name),
        library(NVML.name),
        (format!("{path}/{PROGRAM}"), PROGRAM_IN_CONTAINER.to_owned()),
    ])
}

/// Whether neither a shell nor Docker's `--mount` sees more in it than a path.
fn is_plain(path: &str) -> bool {
    path.chars().all(|letter| letter.is_alphanumeric() || "/._-+@".contains(letter))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_that_a_shell_takes_apart_is_not_plain() {
        assert!(is_plain("/tmp/gpu-0_a.b/c"));
        for path in ["/a b", "/a,b", "/a*", "/a$b", "/a'b", "/a\"b", "/a\\b", "/a;b", "/a\nb", "/~a"] {
            assert!(!is_plain(path), "{path}");
        }
    }
}
