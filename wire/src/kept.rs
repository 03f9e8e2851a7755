//! What a cluster keeps, in swarm's own store or in a file: its authority, its token, its nodes and its masters.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

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
}

/// A node that joined.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeptNode {
    /// What the engine calls it; empty without an engine.
    pub engine_id: String,
    /// The digest of its public key, in hexadecimal: certificates are renewed, keys stay.
    pub key: String,
}
