//! Which file a process has its libcuda from.
//!
//! The NVIDIA toolkit mounts the host's file into containers, so most processes share one; an image that carries its own (CUDA's forward
//! compatibility) has another. An overlay shows one file under several device numbers, so a file is known by what else it has.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// A file, however it is reached: its number, size and times.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Identity {
    inode: u64,
    size: u64,
    written: (i64, i64),
    changed: (i64, i64),
}

/// What a file is known by.
pub(super) fn identity(path: &Path) -> Option<Identity> {
    let about = std::fs::metadata(path).ok()?;
    Some(Identity {
        inode: about.ino(),
        size: about.size(),
        written: (about.mtime(), about.mtime_nsec()),
        changed: (about.ctime(), about.ctime_nsec()),
    })
}

/// The libcuda that a process has loaded, reached through its own root.
pub(super) fn of(pid: u32) -> Option<PathBuf> {
    let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).ok()?;
    let path = maps.lines().filter_map(mapped_file).find(|path| is_cuda(path))?;
    Some(PathBuf::from(format!("/proc/{pid}/root{path}")))
}

/// The libcuda that programs on this machine load: beside NVML's library, or where the loader's usual folders have it.
pub(super) fn of_the_host(driver: Option<&Path>) -> Option<PathBuf> {
    const NAME: &str = "libcuda.so.1";
    const FOLDERS: [&str; 5] = [
        "/usr/lib/x86_64-linux-gnu",
        "/usr/lib64",
        "/usr/local/nvidia/lib64",
        "/usr/lib/wsl/lib",
        "/run/nvidia/driver/usr/lib/x86_64-linux-gnu",
    ];
    if let Some(folder) = driver {
        return Some(folder.join(NAME)).filter(|path| path.exists());
    }
    let own = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
    let nvml = own.lines().filter_map(mapped_file).find(|path| path.contains("/libnvidia-ml.so"));
    let beside = nvml.and_then(|nvml| Some(Path::new(nvml).parent()?.join(NAME)));
    beside.into_iter().chain(FOLDERS.map(|folder| Path::new(folder).join(NAME))).find(|path| path.exists())
}

/// The file of one line of `/proc/<pid>/maps`.
fn mapped_file(line: &str) -> Option<&str> {
    line.find('/').map(|at| &line[at..])
}

fn is_cuda(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or_default();
    name.starts_with("libcuda.so") && !name.ends_with("(deleted)")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_library_is_found_among_what_a_process_has_mapped() {
        let line = "7f00-7f01 r-xp 00000000 fd:00 42                 /usr/lib/x86_64-linux-gnu/libcuda.so.580.159.04";
        assert_eq!(mapped_file(line).map(is_cuda), Some(true));
        assert!(!is_cuda("/usr/lib/libcudart.so.12"));
        assert!(!is_cuda("/usr/lib/libcuda.so.1 (deleted)"));
        assert_eq!(mapped_file("7f00-7f01 rw-p 00000000 00:00 0 [heap]"), None);
    }

    #[test]
    fn one_file_is_itself_by_every_path() {
        let folder = tempfile::tempdir().expect("a folder");
        let (file, link) = (folder.path().join("libcuda.so.1"), folder.path().join("link"));
        std::fs::write(&file, "library").expect("a file");
        std::os::unix::fs::symlink(&file, &link).expect("a link");
        assert_eq!(identity(&file), identity(&link));
        std::fs::write(folder.path().join("copy"), "library").expect("a copy");
        assert_ne!(identity(&file), identity(&folder.path().join("copy")));
    }
}
