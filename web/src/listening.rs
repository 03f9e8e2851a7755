//! Where an agent or a master answers: a Unix socket, and an address where the operator wants one.

use crate::door::{Door, read_token};
use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::Path;
use std::time::{Duration, Instant};
use tokio::net::{TcpListener, UnixListener, UnixStream};

/// Who may use the socket: its owner and its group.
const SOCKET_MODE: u32 = 0o660;
/// The group that may, where there is one.
const SOCKET_GROUP: &str = "leeway";
/// How long somebody who was killed keeps the socket: an agent has probes to take away first.
const DYING_MAX: Duration = Duration::from_secs(2);

/// Why nobody can be answered there.
#[derive(Debug, thiserror::Error)]
pub enum NotOpened {
    /// The socket or the address cannot be had.
    #[error("could not listen at {0}")]
    Listen(String, #[source] io::Error),
    /// Somebody else has it.
    #[error("another one already answers at {0}")]
    Taken(String),
    /// The token cannot be had.
    #[error("could not use the token in {0}: {1}")]
    Token(String, String),
}

/// Listens at a socket. One that somebody dead left behind is replaced; that of somebody who lives is not.
pub async fn at_socket(path: &Path) -> Result<UnixListener, NotOpened> {
    let failed = |error| NotOpened::Listen(path.display().to_string(), error);
    let asked = Instant::now();
    while UnixStream::connect(path).await.is_ok() {
        if asked.elapsed() > DYING_MAX {
            return Err(NotOpened::Taken(path.display().to_string()));
        }
        tokio::time::sleep(DYING_MAX / 20).await;
    }
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder).map_err(failed)?;
    }
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed(error)),
        _ => {}
    }
    let listener = UnixListener::bind(path).map_err(failed)?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(SOCKET_MODE)).map_err(failed)?;
    // Without the group only root may ask, which is no failure.
    if let Some(group) = group_id(&std::fs::read_to_string("/etc/group").unwrap_or_default()) {
        let _ = chown(path, None, Some(group));
    }
    Ok(listener)
}

/// Listens at an address, where the operator names one, and says who may come in there.
pub async fn at_address(
    address: Option<SocketAddr>,
    token: Option<&Path>,
) -> Result<Option<(TcpListener, Door)>, NotOpened> {
    let Some(address) = address else { return Ok(None) };
    let token = token.map(read_token).transpose()?;
    let failed = |error| NotOpened::Listen(address.to_string(), error);
    Ok(Some((TcpListener::bind(address).await.map_err(failed)?, Door { token })))
}

/// The number of the group `leeway` in `/etc/group`.
fn group_id(groups: &str) -> Option<u32> {
    let line = groups.lines().find(|line| line.split(':').next() == Some(SOCKET_GROUP))?;
    line.split(':').nth(2)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_group_is_found_by_its_whole_name() {
        let groups = "root:x:0:\nleeway-dev:x:7:\nleeway:x:998:ann,bob\n";
        assert_eq!(group_id(groups), Some(998));
        assert_eq!(group_id("root:x:0:\n"), None);
    }
}
