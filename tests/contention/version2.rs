//! The same stories on cgroup version 2, on a machine that has version 1: in a mount namespace of their own, where version 2 stands
//! where version 1 stood, with a Docker daemon and an agent that know nothing else.

use crate::daemon::{stderr, stdout};
use std::path::Path;
use std::process::Command;

/// Set in the process that runs there.
const THERE: &str = "LEEWAY_TEST_CGROUP2";

const MOUNT: &str =
    "umount -R /sys/fs/cgroup && mount -t cgroup2 cgroup2 /sys/fs/cgroup && exec \"$0\" \"$@\"";

#[test]
fn on_cgroup_version_2_everything_is_as_on_version_1() {
    let there_already = Path::new("/sys/fs/cgroup/cgroup.controllers").exists();
    if there_already || std::env::var_os(THERE).is_some() {
        return;
    }
    let us = std::env::current_exe().expect("this program's own file");
    let stories = ["faults::", "living::", "words::", "order::", "memory::"];
    let mut command = Command::new("unshare");
    command.args(["--mount", "--propagation", "private", "sh", "-c", MOUNT]).arg(us).args(stories);
    // One at a time: this machine runs the others meanwhile.
    command.args(["--test-threads", "1"]).env(THERE, "1").env_remove("LEEWAY_TEST_DOCKER_HOST");
    let output = command.output().expect("unshare");
    assert!(output.status.success(), "{}\n{}", stdout(&output), stderr(&output));
    assert!(stdout(&output).contains("test result: ok. 33 passed"), "{}", stdout(&output));
}
