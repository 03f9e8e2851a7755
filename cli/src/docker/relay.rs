//! Passing a signal on from `docker` to the `docker run` that its plugin became.
//!
//! Problem: `docker leeway run` is two processes. Docker does not pass a signal on to its plugins; it closes a socket
//! that they are to watch. By then we are `docker run`, which watches no socket. Approach: a helper process, our child,
//! watches the socket and sends its parent SIGTERM when it is closed. On a terminal the kernel sends the signals of the
//! keyboard to every process there, and nothing needs to be passed on.

use anyhow::{Context, Result};
use std::io::{IsTerminal, Read, stderr, stdin, stdout};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixStream};
use std::os::unix::process::parent_id;
use std::process::{Command, Stdio};

/// The command that is the helper.
pub const COMMAND: &str = "docker-cli-plugin-relay";

/// Docker says in this variable which socket to watch.
const SOCKET: &str = "DOCKER_CLI_PLUGIN_SOCKET";

/// Starts the helper, if we are a plugin that needs one. Without it `docker run` still runs, so failing is no reason to
/// stop.
pub(super) fn start() {
    let on_terminal = stdin().is_terminal() || stdout().is_terminal() || stderr().is_terminal();
    if on_terminal || std::env::var_os(SOCKET).is_none_or(|socket| socket.is_empty()) {
        return;
    }
    let Ok(program) = std::env::current_exe() else { return };
    // It must not keep open what others wait for the end of.
    let mut helper = Command::new(program);
    let _ = helper.arg(COMMAND).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
}

/// The helper: waits for Docker to close the socket, which it also does when it ends.
pub(crate) fn run() -> Result<()> {
    let docker_run = parent_id();
    let socket = std::env::var(SOCKET).context("could not find the socket to watch")?;
    let doing = || format!("could not watch the socket {socket}");
    let address = match socket.strip_prefix('@') {
        Some(name) => SocketAddr::from_abstract_name(name),
        None => SocketAddr::from_pathname(&socket),
    };
    let mut stream = UnixStream::connect_addr(&address.with_context(doing)?).with_context(doing)?;
    // Nothing is ever said on it; the end of the stream, in whatever way, is the message.
    let _ = stream.read_to_end(&mut Vec::new());
    // Once `docker run` has ended we have another parent, and the process id may mean anything.
    if parent_id() == docker_run
        && let Some(process) = rustix::process::Pid::from_raw(docker_run.cast_signed())
    {
        rustix::process::kill_process(process, rustix::process::Signal::TERM)
            .context("could not pass a signal on")?;
    }
    Ok(())
}
