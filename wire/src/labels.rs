//! The labels of a container that Leeway reads, and the words they take.
//!
//! A label is part of the container's own configuration, so it lives as long as the container and
//! survives a restart of Docker and of the machine.

use serde::{Deserialize, Serialize};

/// How long a task may take, from its start: a duration.
pub const DEADLINE: &str = "leeway.deadline";
/// What delimits a task: a [`Mode`].
pub const TASK: &str = "leeway.task";
/// Declared run time of a task, believed only until measured: a duration.
pub const EXPECT: &str = "leeway.expect";
/// Declared GPU memory of a task, believed only until measured: a size.
pub const GPU_MEMORY: &str = "leeway.gpu.memory";
/// The longest single hold the container's tasks accept: a duration.
pub const HOLD_MAX: &str = "leeway.hold.max";
/// Whether the container's GPU memory may be swapped out: `true` or `false`.
pub const SWAP: &str = "leeway.swap";
/// Whether the container may move to another node: `true` or `false`.
pub const MIGRATE: &str = "leeway.migrate";

/// Whether the container may be touched though no other label says so (`true`), or not though one does (`false`).
pub const MANAGE: &str = "leeway.manage";
/// Every label that starts so is ours.
pub const PREFIX: &str = "leeway.";

/// Every label there is.
pub const ALL: [&str; 8] = [DEADLINE, TASK, EXPECT, GPU_MEMORY, HOLD_MAX, SWAP, MIGRATE, MANAGE];

/// What delimits a task.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// From a process's first use of the GPU until its exit.
    #[default]
    Process,
    /// From GPU memory above zero until it is back to zero.
    Memory,
    /// From the first work submitted after idling until it has drained.
    Burst,
}

/// Why a text is no mode. It names the value and what is accepted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("'{value}' is not a kind of task: accepted are process, memory, burst")]
pub struct NotAMode {
    /// The text as it was given.
    pub value: String,
}

impl Mode {
    /// Every mode, the default first.
    pub const ALL: [Mode; 3] = [Mode::Process, Mode::Memory, Mode::Burst];

    /// Its name on the command line, in labels and in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Mode::Process => "process",
            Mode::Memory => "memory",
            Mode::Burst => "burst",
        }
    }
}

impl std::str::FromStr for Mode {
    type Err = NotAMode;

    fn from_str(text: &str) -> Result<Self, NotAMode> {
        let named = Mode::ALL.into_iter().find(|mode| mode.name() == text);
        named.ok_or_else(|| NotAMode { value: text.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mode_has_one_name_everywhere() {
        for mode in Mode::ALL {
            assert_eq!(mode.name().parse(), Ok(mode));
            assert_eq!(serde_json::to_string(&mode).unwrap(), format!("\"{}\"", mode.name()));
        }
        let refused = "Process".parse::<Mode>().unwrap_err().to_string();
        assert!(refused.contains("'Process'") && refused.contains("burst"), "{refused}");
    }
}
