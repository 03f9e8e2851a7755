//! A Docker daemon for tests, and the programs that talk to it.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;
use tempfile::TempDir;

/// The image in every test daemon: busybox.
pub(crate) const IMAGE: &str = "leeway-test";

/// Where the script finds words for the daemon's command line.
const OPTIONS: &str = "LEEWAY_TEST_DOCKERD_OPTIONS";

/// A daemon, and a Docker configuration that is not the machine's.
pub(crate) struct Daemon {
    host: String,
    /// Where it lives; the client's configuration is there, too.
    directory: PathBuf,
    /// Words for its own command line.
    options: &'static str,
}

/// The daemon that tests share. Each has containers of its own there, and must not mind others'.
pub(crate) fn shared() -> &'static Daemon {
    static SHARED: OnceLock<Daemon> = OnceLock::new();
    SHARED.get_or_init(|| match std::env::var("LEEWAY_TEST_DOCKER_HOST") {
        Ok(host) => {
            output(script().arg("image").arg(&host));
            Daemon { host, directory: folder().keep(), options: "" }
        }
        Err(_) => Daemon::start(),
    })
}

/// A folder that goes when the test does.
pub(crate) fn folder() -> TempDir {
    tempfile::tempdir().expect("a temporary folder")
}

/// The program under test.
pub(crate) fn leeway_program() -> &'static str {
    env!("CARGO_BIN_EXE_leeway")
}

impl Daemon {
    /// One of the test's own. It stops with the test process at the latest: a static is never dropped.
    pub(crate) fn start() -> Self {
        Self::start_with("")
    }

    /// The same, with more words on the daemon's command line.
    pub(crate) fn start_with(options: &'static str) -> Self {
        // Unix sockets have short names, so it cannot live under a target folder that may be deep.
        let directory = folder().keep();
        let process = std::process::id().to_string();
        let mut command = script();
        command.env(OPTIONS, options).arg("start").arg(&directory).arg(process);
        let host = stdout(&output(&mut command));
        Self { host, directory, options }
    }

    /// Stops it and starts it again.
    pub(crate) fn restart(&self) {
        output(script().env(OPTIONS, self.options).arg("restart").arg(&self.directory));
    }

    pub(crate) fn host(&self) -> &str {
        &self.host
    }

    /// `docker WORDS`
    pub(crate) fn docker<'a>(&self, words: impl IntoIterator<Item = &'a str>) -> Command {
        self.program("docker", words)
    }

    /// `leeway WORDS`
    pub(crate) fn leeway<'a>(&self, words: impl IntoIterator<Item = &'a str>) -> Command {
        self.program(leeway_program(), words)
    }

    /// Any program, with this daemon as its Docker.
    pub(crate) fn program<'a>(&self, name: &str, words: impl IntoIterator<Item = &'a str>) -> Command {
        let mut command = Command::new(name);
        command.args(words).env("DOCKER_HOST", &self.host).env_remove("DOCKER_CONTEXT");
        command.env("DOCKER_CONFIG", self.directory.join("client"));
        command.env("LEEWAY_STATE_DIR", self.directory.join("state"));
        command
    }

    /// A container that does not run; its id.
    pub(crate) fn create(&self, words: &[&str]) -> String {
        stdout(&output(&mut self.leeway(["create"].iter().chain(words).copied())))
    }

    /// The container's configuration as the daemon keeps it on disk.
    pub(crate) fn configuration_on_disk(&self, id: &str) -> String {
        let root = stdout(&output(&mut self.docker(["info", "--format", "{{.DockerRootDir}}"])));
        let file = Path::new(&root).join("containers").join(id).join("config.v2.json");
        std::fs::read_to_string(&file).expect("the container's configuration")
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = script().arg("stop").arg(&self.directory).output();
    }
}

fn script() -> Command {
    Command::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../scripts/docker-for-tests"))
}

/// Runs a command that must succeed.
pub(crate) fn output(command: &mut Command) -> Output {
    let output = command.output().expect("a program to run");
    assert!(output.status.success(), "{command:?}\n{}", stderr(&output));
    output
}

/// Runs a command that must not succeed.
pub(crate) fn refused(command: &mut Command) -> Output {
    let output = command.output().expect("a program to run");
    assert!(!output.status.success(), "{command:?}\n{}", stdout(&output));
    output
}

pub(crate) fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

pub(crate) fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).trim().to_owned()
}
