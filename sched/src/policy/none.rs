//! Touch nothing: the GPU's own time slicing decides.

use super::{Judgement, Policy, Scene};

/// Touch nothing.
pub struct None;

impl Policy for None {
    fn name(&self) -> &'static str {
        "none"
    }

    fn judge(&self, _: &Scene<'_>) -> Judgement {
        Judgement::default()
    }

    fn acts(&self) -> bool {
        false
    }
}
