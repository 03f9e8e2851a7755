//! Freezing a container's cgroup, on both versions, confirmed by reading back.
//!
//! Version 2 has `cgroup.freeze` to ask and `cgroup.events` to see; version 1 has `freezer.state` for both. A process that is
//! inside the kernel freezes when it leaves it, so asking and being frozen are two things. What a frozen process
//! had queued on the GPU still runs: the device does not ask who is frozen.

use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How long a cgroup may take to freeze or thaw before it is given up: one that takes longer has a process that hangs in the kernel.
const CHANGE_MAX: Duration = Duration::from_millis(200);
/// Version 1 can get stuck between thawed and frozen, and goes on when it is asked again.
const ASK_AGAIN: Duration = Duration::from_millis(10);
/// How long between two looks, at first and at most.
pub(super) const LOOK_FIRST: Duration = Duration::from_micros(20);
pub(super) const LOOK_MAX: Duration = Duration::from_micros(200);

/// A cgroup that can be frozen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Freezer {
    folder: PathBuf,
    version: Version,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Version {
    One,
    Two,
}

impl Freezer {
    /// The cgroup of a container, found by one of its processes. `id` is the container's, or a plain cgroup's path.
    /// None where it cannot be frozen, or where we are in it ourselves.
    pub fn of(pid: u32, id: &str) -> Option<Self> {
        let paths = std::fs::read_to_string(format!("/proc/{pid}/cgroup")).ok()?;
        let ours = std::fs::read_to_string("/proc/self/cgroup").ok()?;
        let found = candidates(&paths).find_map(|(folder, path)| Self::at(&cut(&folder, &path, id)?))?;
        let ours_too = candidates(&ours).any(|(folder, _)| folder.starts_with(&found.folder));
        (!ours_too).then_some(found)
    }

    /// The cgroup with that folder, if it has a freezer.
    pub fn at(folder: &Path) -> Option<Self> {
        let version = match () {
            () if folder.join("freezer.state").exists() => Version::One,
            () if folder.join("cgroup.freeze").exists() => Version::Two,
            () => return None,
        };
        Some(Self { folder: folder.to_owned(), version })
    }

    /// Its folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Freezes it, and returns once everything in it stands. One that does not freeze in time is thawed again.
    pub fn freeze(&self) -> io::Result<()> {
        self.change(true)
    }

    /// Thaws it, and returns once that is so. One that is gone holds nobody.
    pub fn thaw(&self) -> io::Result<()> {
        self.change(false)
    }

    /// Whether everything in it stands.
    pub fn is_frozen(&self) -> io::Result<bool> {
        Ok(match self.version {
            Version::One => self.state()? == "FROZEN",
            Version::Two => std::fs::read_to_string(self.folder.join("cgroup.events"))?.contains("frozen 1"),
        })
    }

    /// Asks for it, and leaves the waiting to the caller, who may have asked many.
    pub(super) fn begin(&self, freeze: bool) -> Change<'_> {
        let now = Instant::now();
        let change = Change { freezer: self, freeze, start: now, asked: now };
        // What cannot be asked cannot be read back either.
        let _ = self.ask(freeze);
        change
    }

    fn change(&self, freeze: bool) -> io::Result<()> {
        let mut change = self.begin(freeze);
        let mut look = LOOK_FIRST;
        loop {
            if let Some(outcome) = change.look() {
                return outcome;
            }
            std::thread::sleep(look);
            look = (look * 2).min(LOOK_MAX);
        }
    }

    fn ask(&self, freeze: bool) -> io::Result<()> {
        let (file, word) = match (self.version, freeze) {
            (Version::One, true) => ("freezer.state", "FROZEN"),
            (Version::One, false) => ("freezer.state", "THAWED"),
            (Version::Two, true) => ("cgroup.freeze", "1"),
            (Version::Two, false) => ("cgroup.freeze", "0"),
        };
        std::fs::write(self.folder.join(file), word)
    }

    /// Half-way is neither.
    fn is(&self, frozen: bool) -> io::Result<bool> {
        match self.version {
            Version::One => Ok(self.state()? == if frozen { "FROZEN" } else { "THAWED" }),
            Version::Two => Ok(self.is_frozen()? == frozen),
        }
    }

    fn state(&self) -> io::Result<String> {
        Ok(std::fs::read_to_string(self.folder.join("freezer.state"))?.trim().to_owned())
    }
}

/// A change that was asked for.
pub(super) struct Change<'a> {
    freezer: &'a Freezer,
    freeze: bool,
    start: Instant,
    asked: Instant,
}

impl Change<'_> {
    /// Looks whether it is so, or never will be.
    pub(super) fn look(&mut self) -> Option<io::Result<()>> {
        let outcome = match self.freezer.is(self.freeze) {
            Ok(true) => Ok(()),
            Err(error) if is_gone(&error) && !self.freeze => Ok(()),
            Err(error) => Err(error),
            Ok(false) if self.start.elapsed() > CHANGE_MAX => {
                let words = if self.freeze { "it does not freeze" } else { "it does not thaw" };
                Err(io::Error::new(io::ErrorKind::TimedOut, words))
            }
            Ok(false) => {
                if self.asked.elapsed() > ASK_AGAIN {
                    self.asked = Instant::now();
                    let _ = self.freezer.ask(self.freeze);
                }
                return None;
            }
        };
        if outcome.is_err() && self.freeze {
            let _ = self.freezer.thaw();
        }
        Some(outcome)
    }
}

