//! What agents and masters say to each other: protobuf messages over one gRPC stream per agent and master.
//!
//! They are declared in Rust, so that building needs no protoc. Tags are for ever: a new field gets a new one.

use prost::{Message, Oneof};

/// The gRPC service.
pub const SERVICE: &str = "leeway.Cluster";
/// A node asks for a certificate, with a token.
pub const JOIN: &str = "/leeway.Cluster/Join";
/// A node asks for a new certificate, with the one it has.
pub const RENEW: &str = "/leeway.Cluster/Renew";
/// A node reports, and is asked whether it admits.
pub const ATTACH: &str = "/leeway.Cluster/Attach";

/// The name that every master's certificate has, and no agent's.
pub const MASTER_NAME: &str = "master.leeway.internal";
/// The name that every agent's certificate has, and no master's.
pub const AGENT_NAME: &str = "agent.leeway.internal";
/// The port of masters, where nobody says otherwise.
pub const PORT: u16 = 7843;

/// No message is longer: with a forecast for each of a thousand containers there is room left.
pub const MESSAGE_BYTES_MAX: usize = 256 << 10;
/// How often an agent that has nothing to say says so.
pub const HEARTBEAT_MS: u64 = 1000;

/// A node asks for a certificate.
#[derive(Clone, PartialEq, Message)]
pub struct JoinRequest {
    /// The token's secret part; empty when a certificate vouches for the node.
    #[prost(string, tag = "1")]
    pub secret: String,
    /// The node's name.
    #[prost(string, tag = "2")]
    pub name: String,
    /// What the engine calls the node; empty without an engine.
    #[prost(string, tag = "3")]
    pub engine_id: String,
    /// A request for a certificate, as PEM: it has the node's public key.
    #[prost(string, tag = "4")]
    pub request: String,
}

/// The node's certificate, and whom to report to.
#[derive(Clone, PartialEq, Message)]
pub struct JoinAnswer {
    /// The certificate, as PEM.
    #[prost(string, tag = "1")]
    pub certificate: String,
    /// The authority's, as PEM.
    #[prost(string, tag = "2")]
    pub authority: String,
    /// The masters' addresses.
    #[prost(string, repeated, tag = "3")]
    pub masters: Vec<String>,
}

/// What an agent says.
#[derive(Clone, PartialEq, Message)]
pub struct FromNode {
    /// One of them.
    #[prost(oneof = "Said", tags = "1, 2, 3, 4, 5")]
    pub said: Option<Said>,
}

/// What an agent says.
#[derive(Clone, PartialEq, Oneof)]
pub enum Said {
    /// First of all.
    #[prost(message, tag = "1")]
    Hello(Hello),
    /// What changed; nothing did where it is empty, which is the heartbeat.
    #[prost(message, tag = "2")]
    Reports(Reports),
    /// What is known of containers, when it changes.
    #[prost(message, tag = "3")]
    Known(KnownContainers),
    /// May a container come?
    #[prost(message, tag = "4")]
    Answer(Answer),
    /// What was stopped here while the node was cut off, when it changes.
    #[prost(message, tag = "5")]
    Stopped(Stopped),
}

/// Who speaks. The certificate says so, too, and must say the same.
#[derive(Clone, PartialEq, Message)]
pub struct Hello {
    /// The node's name.
    #[prost(string, tag = "1")]
    pub name: String,
    /// Its GPUs.
    #[prost(message, repeated, tag = "2")]
    pub gpus: Vec<Gpu>,
}

/// One GPU.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct Gpu {
    /// Its index.
    #[prost(uint32, tag = "1")]
    pub gpu: u32,
    /// The vendor's name for it.
    #[prost(string, tag = "2")]
    pub name: String,
    /// Its memory.
    #[prost(uint64, tag = "3")]
    pub memory_total: u64,
}

/// What changed.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct Reports {
    /// See [`crate::report`].
    #[prost(bytes = "vec", tag = "1")]
    pub records: Vec<u8>,
    /// When it was sent, in microseconds since 1970: for measurements on one machine only.
    #[prost(int64, tag = "2")]
    pub sent_us: i64,
}

/// What is known of containers that masters placed.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct KnownContainers {
    /// Those of which something changed.
    #[prost(message, repeated, tag = "1")]
    pub containers: Vec<KnownContainer>,
}

