//! What `leeway work … --json` prints: one object.

use serde::{Serialize, Serializer};
use serde_json::value::RawValue;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// A wall-clock time: seconds since the epoch, with six decimals.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment(SystemTime);

/// When each phase of a CUDA program ended, by its own clock.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct WorkReport {
    /// The program's pid as it knows it: in a container, its pid there.
    pub pid: u32,
    /// What the driver calls the device.
    pub device: String,
    /// Just before `cuInit`.
    pub init: Moment,
    /// The context is there.
    pub context: Moment,
    /// The memory is allocated.
    pub allocated: Moment,
    /// The input is on the device.
    pub input: Moment,
    /// The last kernel is done.
    pub kernel: Moment,
    /// The output is in host memory.
    pub output: Moment,
    /// Everything is freed; the program exits.
    pub end: Moment,
    /// Every call succeeded and the result is right, as far as the device computes one.
    pub ok: bool,
    /// Kernels that were run, all together.
    pub kernels: u64,
    /// Kernels per second between the input and the last kernel.
    pub kernels_per_second: f64,
    /// Each request of a server: from the moment it arrives until its work is done.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub requests: Vec<WorkRequest>,
}

/// One request of a server.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct WorkRequest {
    /// It is due to arrive. Until it starts it waits for the requests before it, which is part of what it takes.
    pub arrived: Moment,
    /// Just before its input is copied.
    pub start: Moment,
    /// Just before its kernel is launched.
    pub launch: Moment,
    /// That call has returned.
    pub launched: Moment,
    /// Its kernel is done.
    pub end: Moment,
}

impl Moment {
    /// The time now.
    pub fn now() -> Self {
        Self(SystemTime::now())
    }

    /// So long before this one.
    #[must_use]
    pub fn earlier_by(self, span: Duration) -> Self {
        Self(self.0.checked_sub(span).unwrap_or(UNIX_EPOCH))
    }

    /// Seconds from an earlier moment; zero if it is later.
    pub fn seconds_since(self, earlier: Self) -> f64 {
        self.0.duration_since(earlier.0).unwrap_or_default().as_secs_f64()
    }
}

impl Serialize for Moment {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let micros = self.0.duration_since(UNIX_EPOCH).unwrap_or_default().as_micros();
        let text = format!("{}.{:06}", micros / 1_000_000, micros % 1_000_000);
        RawValue::from_string(text).map_err(serde::ser::Error::custom)?.serialize(serializer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_has_six_decimals() {
        let moment = Moment(UNIX_EPOCH + Duration::from_millis(1_794_735_640_500));
        assert_eq!(serde_json::to_string(&moment).unwrap(), "1794735640.500000");
        let earlier = moment.earlier_by(Duration::from_millis(1_500));
        assert_eq!(serde_json::to_string(&earlier).unwrap(), "1794735639.000000");
    }
}
