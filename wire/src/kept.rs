//! What a cluster keeps, in swarm's own store or in a file: its authority, its token, its nodes and its masters.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// How many removed nodes are remembered: the list must leave room for members.
const REMOVED_MAX: usize = 256;

/// Everything a master must know before the first agent reports. Whoever reads it can make certificates.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Kept {
    /// Counts changes, so that of two who change it at once one starts again.
    pub version: u64,
    /// The authority's certificate, as PEM.
    pub certificate: String,
    /// Its key, as PEM.
    pub key: String,
    /// The secret of the token that lets nodes join.
    pub secret: String,
    /// Until when, in microseconds since 1970.
    pub secret_until_us: i64,
    /// The nodes that may report, by name. Who is taken out has a certificate that is worth nothing.
    pub nodes: BTreeMap<String, KeptNode>,
    /// The masters' addresses, by what the engine calls their nodes.
    pub masters: BTreeMap<String, String>,
    /// The nodes that were taken out last. Their agents may live, and are told whether the engine still has their nodes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub removed: Vec<KeptNode>,
}

/// A node that joined.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeptNode {
    /// What the engine calls it; empty without an engine.
    pub engine_id: String,
    /// The digest of its public key, in hexadecimal: certificates are renewed, keys stay.
    pub key: String,
}

impl Kept {
    /// Takes a node out, and remembers it. Whether it was there.
    pub fn remove(&mut self, name: &str) -> bool {
        let Some(node) = self.nodes.remove(name) else { return false };
        self.removed.push(node);
        let surplus = self.removed.len().saturating_sub(REMOVED_MAX);
        self.removed.drain(..surplus);
        true
    }

    /// What the engine calls a node that was taken out, by its key.
    pub fn was_removed(&self, key: &str) -> Option<&str> {
        self.removed.iter().rfind(|node| node.key == key).map(|node| node.engine_id.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nodes_that_were_removed_last_are_remembered() {
        let mut kept = Kept::default();
        assert!(!kept.remove("nobody"));
        for number in 0..=REMOVED_MAX {
            let node = KeptNode { engine_id: format!("e{number}"), key: format!("k{number}") };
            kept.nodes.insert("a".to_owned(), node);
            assert!(kept.remove("a"));
        }
        assert_eq!((kept.was_removed("k0"), kept.was_removed("k1")), (None, Some("e1")));
        let text = serde_json::to_string(&Kept::default()).unwrap();
        assert!(!text.contains("removed"), "older programs read it, too");
        assert_eq!(serde_json::from_str::<Kept>(&text).unwrap(), Kept::default());
    }
}
