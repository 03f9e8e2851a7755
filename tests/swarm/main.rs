//! The cluster on a real swarm of three nodes: by `scripts/swarm-tests`, for it takes minutes and a quiet machine.

#[path = "../cluster/hall.rs"]
#[expect(dead_code, reason = "the tests without a swarm use more of it")]
mod hall;
mod losses;
mod placement;
#[path = "../agent/running.rs"]
mod running;
mod town;
