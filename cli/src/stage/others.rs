//! Who else is on a machine whose GPU is to be measured: another agent holds the same tasks, and whoever uses the GPU takes a share of it.

use crate::failure::Failure;
use node::facts::gpu;
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Once;
use wire::agent::SOCKET;
use wire::client::{self, NoAnswer};

/// An error if an agent runs here; a notice, once, if somebody uses the GPU.
pub(super) fn look_for(driver: &Path) -> Result<(), Failure> {
    // Later it might be those of ours whom NVML has not dropped yet.
    static LOOKED: Once = Once::new();
    refuse_an_agent_at(Path::new(SOCKET))?;
    LOOKED.call_once(|| {
        let users = users(driver);
        if !users.is_empty() {
            let pids: Vec<String> = users.iter().map(u32::to_string).collect();
            eprintln!("notice: others use the GPU, and spoil what is measured: process {}", pids.join(", "));
        }
    });
    Ok(())
}

fn refuse_an_agent_at(socket: &Path) -> Result<(), Failure> {
    match client::get::<serde_json::Value>(socket, "/v1/node") {
        Err(NoAnswer::Nobody(..)) => Ok(()),
        _ => Err(Failure::new(format!(
            "an agent runs on this machine, and would hold what is measured: it answers at {}",
            socket.display()
        ))
        .help("stop it meanwhile, with `sudo systemctl stop leeway`")),
    }
}

/// The processes that NVML lists. Where it does not work nobody is measured, and whoever tries says why.
fn users(driver: &Path) -> BTreeSet<u32> {
    let Ok(nvml) = gpu::load(Some(driver)) else { return BTreeSet::new() };
    let devices = (0..nvml.device_count().unwrap_or(0)).filter_map(|index| nvml.device_by_index(index).ok());
    let listed = devices.flat_map(|device| device.running_compute_processes().unwrap_or_default());
    listed.map(|process| process.pid).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::os::unix::net::UnixListener;

    #[test]
    fn whoever_answers_where_agents_do_is_in_the_way() {
        let folder = tempfile::tempdir().expect("a folder");
        let socket = folder.path().join("agent.sock");
        assert!(refuse_an_agent_at(&socket).is_ok());
        let listener = UnixListener::bind(&socket).expect("a socket");
        let agent = std::thread::spawn(move || {
            let (mut asked, _) = listener.accept().expect("somebody asks");
            // All of it: closed with a part unread, the socket would lose the answer.
            let (mut question, mut part) = (Vec::new(), [0; 4096]);
            while !question.ends_with(b"\r\n\r\n") {
                let count = asked.read(&mut part).expect("a question");
                assert!(count > 0, "it is cut short");
                question.extend_from_slice(&part[..count]);
            }
            asked.write_all(b"HTTP/1.0 200 OK\r\n\r\n{}").expect("an answer");
        });
        let why = refuse_an_agent_at(&socket).expect_err("somebody is there").to_string();
        assert!(why.contains("an agent runs on this machine"), "{why}");
        agent.join().expect("it answered");
        // What a dead agent leaves is in nobody's way.
        assert!(refuse_an_agent_at(&socket).is_ok());
    }
}
