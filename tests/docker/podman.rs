//! Podman's Docker socket is one more address for `DOCKER_HOST`.

use crate::daemon::{IMAGE, folder, leeway_program, output, shared, stdout};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// Podman's service, which ends with the test.
struct Service {
    process: Child,
    /// A mount that podman leaves behind, and that would keep its folder from being removed.
    mount: PathBuf,
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        let _ = Command::new("umount").arg(&self.mount).output();
    }
}

impl Service {
    fn start(directory: &Path) -> (Self, String) {
        let socket = directory.join("podman.sock");
        let host = format!("unix://{}", socket.display());
        let mut podman = Command::new("podman");
        podman.arg("--root").arg(directory.join("root")).arg("--runroot").arg(directory.join("run"));
        podman.args(["system", "service", "--time=0", &host]).stdout(Stdio::null()).stderr(Stdio::null());
        let process = podman.spawn().expect("podman: run scripts/docker-for-tests install");
        let service = Self { process, mount: directory.join("root/overlay") };
        for _ in 0..600 {
            if Command::new("docker")
                .args(["-H", &host, "version"])
                .output()
                .is_ok_and(|o| o.status.success())
            {
                return (service, host);
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        panic!("podman does not answer at {host}")
    }
}

#[test]
fn podman_keeps_deadlines_too() {
    let directory = folder();
    let (_service, host) = Service::start(directory.path());
    let podman = |program: &str, words: &[&str]| {
        let mut command = Command::new(program);
        command.args(words).env("DOCKER_HOST", &host).env_remove("DOCKER_CONTEXT");
        command.env("DOCKER_CONFIG", directory.path()).env("LEEWAY_STATE_DIR", directory.path());
        stdout(&output(&mut command))
    };
    let archive = directory.path().join("image.tar").to_string_lossy().into_owned();
    output(&mut shared().docker(["create", "--name=for-podman", IMAGE]));
    output(&mut shared().docker(["export", "--output", &archive, "for-podman"]));
    podman("docker", &["import", "--change", "CMD [\"sh\"]", &archive, IMAGE]);
    let leeway = |words: &[&str]| podman(leeway_program(), words);
    let id = leeway(&["create", "--net=host", "--name=pod", "-dl", "2", IMAGE]);
    let shown = leeway(&["ps", "-a", "--no-trunc", "--format={{.ID}} {{.Names}} {{.Deadline}}"]);
    assert_eq!(shown, format!("{id} pod 2s"));
    assert_eq!(leeway(&["deadline", "set", &id[..12], "1m30s"]), "1m30s");
    assert!(leeway(&["ps", "-a", "--json"]).contains("\"deadline_us\":90000000"));
    assert_eq!(leeway(&["deadline", "clear", "pod"]), "2s");
}
