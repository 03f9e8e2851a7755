//! Why a node was chosen, or why not: one sentence each, the same in log, CLI, API and page.

use core::fmt;

use super::Strategy;
use crate::node::Float;
use crate::time::Span;

/// Why a node was chosen, or why not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// Chosen by `spread`.
    MostFloatLeft {
        /// Float of the node after the placement.
        left: Float,
    },
    /// Chosen by `best-fit`.
    NearestFloat {
        /// Float of the node before the placement.
        float: Float,
    },
    /// Chosen by `memory`.
    MostMemory {
        /// Free GPU memory there, in bytes.
        memory_free: u64,
    },
    /// It has not reported for too long.
    Silent {
        /// How long.
        age: Span,
    },
    /// The latest task of one of its containers missed.
    Missed,
    /// Its GPU memory is at 100 %.
    MemoryFull,
    /// Its GPU core is at 100 %, which strategy `memory` minds.
    CoreFull,
    /// The worker refused the container.
    Refused,
    /// The container needs more GPU memory.
    LittleMemory {
        /// What is free and not reserved, in bytes.
        free: u64,
        /// What the container needs, in bytes.
        needed: u64,
    },
    /// The container needs more float.
    LittleFloat {
        /// What the node has.
        float: Float,
        /// It must have more than this.
        needed: Span,
    },
    /// It fits, but the strategy prefers the chosen one.
    Outranked {
        /// The strategy that compared them.
        strategy: Strategy,
        /// What the node offers.
        offer: Offer,
        /// What the chosen node offers.
        chosen: Offer,
    },
}

/// What strategies compare.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offer {
    /// Float before the placement.
    pub float: Float,
    /// Free GPU memory, in bytes.
    pub memory_free: u64,
}

impl Reason {
    /// Whether this is why a node was chosen.
    pub fn is_chosen(&self) -> bool {
        use Reason::{MostFloatLeft, MostMemory, NearestFloat};
        matches!(self, MostFloatLeft { .. } | NearestFloat { .. } | MostMemory { .. })
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reason::MostFloatLeft { left } => write!(f, "the most float left after it: {left}"),
            Reason::NearestFloat { float } => write!(f, "its float of {float} exceeds the deadline by least"),
            Reason::MostMemory { memory_free } => {
                write!(f, "the most free GPU memory with enough float: {}", Bytes(*memory_free))
            }
            Reason::Silent { age } => write!(f, "no report for {age}"),
            Reason::Missed => f.write_str("a container there missed its deadline"),
            Reason::MemoryFull => f.write_str("its GPU memory is full"),
            Reason::CoreFull => f.write_str("its GPU core is at 100 %"),
            Reason::Refused => f.write_str("it refused"),
            Reason::LittleMemory { free, needed } => {
                write!(f, "{} of GPU memory free, {} needed", Bytes(*free), Bytes(*needed))
            }
            Reason::LittleFloat { float, needed } => {
                write!(f, "a float of {float}, more than {needed} needed")
            }
            Reason::Outranked { strategy, offer, chosen } => outranked(f, *strategy, offer, chosen),
        }
    }
}

fn outranked(f: &mut fmt::Formatter<'_>, strategy: Strategy, offer: &Offer, chosen: &Offer) -> fmt::Result {
    f.write_str("it fits, but the chosen node ")?;
    let (float, memory) = (chosen.float, Bytes(chosen.memory_free));
    match strategy {
        Strategy::Memory if chosen.memory_free != offer.memory_free => {
            write!(f, "has {memory} of GPU memory free, this one {}", Bytes(offer.memory_free))
        }
        Strategy::Spread if chosen.float != offer.float => {
            write!(f, "has a float of {float}, this one {}", offer.float)
        }
        Strategy::BestFit | Strategy::Memory if chosen.float != offer.float => {
            write!(f, "fits more tightly: a float of {float}, this one {}", offer.float)
        }
        _ if chosen.memory_free != offer.memory_free => {
            write!(f, "fits more tightly: {memory} of GPU memory free, this one {}", Bytes(offer.memory_free))
        }
        _ => f.write_str("comes first among equals"),
    }
}

/// An amount of memory, as people write it: `24GiB`, `1536MiB`, `100KiB`, `7B`. Exact where the whole
/// unit is; otherwise in the next smaller unit, rounded down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bytes(pub u64);

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const KIB: u64 = 1 << 10;
        const MIB: u64 = 1 << 20;
        const GIB: u64 = 1 << 30;
        match self.0 {
            bytes if bytes >= GIB && bytes % GIB == 0 => write!(f, "{}GiB", bytes / GIB),
            bytes if bytes >= MIB => write!(f, "{}MiB", bytes / MIB),
            bytes if bytes >= KIB => write!(f, "{}KiB", bytes / KIB),
            bytes => write!(f, "{bytes}B"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn memory_is_written_as_people_write_it() {
        assert_eq!(Bytes(24 << 30).to_string(), "24GiB");
        assert_eq!(Bytes(1_536 << 20).to_string(), "1536MiB");
        assert_eq!(Bytes(100 << 10).to_string(), "100KiB");
        assert_eq!(Bytes(0).to_string(), "0B");
    }

    #[test]
    fn an_outranked_node_is_told_by_what() {
        let offer =
            |secs, gib: u64| Offer { float: Float::Limited(Span::from_secs(secs)), memory_free: gib << 30 };
        let said = |strategy, offer, chosen| Reason::Outranked { strategy, offer, chosen }.to_string();
        assert_eq!(
            said(Strategy::Spread, offer(1, 4), offer(3, 4)),
            "it fits, but the chosen node has a float of 3s, this one 1s"
        );
        assert_eq!(
            said(Strategy::Spread, offer(3, 8), offer(3, 4)),
            "it fits, but the chosen node fits more tightly: 4GiB of GPU memory free, this one 8GiB"
        );
        assert_eq!(
            said(Strategy::BestFit, offer(5, 8), offer(3, 4)),
            "it fits, but the chosen node fits more tightly: a float of 3s, this one 5s"
        );
        assert_eq!(
            said(Strategy::Memory, offer(5, 4), offer(3, 8)),
            "it fits, but the chosen node has 8GiB of GPU memory free, this one 4GiB"
        );
        assert_eq!(
            said(Strategy::Memory, offer(3, 8), offer(3, 8)),
            "it fits, but the chosen node comes first among equals"
        );
    }
}
