//! Asking the agent, or the master: where it is, what to say when it is not there, and how to say since when.

use crate::commands::master;
use crate::failure::Failure;
use std::path::PathBuf;
use wire::client::NoAnswer;
use wire::duration;

/// Where the agent answers.
#[derive(clap::Args, Debug, Clone)]
pub struct Socket {
    /// The agent's socket
    #[arg(id = "socket", long = "socket", value_name = "FILE", env = SOCKET, default_value = wire::agent::SOCKET)]
    pub path: PathBuf,
}

/// The agent, or the master: both have news, and tell what changes.
#[derive(clap::Args, Debug, Clone)]
pub struct Whom {
    /// The socket to ask; the agent's, or with --master the master's, if not given
    #[arg(long, value_name = "FILE")]
    socket: Option<PathBuf>,
    /// Ask the master instead of the agent: of the whole cluster
    #[arg(long)]
    master: bool,
}

/// Where another socket of the agent's is named.
const SOCKET: &str = "LEEWAY_SOCKET";

/// The agent's socket where no option names one.
fn usual_socket() -> PathBuf {
    std::env::var_os(SOCKET).map_or_else(|| PathBuf::from(wire::agent::SOCKET), PathBuf::from)
}

impl Whom {
    /// Where to ask.
    pub(crate) fn path(&self) -> PathBuf {
        let usual = || if self.master { master::usual_socket() } else { usual_socket() };
        self.socket.clone().unwrap_or_else(usual)
    }

    /// Why there is no answer, and what to try.
    pub(crate) fn failure(&self, error: &NoAnswer) -> Failure {
        if self.master { master_failure(error) } else { failure(error) }
    }
}

/// Why there is no answer, and what to try.
pub(crate) fn failure(error: &NoAnswer) -> Failure {
    let cause = std::error::Error::source(error).map_or_else(String::new, |cause| format!(": {cause}"));
    let failure = Failure::new(format!("{error}{cause}"));
    match error {
        NoAnswer::Nobody(_, why) if why.kind() == std::io::ErrorKind::PermissionDenied => {
            failure.help("try sudo, or join the group `leeway`")
        }
        NoAnswer::Nobody(..) => {
            failure.help("start it with `sudo leeway agent`, or name its socket with --socket")
        }
        _ => failure,
    }
}

/// Why a master gave no answer, and what to try.
pub(crate) fn master_failure(error: &NoAnswer) -> Failure {
    match error {
        NoAnswer::Nobody(path, why) => {
            let failure = Failure::new(format!("no master answers at {path}: {why}"));
            match why.kind() {
                std::io::ErrorKind::PermissionDenied => failure.help("try sudo"),
                _ => {
                    failure.help("`leeway master` runs one on a swarm manager; --socket names another socket")
                }
            }
        }
        NoAnswer::Broken(why) => {
            Failure::new(format!("the master stopped in the middle of its answer: {why}"))
        }
        NoAnswer::Refused(_, why) => Failure::new(why.clone()),
        NoAnswer::Json(why) => {
            Failure::new(format!("the master's answer is not the JSON it should be: {why}"))
        }
    }
}

/// A moment in microseconds since 1970: how long ago, or a time.
pub(crate) fn since(text: &str) -> Result<i64, String> {
    let now_us = jiff::Timestamp::now().as_microsecond();
    if let Ok(ago) = duration::parse(text) {
        return Ok(now_us - ago.as_micros() as i64);
    }
    let time: Result<jiff::Timestamp, _> = text.parse();
    time.map(jiff::Timestamp::as_microsecond).map_err(|_| {
        "accepted are how long ago (1h, 10m; at most 24h) and a time such as 2026-11-15T09:00:00Z".to_owned()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_socket_that_is_named_is_asked_whoever_answers_there() {
        for master in [false, true] {
            let named = Whom { socket: Some("/tmp/named".into()), master };
            assert_eq!(named.path(), PathBuf::from("/tmp/named"));
        }
    }

    #[test]
    fn since_is_how_long_ago_or_a_time() {
        assert_eq!(since("1970-01-01T00:00:01Z"), Ok(1_000_000));
        let hour_ago = since("1h").unwrap();
        let ago = jiff::Timestamp::now().as_microsecond() - hour_ago;
        assert!((3_600_000_000..3_660_000_000).contains(&ago), "{ago}");
        assert!(since("yesterday").unwrap_err().contains("1h"));
    }
}
