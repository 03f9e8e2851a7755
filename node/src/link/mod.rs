//! The agent as a member of a cluster: it joins once, reports to every master, and has the last word on who comes.
//!
//! ```text
//! owner ─> Outlook (what a master may know) ─> Sayer (what changed) ─> one gRPC stream per master
//!   ^                                                                            │
//!   └───────────────────── may this container come? ─────────────────────────────┘
//! ```
//!
//! The agent only ever connects; nothing of it listens. Read the modules in the order below.

pub mod identity;

pub mod client;

mod sayer;

mod outlook;

mod contact;

mod farewells;

mod fence;

mod stopped;

mod streams;

pub(crate) use fence::{Movable, movable};
pub use outlook::Snapshot;
pub(crate) use outlook::{Outlook, consider, publish, withdraw};
pub use sayer::Sayer;

use crate::run::Connect;
use identity::Identity;
use std::path::Path;
use wire::token::Invitation;

/// Joins a cluster, unless this node is a member of it already. One line that says what happened.
pub async fn join(
    state_dir: &Path,
    name: &str,
    invitation: &Invitation,
    connect: &Connect,
) -> Result<String, String> {
    let folder = identity::folder(state_dir);
    let known = Identity::load(&folder).map_err(|error| error.to_string())?;
    let is_member = known.is_some_and(|known| known.authority_digest() == invitation.token.authority);
    let engine_id = engine_id(connect).await;
    // A member that was removed, or whose certificate has expired, is let in anew; any other has no use for the token.
    let joined = match client::join(invitation, name, &engine_id).await {
        Err(_) if is_member => {
            return Ok("this node is a member of the cluster already, and the token is not needed".to_owned());
        }
        joined => joined.map_err(|no| no.to_string())?,
    };
    let path = folder.display();
    joined.save(&folder).map_err(|error| format!("could not keep the certificate in {path}: {error}"))?;
    Ok(format!("this node has joined the cluster as {name}"))
}

/// Reports to every master from now on, if this node is a member of a cluster: where the owner puts what they are told.
pub(crate) fn begin(config: &crate::Config, teller: &crate::facts::Teller) -> Option<Outlook> {
    let (snapshots, told) = tokio::sync::watch::channel(Snapshot::default());
    streams::start(config, told, teller).then(|| Outlook::new(snapshots))
}

/// What the swarm calls this machine; empty outside a swarm.
async fn engine_id(connect: &Connect) -> String {
    let Ok(docker) = connect() else { return String::new() };
    let Ok(docker) = docker.negotiate_version().await else { return String::new() };
    let info = docker.info().await.ok();
    info.and_then(|info| info.swarm).and_then(|swarm| swarm.node_id).unwrap_or_default()
}
