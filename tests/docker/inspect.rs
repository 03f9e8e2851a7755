//! What Docker says of a container, without what differs between any two.

use crate::daemon::{Daemon, output, stdout};
use serde_json::Value;

/// All that `docker inspect` says of a container, less ids, times, and paths made of them.
pub(crate) fn inspect(daemon: &Daemon, id: &str) -> Value {
    let text = stdout(&output(&mut daemon.docker(["inspect", id])));
    let mut inspected: Value = serde_json::from_str(&text).expect("JSON from docker inspect");
    let container = inspected[0].as_object_mut().expect("a container");
    // Names made up by Docker, times, and the layers of the file system belong to the one container.
    for key in ["Created", "GraphDriver", "State"] {
        container.remove(key);
    }
    container["NetworkSettings"]["SandboxKey"].take();
    if !container["Name"].as_str().is_some_and(|name| name.starts_with("/given-")) {
        container.remove("Name");
    }
    let text = serde_json::to_string(&inspected[0]).expect("JSON");
    let text = text.replace(id, "ID").replace(&id[..12], "ID");
    let mut inspected: Value = serde_json::from_str(&without_hashes(&text)).expect("JSON");
    // The daemon keeps these in no order.
    for list in ["/Config/Env", "/Mounts"] {
        if let Some(entries) = inspected.pointer_mut(list).and_then(Value::as_array_mut) {
            entries.sort_by_key(ToString::to_string);
        }
    }
    inspected
}

/// Fails with the lines in which two containers differ, and only those.
pub(crate) fn assert_same(container: &Value, docker: &Value, line: &str) {
    let text = |value| serde_json::to_string_pretty(value).expect("JSON");
    let (container, docker) = (text(container), text(docker));
    let differs = |one: &str, other: &str| {
        let lines = one.lines().filter(|line| !other.lines().any(|known| known == *line));
        lines.map(str::trim).collect::<Vec<_>>().join("\n")
    };
    let (here, there) = (differs(&container, &docker), differs(&docker, &container));
    assert!(container == docker, "{line}\nby Leeway: {here}\nby Docker: {there}");
}

/// Takes a label off what was inspected.
pub(crate) fn take_label(inspected: &mut Value, label: &str) -> Option<String> {
    let labels = inspected["Config"]["Labels"].as_object_mut()?;
    labels.remove(label)?.as_str().map(str::to_owned)
}

/// Volumes without a name are named by 64 digits, which no two share.
fn without_hashes(text: &str) -> String {
    let is_hash = |word: &str| word.len() == 64 && word.bytes().all(|byte| byte.is_ascii_hexdigit());
    let words = text.split_inclusive(|c: char| !c.is_ascii_alphanumeric());
    words
        .map(|word| {
            word.get(..64)
                .filter(|start| is_hash(start))
                .map_or_else(|| word.to_owned(), |_| format!("HASH{}", &word[64..]))
        })
        .collect()
}
