//! Asks an agent over its Unix socket.
//!
//! HTTP/1.0 on purpose: the answer then ends where the connection ends, so that lists and endless streams of
//! events are read alike, a line at a time, without a library.

use serde::Serialize;
use serde::de::DeserializeOwned;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

/// How long an agent may take to answer; one that takes longer is as good as none.
const ANSWER_SECONDS_MAX: u64 = 5;

/// Why an agent gave no answer.
#[derive(Debug, thiserror::Error)]
pub enum NoAnswer {
    /// Nobody listens, or we may not ask.
    #[error("no agent answers at {0}")]
    Nobody(String, #[source] io::Error),
    /// The connection broke.
    #[error("the agent stopped in the middle of its answer")]
    Broken(#[source] io::Error),
    /// It answered that it will not.
    #[error("the agent answered {0}: {1}")]
    Refused(u16, String),
    /// It answered something else than it should.
    #[error("the agent's answer is not the JSON it should be")]
    Json(#[from] serde_json::Error),
}

/// Asks for one JSON value.
pub fn get<T: DeserializeOwned>(socket: &Path, path: &str) -> Result<T, NoAnswer> {
    answer(open(socket, "GET", path, "")?)
}

/// Has something done, and asks what came of it. `method` is `PUT` or `POST`.
pub fn send<T: DeserializeOwned>(
    socket: &Path,
    method: &str,
    path: &str,
    wanted: &impl Serialize,
) -> Result<T, NoAnswer> {
    answer(open(socket, method, path, &serde_json::to_string(wanted)?)?)
}

fn answer<T: DeserializeOwned>(mut reader: BufReader<UnixStream>) -> Result<T, NoAnswer> {
    let mut body = String::new();
    reader.read_to_string(&mut body).map_err(NoAnswer::Broken)?;
    Ok(serde_json::from_str(&body)?)
}

/// Follows a stream of server-sent events; `each` sees the data of every one, and ends it by returning false.
pub fn follow(socket: &Path, path: &str, mut each: impl FnMut(&str) -> bool) -> Result<(), NoAnswer> {
    let mut reader = open(socket, "GET", path, "")?;
    // News may be long in coming.
    reader.get_ref().set_read_timeout(None).map_err(NoAnswer::Broken)?;
    let mut line = String::new();
    loop {
        line.clear();
        if reader.read_line(&mut line).map_err(NoAnswer::Broken)? == 0 {
            return Ok(());
        }
        if let Some(data) = line.trim_end().strip_prefix("data:")
            && !each(data.trim_start())
        {
            return Ok(());
        }
    }
}

/// Sends the question, and reads up to where the body starts.
fn open(socket: &Path, method: &str, path: &str, body: &str) -> Result<BufReader<UnixStream>, NoAnswer> {
    let nobody = |error| NoAnswer::Nobody(socket.display().to_string(), error);
    let mut stream = UnixStream::connect(socket).map_err(nobody)?;
    stream.set_read_timeout(Some(Duration::from_secs(ANSWER_SECONDS_MAX))).map_err(nobody)?;
    let length = body.len();
    let content = if body.is_empty() {
        String::new()
    } else {
        format!("Content-Type: application/json\r\nContent-Length: {length}\r\n")
    };
    write!(stream, "{method} {path} HTTP/1.0\r\nHost: leeway\r\n{content}\r\n{body}").map_err(nobody)?;
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    reader.read_line(&mut line).map_err(NoAnswer::Broken)?;
    let status: u16 = line.split(' ').nth(1).and_then(|code| code.parse().ok()).unwrap_or_default();
    loop {
        line.clear();
        reader.read_line(&mut line).map_err(NoAnswer::Broken)?;
        if line.trim_end().is_empty() {
            break;
        }
    }
    if status != 200 {
        let mut body = String::new();
        reader.read_to_string(&mut body).map_err(NoAnswer::Broken)?;
        return Err(NoAnswer::Refused(status, body.trim().to_owned()));
    }
    Ok(reader)
}

/// A value as it may stand in the query of a path.
pub fn escaped(value: &str) -> String {
    let mut text = String::new();
    for byte in value.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.' => text.push(byte as char),
            _ => text += &format!("%{byte:02X}"),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_keeps_its_meaning_in_a_query() {
        assert_eq!(escaped("2026-11-15T09:00:00Z"), "2026-11-15T09%3A00%3A00Z");
        assert_eq!(escaped("a&b=ü"), "a%26b%3D%C3%BC");
    }

    #[test]
    fn an_agent_that_is_not_there_is_named() {
        let missing = Path::new("/nowhere/agent.sock");
        let error = get::<u8>(missing, "/v1/node").unwrap_err().to_string();
        assert_eq!(error, "no agent answers at /nowhere/agent.sock");
    }
}
