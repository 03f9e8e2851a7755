//! Everything once more on cgroup version 2, on a machine that has version 1.
//!
//! In a mount namespace of its own, where version 2 is all there is: Docker's daemon, the containers, the agent and the tests themselves.

use std::path::Path;
use std::process::Command;

/// Set where the tests run for the second time.
const AGAIN: &str = "LEEWAY_TEST_ON_VERSION_2";

#[test]
fn everything_again_on_cgroup_version_2() {
    if std::env::var_os(AGAIN).is_some() || !Path::new("/sys/fs/cgroup/freezer").is_dir() {
        eprintln!("this is cgroup version 2");
        return;
    }
    // The rest of this run comes first.
    let _turn = crate::errors::alone();
    let alone = "mount --make-rprivate / && umount -R /sys/fs/cgroup && mount -t cgroup2 none /sys/fs/cgroup \
                 && exec \"$0\" --test-threads 1 --nocapture";
    let mut tests = Command::new("unshare");
    tests.args(["--mount", "sh", "-c", alone]).arg(std::env::current_exe().expect("this program"));
    let status = tests.env(AGAIN, "1").env_remove("LEEWAY_TEST_DOCKER_HOST").status().expect("unshare");
    assert!(status.success(), "on version 2 something fails that works on version 1");
}
