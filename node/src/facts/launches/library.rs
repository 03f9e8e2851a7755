//! Which file a process has its libcuda from.
//!
//! The NVIDIA toolkit mounts the host's file into containers, so most processes share one; an image that carries its own (CUDA's forward
//! compatibility) has another. An overlay shows one file under several device numbers, so a file is known by what else it has.

use super::symbols::Symbols;
use rustix::fs::{CWD, Mode, OFlags, ResolveFlags};
use std::collections::{BTreeSet, HashSet};
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// More than any driver's library has. A tenant's own may be as large as it likes, and is not read.
const BYTES_MAX: u64 = 512 << 20;

/// More than any program loads. Each is opened, read and probed, and a tenant may map as many as it likes.
const LIBRARIES_MAX: usize = 8;

/// A file, however it is reached: its number, size and times.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Identity {
    inode: u64,
    size: u64,
    written: (i64, i64),
    changed: (i64, i64),
}

/// A library that is open. A tenant may put something else in its path at any moment, a link to a file of the host's for instance: what it is known
/// by, its functions and its probes are all of this one file.
pub(super) struct Library(File);

impl Library {
    /// One whose path is the machine's own.
    pub(super) fn at(path: &Path) -> io::Result<Self> {
        Self::checked(File::open(path)?)
    }

    /// Every libcuda that a process has loaded: some have one that only hands on to another, and one alone could be there to deceive. One file is
    /// one, whatever it is called.
    pub(super) fn all_of(pid: u32) -> io::Result<Vec<Self>> {
        let maps = std::fs::read_to_string(format!("/proc/{pid}/maps"))?;
        let paths = paths_in(&maps);
        if paths.is_empty() {
            return Err(io::Error::other("it has no libcuda"));
        }
        if paths.len() > LIBRARIES_MAX {
            return Err(io::Error::other(format!("it has more than {LIBRARIES_MAX} libcuda")));
        }
        let mut files = Vec::new();
        for path in paths {
            let library = Self::of(pid, path)?;
            files.push((library.identity()?, library));
        }
        Ok(each_once(files))
    }

    /// Reached through the process's own root, and through no link: what is mapped is known by its real name.
    fn of(pid: u32, path: &str) -> io::Result<Self> {
        let root = rustix::fs::openat(
            CWD,
            format!("/proc/{pid}/root"),
            OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC,
            Mode::empty(),
        )?;
        // A pipe that nobody writes to must not keep us waiting.
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
        let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_SYMLINKS;
        let opened = rustix::fs::openat2(root, path.trim_start_matches('/'), flags, Mode::empty(), resolve)?;
        Self::checked(opened.into())
    }

    fn checked(file: File) -> io::Result<Self> {
        let about = file.metadata()?;
        if !about.is_file() || about.size() > BYTES_MAX {
            return Err(io::Error::other("its libcuda is no library"));
        }
        Ok(Self(file))
    }

    /// What it is known by.
    pub(super) fn identity(&self) -> io::Result<Identity> {
        let about = self.0.metadata()?;
        Ok(Identity {
            inode: about.ino(),
            size: about.size(),
            written: (about.mtime(), about.mtime_nsec()),
            changed: (about.ctime(), about.ctime_nsec()),
        })
    }

    pub(super) fn symbols(&self) -> Result<Symbols, String> {
        Symbols::read(&self.0)
    }

    /// A path that leads to this very file while it is open.
    pub(super) fn path(&self) -> PathBuf {
        PathBuf::from(format!("/proc/self/fd/{}", self.0.as_raw_fd()))
    }
}

/// Where the libcuda is that programs on this machine load: beside NVML's library, or in the loader's usual folders.
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

/// The files, none twice: with two probes in one place each launch would count twice.
fn each_once(files: Vec<(Identity, Library)>) -> Vec<Library> {
    let mut seen = HashSet::new();
    files.into_iter().filter(|(identity, _)| seen.insert(*identity)).map(|(_, library)| library).collect()
}

/// The paths of the libraries whose code is mapped, each once.
fn paths_in(maps: &str) -> BTreeSet<&str> {
    let runs = |line: &&str| line.split(' ').nth(1).is_some_and(|may| may.contains('x'));
    maps.lines().filter(runs).filter_map(mapped_file).filter(|path| is_cuda(path)).collect()
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
    fn every_library_whose_code_is_mapped_is_found_once() {
        let maps = "\
7e00-7e01 r--p 00000000 fd:00 41                 /tmp/libcuda.so.data
7f00-7f01 r-xp 00000000 fd:00 42                 /usr/lib/libcuda.so.1
7f01-7f02 r-xp 00001000 fd:00 42                 /usr/lib/libcuda.so.1
7f02-7f03 r-xp 00000000 fd:00 43                 /tmp/libcuda.so.1
7f03-7f04 r-xp 00000000 fd:00 44                 /usr/lib/libc.so.6";
        assert_eq!(Vec::from_iter(paths_in(maps)), ["/tmp/libcuda.so.1", "/usr/lib/libcuda.so.1"]);
    }

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
        let identity =
            |path: &Path| Library::at(path).and_then(|library| library.identity()).expect("a library");
        assert_eq!(identity(&file), identity(&link));
        let open = Library::at(&file).expect("a library");
        let before = open.identity().expect("its identity");
        std::fs::write(folder.path().join("copy"), "library").expect("a copy");
        assert_ne!(identity(&file), identity(&folder.path().join("copy")));
        // Whoever puts another file in its place does not change which one is open.
        std::fs::rename(folder.path().join("copy"), &file).expect("another in its place");
        assert_eq!(identity(&open.path()).inode, before.inode);
        assert_ne!(identity(&file).inode, before.inode);
    }

    #[test]
    fn one_file_is_probed_once_whatever_it_is_called() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = |name: &str| folder.path().join(name);
        for name in ["libcuda.so.1", "libcuda.so.2"] {
            std::fs::write(path(name), "library").expect("a file");
        }
        std::fs::hard_link(path("libcuda.so.1"), path("libcuda.so.3")).expect("a link");
        let file = |name: &str| {
            let library = Library::at(&path(name)).expect("a library");
            (library.identity().expect("its identity"), library)
        };
        let files = ["libcuda.so.1", "libcuda.so.2", "libcuda.so.3"].map(file);
        assert_eq!(each_once(files.into()).len(), 2);
    }

    #[test]
    fn what_a_tenant_calls_libcuda_may_be_anything_and_is_no_library_then() {
        let folder = tempfile::tempdir().expect("a folder");
        assert!(Library::at(folder.path()).is_err());
        let large = folder.path().join("libcuda.so.1");
        File::create(&large).and_then(|file| file.set_len(BYTES_MAX + 1)).expect("a large file");
        assert!(Library::at(&large).is_err());
    }
}
