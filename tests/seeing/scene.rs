//! A machine for a test: a simulated GPU, an agent with an HTTP address, and programs in cgroups that have labels.

pub(crate) use crate::running::Running;
use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// How long a state may take to come about on a machine with other work to do.
const PATIENCE: Duration = Duration::from_secs(30);
/// How often to look whether it has.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// A container to the agent: a cgroup with labels. Goes when the test does, with all that runs in it.
pub(crate) struct Container {
    folder: PathBuf,
    programs: Vec<Running>,
}

impl Drop for Container {
    fn drop(&mut self) {
        // What is frozen cannot die on version 1.
        let _ = std::fs::write(self.folder.join("freezer.state"), "THAWED");
        self.programs.clear();
        let start = Instant::now();
        while std::fs::remove_dir(&self.folder).is_err() && self.folder.exists() && start.elapsed() < PATIENCE
        {
            std::thread::sleep(LOOK_EVERY);
        }
    }
}

/// Everything a test needs; nothing of it is shared with another.
pub(crate) struct Scene {
    places: TempDir,
    /// Where the agent answers.
    pub(crate) http: String,
    cgroup: PathBuf,
    _gpu: Running,
}

impl Scene {
    pub(crate) fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let places = tempfile::tempdir().expect("a folder");
        let gpu = simulate(&places.path().join("gpu"));
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let cgroup = hierarchy().join(format!("leeway-seeing-{}-{number}", std::process::id()));
        std::fs::create_dir(&cgroup).expect("a cgroup");
        Self { places, http: free_address(), cgroup, _gpu: gpu }
    }

    pub(crate) fn place(&self, name: &str) -> PathBuf {
        self.places.path().join(name)
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.place("run/agent.sock")
    }

    /// `leeway WORDS`, which asks this machine's agent.
    pub(crate) fn leeway(&self, words: &[&str]) -> Command {
        let mut command = Command::new(leeway_program());
        command.args(words).env("LEEWAY_SOCKET", self.socket());
        // No Docker: what others run there is none of ours.
        command.env("DOCKER_HOST", "unix:///nowhere/docker.sock");
        command
    }

    /// What `leeway WORDS` prints.
    pub(crate) fn said(&self, words: &[&str]) -> String {
        let output = self.leeway(words).output().expect("a program that starts");
        assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).expect("text")
    }

    /// The agent, once it sees the GPU. `config` are lines of its configuration file.
    pub(crate) fn agent(&self, config: &str) -> Running {
        let file = self.place("leeway.toml");
        std::fs::write(&file, format!("node = \"here\"\nprobes = \"off\"\n{config}")).expect("a file");
        let log = std::fs::OpenOptions::new().create(true).append(true).open(self.place("agent.log"));
        let mut command = self.leeway(&["agent", "--http", &self.http]);
        command.arg("--config").arg(file).arg("--driver").arg(self.place("gpu"));
        command.arg("--run-dir").arg(self.place("run")).arg("--state-dir").arg(self.place("state"));
        command.arg("--table").arg(self.place("table")).stderr(log.expect("a log"));
        let agent = Running::start(&mut command);
        eventually("an agent that sees a GPU", || {
            let node: serde_json::Value = wire::client::get(&self.socket(), "/v1/node").ok()?;
            (node["tier"] != "none").then_some(())
        });
        agent
    }

    /// A container with one program in it: `leeway work WORDS`.
    pub(crate) fn start(&self, name: &str, labels: &[(&str, &str)], words: &[&str]) -> Container {
        let folder = self.cgroup.join(name);
        std::fs::create_dir_all(&folder).expect("a cgroup");
        for (label, value) in labels {
            let set = |kind: &str| {
                let flags = rustix::fs::XattrFlags::empty();
                rustix::fs::setxattr(&folder, format!("{kind}.leeway.{label}"), value.as_bytes(), flags)
            };
            set("user").or_else(|_| set("trusted")).expect("a label");
        }
        let mut container = Container { folder, programs: Vec::new() };
        self.again(&mut container, words);
        container
    }

    /// What the agent calls a container.
    pub(crate) fn id(&self, name: &str) -> String {
        let parent = self.cgroup.file_name().expect("a name").to_string_lossy();
        format!("/{parent}/{name}")
    }

    /// One more program in a container.
    pub(crate) fn again(&self, container: &mut Container, words: &[&str]) {
        let mut shell = Command::new("sh");
        shell.args(["-c", "echo $$ >\"$0/cgroup.procs\" && exec \"$@\""]).arg(&container.folder);
        shell.arg(leeway_program()).arg("work").args(words).env("LD_LIBRARY_PATH", self.place("gpu"));
        container.programs.push(Running::start(shell.stdout(Stdio::null())));
    }

    /// What the agent answers on its HTTP address.
    pub(crate) fn get(&self, path: &str) -> String {
        let url = format!("http://{}{path}", self.http);
        ureq::get(url).call().expect("an answer").body_mut().read_to_string().expect("text")
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir(&self.cgroup);
    }
}

/// The program under test.
pub(crate) fn leeway_program() -> &'static str {
    env!("CARGO_BIN_EXE_leeway")
}

/// The repository.
pub(crate) fn repository() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("a parent")
}

/// An address nobody listens at.
pub(crate) fn free_address() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.local_addr().expect("an address").to_string()
}

/// Where cgroups are that can freeze.
fn hierarchy() -> PathBuf {
    let root = Path::new("/sys/fs/cgroup");
    if root.join("freezer").is_dir() { root.join("freezer") } else { root.to_owned() }
}

fn simulate(folder: &Path) -> Running {
    let mut command = Command::new(leeway_program());
    // Every context takes its part, and some tests have hundreds.
    command.args(["gpu", "simulate", "--listed-after-ms", "0", "--memory", "512GiB", "--dir"]).arg(folder);
    let mut child = command.stdout(Stdio::piped()).spawn().expect("a simulated GPU");
    let mut line = String::new();
    BufReader::new(child.stdout.take().expect("a pipe")).read_line(&mut line).expect("a line");
    assert!(line.starts_with("ready"), "{line}");
    Running(child)
}

/// Looks again and again until there is something to see.
pub(crate) fn eventually<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(seen) = look() {
            return seen;
        }
        assert!(start.elapsed() < PATIENCE, "after {PATIENCE:?} there is no {what}");
        std::thread::sleep(LOOK_EVERY);
    }
}
