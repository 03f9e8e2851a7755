//! The cluster with real parts: TLS, gRPC, masters and agents as processes. Those with Docker's swarm are in `tests/swarm`.

mod hall;
mod security;
