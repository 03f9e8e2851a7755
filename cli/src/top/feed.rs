//! The thread that hears the agent, or the master, and comes back when it was away.

use std::path::PathBuf;
use std::sync::mpsc::{Receiver, sync_channel};
use std::time::Duration;
use wire::agent::LiveLine;
use wire::client::{self, NoAnswer};

/// How many messages may wait to be shown.
const WAITING_MAX: usize = 256;
/// How long to wait before asking an agent again that went away.
const AGAIN_AFTER: Duration = Duration::from_millis(500);

/// What came of listening.
pub(super) enum Heard {
    Line(Box<LiveLine>),
    /// The connection is lost: why.
    Lost(String),
}

/// Follows the agent for as long as somebody listens, with what happened in so long a time before.
pub(super) fn follow(socket: PathBuf, before_us: i64) -> Receiver<Heard> {
    let (sender, heard) = sync_channel(WAITING_MAX);
    std::thread::spawn(move || {
        loop {
            let since_us = jiff::Timestamp::now().as_microsecond() - before_us;
            let mut listens = true;
            let ended = client::follow(&socket, &format!("/v1/live?since_us={since_us}"), |data| {
                if let Ok(line) = serde_json::from_str(data) {
                    listens = sender.send(Heard::Line(Box::new(line))).is_ok();
                }
                listens
            });
            let why = match ended {
                Ok(()) | Err(NoAnswer::Broken(_)) => "the connection was lost".to_owned(),
                Err(NoAnswer::Nobody(path, _)) => format!("nobody answers at {path}"),
                Err(other) => other.to_string(),
            };
            if !listens || sender.send(Heard::Lost(why)).is_err() {
                return;
            }
            std::thread::sleep(AGAIN_AFTER);
        }
    });
    heard
}