/// One container.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct KnownContainer {
    /// The service it belongs to.
    #[prost(string, tag = "1")]
    pub service: String,
    /// What it runs, as the master labelled it.
    #[prost(string, tag = "2")]
    pub kind: String,
    /// How long its tasks take, as measured; 0 if nobody has.
    #[prost(int64, tag = "3")]
    pub run_us: i64,
    /// How many of its latest tasks missed, one after the other.
    #[prost(uint32, tag = "4")]
    pub missed_in_a_row: u32,
    /// The placement that this is about, as the container's label says.
    #[prost(string, tag = "5")]
    pub placement: String,
}

/// A worker's last word.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct Answer {
    /// The offer.
    #[prost(uint64, tag = "1")]
    pub offer: u64,
    /// It may come.
    #[prost(bool, tag = "2")]
    pub admitted: bool,
    /// Why not.
    #[prost(string, tag = "3")]
    pub reason: String,
}

/// What a node stopped, because it was cut off and others may run it by now.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct Stopped {
    /// It is cut off, and nothing that may move runs there any more.
    #[prost(bool, tag = "1")]
    pub nothing_runs: bool,
    /// The placements of containers that it stopped, the latest last.
    #[prost(string, repeated, tag = "2")]
    pub placements: Vec<String>,
}

/// What a master says.
#[derive(Clone, PartialEq, Message)]
pub struct FromMaster {
    /// One of them.
    #[prost(oneof = "Told", tags = "1, 2, 3, 4")]
    pub told: Option<Told>,
}

/// What a master says.
#[derive(Clone, PartialEq, Oneof)]
pub enum Told {
    /// First of all, and when something changed.
    #[prost(message, tag = "1")]
    Welcome(Welcome),
    /// May this container come?
    #[prost(message, tag = "2")]
    Offer(Offer),
    /// The master is stopped on purpose. One that starts anew gives nodes that it does not hear minutes, not seconds.
    #[prost(message, tag = "3")]
    Farewell(Farewell),
    /// A container that was let in does not come.
    #[prost(message, tag = "4")]
    Withdrawn(Withdrawn),
}

/// Whom to report to.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct Welcome {
    /// The masters' addresses.
    #[prost(string, repeated, tag = "1")]
    pub masters: Vec<String>,
    /// The engine has a leader, as far as this master sees: one that is cut off itself, with its agent, says no.
    #[prost(bool, tag = "2")]
    pub led: bool,
    /// The engine has lost this node, as far as this master sees.
    #[prost(bool, tag = "3")]
    pub lost: bool,
}

/// A master goes.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct Farewell {}

/// An offer that was admitted, and came to nothing.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct Withdrawn {
    /// Its placement.
    #[prost(string, tag = "1")]
    pub placement: String,
}

/// A container that may come.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct Offer {
    /// Names it in the answer.
    #[prost(uint64, tag = "1")]
    pub offer: u64,
    /// The GPU it is meant for.
    #[prost(uint32, tag = "2")]
    pub gpu: u32,
    /// How long its tasks may take; 0 without a deadline.
    #[prost(int64, tag = "3")]
    pub deadline_us: i64,
    /// How long they take, as measured elsewhere, or else as declared; 0 if nobody knows.
    #[prost(int64, tag = "4")]
    pub run_us: i64,
    /// The GPU memory it needs; 0 if nobody knows.
    #[prost(uint64, tag = "5")]
    pub memory: u64,
    /// Its placement, as its label will say.
    #[prost(string, tag = "6")]
    pub placement: String,
}

impl From<Said> for FromNode {
    fn from(said: Said) -> Self {
        Self { said: Some(said) }
    }
}

impl From<Told> for FromMaster {
    fn from(told: Told) -> Self {
        Self { told: Some(told) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_heartbeat_is_two_bytes_and_a_report_twenty() {
        let said = |records: Vec<u8>| FromNode::from(Said::Reports(Reports { records, sent_us: 0 }));
        assert_eq!(said(Vec::new()).encoded_len(), 2);
        assert_eq!(said(vec![0; crate::report::RECORD_BYTES]).encoded_len(), 20);
    }
}
