//! A copy of the program under test.

use crate::daemon::leeway_program;
use std::path::Path;
use std::process::Command;

/// Copies the program. By a process of its own: whatever another thread starts while this one writes would hold the copy open for
/// writing for a moment, in which it cannot be run.
pub(crate) fn copy_program(to: &Path) {
    let done = Command::new("cp").arg(leeway_program()).arg(to).status();
    assert!(done.is_ok_and(|status| status.success()), "no copy of the program in {}", to.display());
}
