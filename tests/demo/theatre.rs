//! A place to show the tour in, and a look at what is left when it is over.

use crate::copy::copy_program;
use crate::daemon::{Daemon, folder, leeway_program, output, shared, stdout};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// How long a state may take to come about on a machine with other work to do.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);
/// Who has no rights.
const NOBODY: u32 = 65_534;

/// What the parts are to become.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum On {
    Docker,
    Cgroups,
    /// As a user without rights, and not asked for: it is what is left.
    Processes,
}

/// A place of its own.
pub(crate) struct Theatre {
    pub(crate) on: On,
    pub(crate) daemon: &'static Daemon,
    /// For temporary files, and for a copy of the program that anybody may read.
    places: TempDir,
}

impl Theatre {
    pub(crate) fn new(on: On) -> Self {
        let theatre = Self { on, daemon: shared(), places: folder() };
        let places = theatre.places.path();
        for name in ["temporary", "bin", "lib/leeway"] {
            std::fs::create_dir_all(places.join(name)).expect("a folder");
        }
        for (path, mode) in [(places, 0o755), (&theatre.temporary(), 0o777)] {
            std::fs::set_permissions(path, PermissionsExt::from_mode(mode)).expect("a folder of our own");
        }
        // As an installation has them: a checkout may be where nobody else may look.
        let built = Path::new(leeway_program()).with_file_name("deps");
        copy_program(&theatre.program());
        for library in ["libgpu_cuda.so", "libgpu_nvml.so"] {
            let copy = places.join("lib/leeway").join(library);
            std::fs::copy(built.join(library), copy).expect("a copy of a library");
        }
        theatre
    }

    pub(crate) fn program(&self) -> PathBuf {
        self.places.path().join("bin/leeway")
    }

    pub(crate) fn temporary(&self) -> PathBuf {
        self.places.path().join("temporary")
    }

    /// `leeway demo WORDS` on this ground.
    pub(crate) fn demo(&self, words: &[&str]) -> Command {
        let mut command = self.daemon.program(self.program().to_str().expect("a path"), ["demo"]);
        command.args(words).env("TMPDIR", self.temporary()).stdin(Stdio::null());
        match self.on {
            On::Docker => {}
            On::Cgroups => {
                command.args(["--on", "cgroups"]);
            }
            On::Processes => {
                command.env("DOCKER_HOST", "unix:///nowhere/docker.sock").uid(NOBODY).gid(NOBODY);
            }
        }
        command
    }

    /// Starts it, telling in JSON.
    pub(crate) fn start(&self, words: &[&str]) -> Showing {
        let mut command = self.demo(&[&["--json"], words].concat());
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("a show");
        let lines = BufReader::new(child.stdout.take().expect("a pipe"));
        Showing { child, lines }
    }

    /// Waits until nothing is left of a show, and says what was if something stays.
    #[track_caller]
    pub(crate) fn is_empty_after(&self, pid: u32) {
        let start = Instant::now();
        loop {
            let left = self.left_of(pid);
            if left.is_empty() {
                return;
            }
            assert!(start.elapsed() < PATIENCE, "left behind by {pid}: {left:#?}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Processes, files, cgroups, containers and images of a show.
    pub(crate) fn left_of(&self, pid: u32) -> Vec<String> {
        // The name is `leeway-demo-LUCK-PID`, and a container's goes on with `-PART`.
        let pid = pid.to_string();
        let is_ours = |name: &str| {
            name.strip_prefix("leeway-demo-").and_then(|rest| rest.split('-').nth(1)) == Some(pid.as_str())
        };
        let mut left = processes_of(&self.program());
        left.extend(names_in(&self.temporary()));
        for hierarchy in ["", "freezer", "unified"] {
            let folder = Path::new("/sys/fs/cgroup").join(hierarchy);
            left.extend(names_in(&folder).into_iter().filter(|name| is_ours(name)));
        }
        let containers = ["ps", "--all", "--format", "{{.Names}}"];
        let images = ["images", "--format", "{{.Repository}}"];
        for words in [&containers[..], &images[..]] {
            let listed = stdout(&output(&mut self.daemon.docker(words.iter().copied())));
            left.extend(listed.lines().filter(|name| is_ours(name)).map(str::to_owned));
        }
        left
    }
}

/// A show that runs. It ends with the test.
pub(crate) struct Showing {
    child: Child,
    lines: BufReader<ChildStdout>,
}

impl Showing {
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The next line; nothing after the last.
    pub(crate) fn next(&mut self) -> Option<Value> {
        let mut line = String::new();
        self.lines.read_line(&mut line).expect("a line");
        (!line.is_empty()).then(|| serde_json::from_str(&line).expect(&line))
    }

    /// The lines up to the first for which something holds.
    pub(crate) fn until(&mut self, holds: impl Fn(&Value) -> bool) -> Vec<Value> {
        let mut lines = Vec::new();
        while let Some(line) = self.next() {
            lines.push(line);
            if lines.last().is_some_and(&holds) {
                return lines;
            }
        }
        panic!("the show ended after {lines:#?}: {}", self.complaints())
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).expect("a signal sent");
    }

    pub(crate) fn end(&mut self) -> ExitStatus {
        while self.next().is_some() {}
        self.child.wait().expect("an end")
    }

    /// What it said on standard error, once it has ended.
    pub(crate) fn complaints(&mut self) -> String {
        let mut text = String::new();
        if let Some(mut stderr) = self.child.stderr.take() {
            std::io::Read::read_to_string(&mut stderr, &mut text).expect("its complaints");
        }
        text
    }
}

impl Drop for Showing {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Processes that run this file, or the copy of it that containers have.
fn processes_of(program: &Path) -> Vec<String> {
    let text = program.to_str().expect("a path");
    let places = program.parent().and_then(Path::parent).and_then(Path::to_str).expect("a path");
    let is_ours = |pid: &String| {
        let read = |file: &str| std::fs::read(format!("/proc/{pid}/{file}")).unwrap_or_default();
        let runs = std::fs::read_link(format!("/proc/{pid}/exe")).is_ok_and(|exe| exe == program);
        let words =
            [read("cmdline"), read("mountinfo")].map(|text| String::from_utf8_lossy(&text).into_owned());
        runs || words[0].contains(text) || words[0].contains("leeway") && words[1].contains(places)
    };
    let pids = names_in(Path::new("/proc")).into_iter().filter(|name| name.parse::<u32>().is_ok());
    pids.filter(is_ours).map(|pid| format!("process {pid}")).collect()
}

fn names_in(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}
