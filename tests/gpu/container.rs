//! Containers: the options that `leeway gpu options` prints, on an image with nothing in it.

use crate::daemon::{self, output, stdout};
use crate::machine::{Machine, in_the_end, span};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

/// An image without a single file, in the tests' daemon.
fn empty_image(daemon: &daemon::Daemon) -> &'static str {
    static IMPORTED: OnceLock<()> = OnceLock::new();
    IMPORTED.get_or_init(|| {
        let folder = daemon::folder();
        let archive = folder.path().join("empty.tar");
        // Two blocks of zeros are the end of an archive, and here its beginning, too.
        std::fs::write(&archive, [0; 10_240]).expect("an archive");
        output(&mut daemon.docker(["import", archive.to_str().expect("a path"), "leeway-empty"]));
    });
    "leeway-empty"
}

/// `docker run` with the options, as a shell would put them there.
fn run(daemon: &daemon::Daemon, machine: &Machine, options: &[&str], words: &[&str]) -> Command {
    let given = stdout(&output(&mut machine.gpu(&["options"])));
    assert_eq!(given.lines().count(), 1);
    let mut command = daemon.docker(["run", "--rm", "--network", "none"]);
    command.args(options).args(given.split_whitespace()).args(words);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

#[test]
fn an_empty_image_runs_a_cuda_program() {
    let (daemon, machine) = (daemon::shared(), Machine::start(&[]));
    let image = empty_image(daemon);
    let mut command =
        run(daemon, &machine, &[], &[image, "leeway", "work", "matmul", "--n", "1024", "--json"]);
    let report: serde_json::Value = serde_json::from_str(&stdout(&output(&mut command))).unwrap();
    assert_eq!(report["ok"], true);
    assert_eq!(report["pid"], 1, "it has a pid of its own in the container");
    assert!(span(&report, "init", "end") > 0.2, "{report}");
}

#[test]
fn the_options_go_with_leeways_own() {
    let (daemon, machine) = (daemon::shared(), Machine::start(&[]));
    let given = stdout(&output(&mut machine.gpu(&["options"])));
    let mut command = daemon.leeway(["run", "--rm", "--deadline", "20s"]);
    command.args(given.split_whitespace()).args([empty_image(daemon), "leeway", "work", "matmul", "--json"]);
    assert!(stdout(&output(&mut command)).contains("\"ok\":true"));
}

#[test]
fn any_user_of_an_image_with_its_own_programs_runs_one_too() {
    let (daemon, machine) = (daemon::shared(), Machine::start(&[]));
    let words = [daemon::IMAGE, "sh", "-c", "id -u && leeway work matmul --n 64 --json"];
    let text = stdout(&output(&mut run(daemon, &machine, &["--user", "1000:1000"], &words)));
    let (user, report) = text.split_once('\n').unwrap();
    assert_eq!(user, "1000");
    assert!(report.contains("\"ok\":true"), "{report}");
}

#[test]
fn nvml_lists_a_container_s_process_by_its_pid_on_the_host() {
    let (daemon, machine) = (daemon::shared(), Machine::start(&[]));
    let image = empty_image(daemon);
    let name = format!("hold-{}", std::process::id());
    let words = [image, "leeway", "work", "hold", "--memory", "1GiB", "--for", "1m", "--json"];
    let id = stdout(&output(&mut run(daemon, &machine, &["-d", "--name", &name], &words)));
    let inspected = output(&mut daemon.docker(["inspect", "--format", "{{.State.Pid}}", &id]));
    let pid: u32 = stdout(&inspected).parse().unwrap();
    let nvml = machine.nvml();
    let device = nvml.device_by_index(0).unwrap();
    in_the_end("NVML lists it", || {
        device.running_compute_processes().unwrap().iter().any(|process| process.pid == pid)
    });
    output(&mut daemon.docker(["rm", "-f", &id]));
    in_the_end("NVML lists nobody", || device.running_compute_processes().unwrap().is_empty());
}
