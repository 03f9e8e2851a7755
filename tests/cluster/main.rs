//! The cluster with real parts: TLS, gRPC, masters and agents as processes, and Docker's swarm.

mod hall;
mod security;

mod town;

mod losses;
mod placement;
