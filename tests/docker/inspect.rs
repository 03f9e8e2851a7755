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
    // The daemon merges the image's variables with the container's in no order.
    if let Some(variables) = container["Config"]["Env"].as_array_mut() {
        variables.sort_by_key(ToString::to_string);
    }
    if !container["Name"].as_str().is_some_and(|name| name.starts_with("/given-")) {
        container.remove("Name");
    }
    let text = serde_json::to_string(&inspected[0]).expect("JSON");
    let text = text.replace(id, "ID").replace(&id[..12], "ID");
    serde_json::from_str(&without_hashes(&text)).expect("JSON")
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