/// Whether a cgroup can be frozen at all on this machine, by us.
pub fn works_here() -> Result<(), &'static str> {
    if !rustix::process::geteuid().is_root() {
        return Err("the agent is not root");
    }
    let root = Path::new("/sys/fs/cgroup");
    let mounted = root.join("freezer").is_dir() || root.join("cgroup.controllers").exists();
    if mounted { Ok(()) } else { Err("no cgroup hierarchy with a freezer is mounted at /sys/fs/cgroup") }
}

fn is_gone(error: &io::Error) -> bool {
    let no_device = rustix::io::Errno::NODEV.raw_os_error();
    error.kind() == io::ErrorKind::NotFound || error.raw_os_error() == Some(no_device)
}

/// Where a process could be frozen: the folder of its cgroup, and its path, version 1's freezer first.
fn candidates(text: &str) -> impl Iterator<Item = (PathBuf, String)> {
    let root = Path::new("/sys/fs/cgroup");
    let path_in = |wanted: &str| {
        let lines = text.lines().map(|line| line.splitn(3, ':').collect::<Vec<_>>());
        let mut found =
            lines.filter(|parts| parts.len() == 3 && parts[1].split(',').any(|name| name == wanted));
        found.next().map(|parts| parts[2].to_owned())
    };
    let unified = if root.join("unified").is_dir() { root.join("unified") } else { root.to_owned() };
    let found = [("freezer", root.join("freezer")), ("", unified)];
    let found = found.map(|(name, mount)| {
        let path = path_in(name)?;
        Some((mount.join(path.trim_start_matches('/')), path))
    });
    found.into_iter().flatten()
}

/// The container's own folder: up to the part of the path that names it. The root of a hierarchy is nobody's.
fn cut(folder: &Path, path: &str, id: &str) -> Option<PathBuf> {
    if path == "/" || id.is_empty() {
        return None;
    }
    if path == id {
        return Some(folder.to_owned());
    }
    let names_it = |part: &Path| part.file_name().is_some_and(|name| name.to_string_lossy().contains(id));
    folder.ancestors().filter(|part| names_it(part)).last().map(Path::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa1";

    #[test]
    fn a_container_is_its_whole_folder_and_the_root_is_nobody_s() {
        let folder = PathBuf::from(format!("/sys/fs/cgroup/freezer/docker/{ID}/nested/deeper"));
        let path = format!("/docker/{ID}/nested/deeper");
        let own = PathBuf::from(format!("/sys/fs/cgroup/freezer/docker/{ID}"));
        assert_eq!(cut(&folder, &path, ID), Some(own));
        let scope = PathBuf::from(format!("/sys/fs/cgroup/system.slice/docker-{ID}.scope"));
        assert_eq!(cut(&scope, &format!("/system.slice/docker-{ID}.scope"), ID), Some(scope));
        assert_eq!(cut(Path::new("/sys/fs/cgroup/freezer/"), "/", ID), None);
        assert_eq!(cut(Path::new("/sys/fs/cgroup/freezer/other"), "/other", ID), None);
        let plain = Path::new("/sys/fs/cgroup/freezer/mine");
        assert_eq!(cut(plain, "/mine", "/mine"), Some(plain.to_owned()));
    }

    #[test]
    fn version_one_comes_first_where_both_are_mounted() {
        let text = "9:cpu,cpuacct:/a\n5:freezer:/b\n0::/c\n";
        let paths: Vec<String> = candidates(text).map(|(_, path)| path).collect();
        assert_eq!(paths, ["/b", "/c"]);
        assert_eq!(candidates("garbage").count(), 0);
    }

    /// A cgroup of the test's own, with a process in it, on whatever version this machine has.
    #[test]
    fn a_frozen_cgroup_stands_until_it_is_thawed() {
        if works_here().is_err() {
            return;
        }
        let root = Path::new("/sys/fs/cgroup");
        let root = if root.join("freezer").is_dir() { root.join("freezer") } else { root.to_owned() };
        let folder = root.join(format!("leeway-freezer-test-{}", std::process::id()));
        std::fs::create_dir(&folder).unwrap();
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        std::fs::write(folder.join("cgroup.procs"), child.id().to_string()).unwrap();
        let path = format!("/{}", folder.file_name().unwrap().to_string_lossy());
        let freezer = Freezer::of(child.id(), &path).unwrap();
        assert_eq!(freezer.folder(), folder);
        freezer.freeze().unwrap();
        assert!(freezer.is_frozen().unwrap());
        freezer.thaw().unwrap();
        assert!(!freezer.is_frozen().unwrap());
        child.kill().unwrap();
        child.wait().unwrap();
        std::fs::remove_dir(&folder).unwrap();
        assert!(freezer.thaw().is_ok(), "one that is gone holds nobody");
        assert!(freezer.freeze().is_err());
    }

    #[test]
    fn we_never_freeze_ourselves() {
        let own = std::fs::read_to_string("/proc/self/cgroup").unwrap();
        for (_, path) in candidates(&own) {
            assert_eq!(Freezer::of(std::process::id(), &path), None, "{path}");
        }
    }
}
