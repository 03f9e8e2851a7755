//! Kinds of requests: who asks them, what they need, and whether a reply follows.

use crate::message::{Request, device_of};

impl Request {
    /// Whether it is asked about a device or another process, by one that need not use the device itself.
    pub(crate) fn is_of_an_observer(self) -> bool {
        use Request::{
            Checkpoint, Consent, Count, Lock, Lose, Recover, Restore, Samples, Snapshot, State, Subscribe,
            Unlock,
        };
        matches!(
            self,
            Consent { .. }
                | Count { .. }
                | Snapshot { .. }
                | Subscribe { .. }
                | Samples { .. }
                | Lose { .. }
                | Recover { .. }
                | Lock { .. }
                | Checkpoint { .. }
                | Restore { .. }
                | Unlock { .. }
                | State { .. }
        )
    }

    /// Whether the reply is a list.
    pub(crate) fn has_large_reply(self) -> bool {
        matches!(self, Self::Snapshot { .. } | Self::Samples { .. } | Self::Subscribe { .. })
    }

    /// Whether NVML's figures may be others after it.
    pub(crate) fn changes_figures(self) -> bool {
        use Request::{Allocate, CreateContext, DestroyContext, Free};
        matches!(self, Allocate { .. } | CreateContext { .. } | DestroyContext { .. } | Free { .. })
    }

    /// Whether the client waits for no reply.
    pub(crate) fn is_one_way(self) -> bool {
        use Request::{Await, Copy, Kernel, Record};
        matches!(self, Kernel { .. } | Copy { .. } | Record { .. } | Await { .. })
    }

    /// Whether the answer depends on what was submitted before.
    pub(crate) fn asks_about_work(self) -> bool {
        use Request::{DestroyContext, Elapsed, Finish, FinishAll, FinishEvent, Query, QueryEvent};
        matches!(
            self,
            Finish { .. }
                | FinishAll { .. }
                | Query { .. }
                | QueryEvent { .. }
                | FinishEvent { .. }
                | Elapsed { .. }
                | DestroyContext { .. }
        )
    }

    /// The device it needs, where it needs one.
    pub(crate) fn device(self) -> Option<usize> {
        match self {
            Self::CreateContext { device }
            | Self::Allocate { device, .. }
            | Self::FinishAll { device }
            | Self::MemoryInfo { device } => Some(device as usize),
            Self::Kernel { stream, .. }
            | Self::Copy { stream, .. }
            | Self::Record { stream, .. }
            | Self::Await { stream, .. }
            | Self::Finish { stream }
            | Self::Query { stream } => Some(device_of(stream)),
            _ => None,
        }
    }
}
