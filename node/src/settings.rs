//! The numbers that an agent's decisions go by, the same when it decides and when a recording is replayed.

use sched::{Settings, Span};

/// Room for a context: 400 MiB on the simulated GPU, about 500 MiB on an H200.
const CONTEXT_BYTES: u64 = 512 << 20;

/// A free is seen when the program asks for it, and the driver does it within milliseconds, once the program's work is done.
const GIVE_BACK: Span = Span::from_millis(50);

/// The settings of an agent. How long a burst must stay drained is the operator's to say.
pub(crate) fn with_burst_gap(burst_gap: Span) -> Settings {
    Settings { burst_gap, context: CONTEXT_BYTES, give_back: GIVE_BACK, ..Settings::default() }
}
