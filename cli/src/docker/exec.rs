//! Docker's own program: becoming it, and asking it about itself.
//!
//! `leeway run` replaces itself with `docker run`, by exec. Docker then has our process id, terminal, signals and
//! file descriptors, so everything from window sizes to exit codes is Docker's own.

use super::globals::Globals;
use super::relay;
use crate::failure::Failure;
use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Command, Output};

/// Docker tells its plugins in this variable which program it is, so that they call the same one back.
const CALLED_BY: &str = "DOCKER_CLI_PLUGIN_ORIGINAL_CLI_COMMAND";

/// Becomes `docker GLOBALS COMMAND WORDS`. It returns only if that failed.
pub fn become_docker(globals: &Globals, command: &str, words: &[OsString]) -> Failure {
    let mut docker = Command::new(program());
    docker.args(globals.words()).arg(command).args(words);
    relay::start();
    unavailable(&docker.exec())
}

/// What `docker WORDS` prints, without a daemon: what is asked about the program must not depend on which daemon
/// would answer (Docker hides options from its help that the daemon does not know), nor wait for it.
pub fn ask(words: &[&str]) -> Result<Output, Failure> {
    let mut docker = Command::new(program());
    docker.args(words).env("DOCKER_HOST", "unix:///dev/null").env_remove("DOCKER_CONTEXT");
    docker.output().map_err(|error| unavailable(&error))
}

fn program() -> OsString {
    std::env::var_os(CALLED_BY).filter(|name| !name.is_empty()).unwrap_or_else(|| "docker".into())
}

fn unavailable(error: &io::Error) -> Failure {
    let program = program().to_string_lossy().into_owned();
    if error.kind() != io::ErrorKind::NotFound {
        return Failure::new(format!("could not start the Docker CLI '{program}': {error}"));
    }
    Failure::new(format!("the Docker CLI is missing: there is no program '{program}' on PATH")).help(
        "install it: `sudo apt install docker.io` on Debian and Ubuntu, `sudo dnf install docker-cli` on Fedora, \
         or Docker's own package docker-ce-cli",
    )
}
