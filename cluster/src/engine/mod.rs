//! The engine that runs containers. It decides nothing: it is given the node.

pub(crate) mod swarm;

use std::collections::{HashMap, HashSet};

/// Which engine.
#[derive(Clone)]
pub(crate) enum Engine {
    /// None: nodes are listed and places found, and others create the containers.
    None,
    /// Docker's own swarm mode.
    Swarm(swarm::Swarm),
}

/// The engine's view of the cluster.
#[derive(Debug, Clone, Default)]
pub(crate) struct View {
    /// Whether its leader is on this machine.
    pub(crate) leads: bool,
    /// Where the leader is, as the engine calls machines for people.
    pub(crate) leader: String,
    /// Every node it knows; none while it does not answer.
    pub(crate) known: Option<HashSet<String>>,
    /// Nodes it does not use, and why.
    pub(crate) unusable: HashMap<String, String>,
    /// Nodes it has lost, which may still run what they ran.
    pub(crate) down: Vec<String>,
    /// Nodes whose containers it has stopped.
    pub(crate) drained: Vec<String>,
}

impl View {
    /// Whether a node is lost: the engine says so, or knows it no more.
    pub(crate) fn has_lost(&self, id: &str) -> bool {
        let is_unknown = self.known.as_ref().is_some_and(|known| !id.is_empty() && !known.contains(id));
        is_unknown || self.down.iter().any(|down| down == id)
    }
}
