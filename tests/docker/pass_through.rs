//! Whatever Docker understands, it gets as it was typed.

use crate::daemon::{Daemon, IMAGE, folder, leeway_program, output, refused, shared, stderr, stdout};
use crate::inspect::{assert_same, inspect, take_label};
use std::process::Command;

/// Command lines for `create`, as a shell reads them. `@` is where Leeway's option goes; Docker's line goes without it.
const AWKWARD: [&str; 36] = [
    "@ IMAGE",
    "-it @ IMAGE sh",
    "-itw /tmp @ IMAGE sh -c 'echo $HOME; exit'",
    "-ti -a stdin -a=stdout @ IMAGE",
    "@ -eFOO=1 IMAGE env",
    "-ite FOO=1 @ IMAGE env",
    "-e --deadline @ IMAGE",
    "-e -dl @ IMAGE -e",
    "-e -- @ IMAGE --",
    "-e=A=b @ --env=C=d=e --env 'F=g  h' IMAGE",
    "-w '' -e 'NEWLINE=a\nb' @ IMAGE",
    "-e 'GREETING=dobrý den' @ IMAGE echo 日本 'a\"b'",
    "@ -- IMAGE sh -c true",
    "@ IMAGE -- echo",
    "@ IMAGE echo --deadline 5 -dl 3 --swap",
    "--label=a=b -l c=d @ -l e IMAGE",
    "@ --label 'story=once upon a time = long ago' IMAGE",
    "--label-file $FILES/labels --env-file=$FILES/variables @ IMAGE",
    "@ --name=given-name -h host.example IMAGE",
    "--entrypoint /bin/sh @ IMAGE -c 'exit 3'",
    "--entrypoint= @ IMAGE true",
    "@ -v /tmp:/host:ro -v /nameless --mount type=tmpfs,dst=/scratch IMAGE",
    "--net none @ IMAGE",
    "--network=none --dns 192.0.2.1 --dns-opt ndots:1 --dns-search=example @ IMAGE",
    "-p 8080:80 -p127.0.0.1:8443:443/udp --expose 9000-9002 -P @ IMAGE",
    "-m 64m --memory-swap -1 --cpus .5 --cpu-shares=512 @ IMAGE",
    "--pids-limit -1 --oom-score-adj -500 --memory-swappiness=-1 @ IMAGE",
    "--ulimit nofile=10:20 --sysctl net.ipv4.ip_forward=1 @ IMAGE",
    "--health-cmd 'true || false' --health-interval=5s --no-healthcheck=false @ IMAGE",
    "--restart on-failure:3 --init @ IMAGE",
    "--tty=false --interactive=true --privileged=0 @ IMAGE",
    "-u 1000:1000 --group-add 5 --cap-add NET_ADMIN --cap-drop=ALL --security-opt no-new-privileges @ IMAGE",
    "--device /dev/null:/dev/nothing:r --gpus all @ IMAGE",
    "--read-only --rm --shm-size=1g --tmpfs /run:size=1m @ IMAGE",
    "--stop-signal INT --stop-timeout 7 --log-driver none @ IMAGE",
    "--pull never --platform=linux/amd64 --isolation default @ IMAGE 'a b' '' '*' '$x' '\\'",
];

#[test]
fn awkward_command_lines_mean_what_they_mean_to_docker() {
    let daemon = shared();
    let files = folder();
    std::fs::write(files.path().join("labels"), "from=file\n").unwrap();
    std::fs::write(files.path().join("variables"), "FROM=file\n").unwrap();
    for line in AWKWARD {
        let create = |program: &str, own: &str| {
            let line = line.replace('@', own);
            let mut shell = in_shell(daemon, program, "create", &line);
            let id = stdout(&output(shell.env("FILES", files.path())));
            let inspected = inspect(daemon, &id);
            output(&mut daemon.docker(["rm", "-v", &id]));
            inspected
        };
        let plain = create("docker", "");
        assert_same(&create(leeway_program(), ""), &plain, line);
        for own in ["-dl 2", "--deadline=2s"] {
            let mut with_deadline = create(leeway_program(), own);
            assert_eq!(take_label(&mut with_deadline, "leeway.deadline").as_deref(), Some("2s"), "{line}");
            assert_same(&with_deadline, &plain, line);
        }
    }
}

#[test]
fn a_label_after_dl_is_dockers_detach_and_label() {
    let daemon = shared();
    for line in ["-dl key=value IMAGE true", "-dl=key=value IMAGE true", "-dlkey=value IMAGE true"] {
        let run = |program| {
            let id = stdout(&output(&mut in_shell(daemon, program, "run", line)));
            inspect(daemon, &id)
        };
        let inspected = run(leeway_program());
        assert_eq!(inspected["Config"]["Labels"], serde_json::json!({"key": "value"}), "{line}");
        assert_same(&inspected, &run("docker"), line);
    }
}

#[test]
fn what_docker_refuses_is_refused_by_docker() {
    let daemon = shared();
    for (command, line) in [
        ("run", ""),
        ("run", "--"),
        ("run", "''"),
        ("run", "-"),
        ("run", "--nonsense IMAGE"),
        ("run", "--nonsense=1 IMAGE"),
        ("run", "-Z IMAGE"),
        ("run", "--name"),
        ("run", "-e"),
        ("create", "-dl key=value IMAGE"),
        ("create", "--memory nonsense IMAGE"),
        ("run", "--pull never no-such-image"),
        ("run", "--rm --net none IMAGE no-such-program"),
    ] {
        let run = |program| {
            let output = refused(&mut in_shell(daemon, program, command, line));
            // What follows the first line may be a race of Docker's with itself.
            let message = stderr(&output).lines().next().map(without_ids);
            (output.status.code(), stdout(&output), message)
        };
        assert_eq!(run(leeway_program()), run("docker"), "{command} {line}");
    }
}

#[test]
fn help_is_leeways_and_points_at_dockers() {
    let help = stdout(&output(&mut shared().leeway(["run", "-it", "--help"])));
    for word in ["--deadline", "-dl", "--gpu-memory", "--hold-max", "--node", "docker run --help"] {
        assert!(help.contains(word), "{word}:\n{help}");
    }
    // After the image it is the command's, and as a value it is the option's.
    let words = ["run", "--rm", "--net=none", "-e", "--help", IMAGE, "echo", "--help"];
    assert_eq!(stdout(&output(&mut shared().leeway(words))), "--help");
}

fn in_shell(daemon: &Daemon, program: &str, command: &str, line: &str) -> Command {
    let line = line.replace("IMAGE", IMAGE);
    daemon.program("sh", ["-c", &format!("exec \"$0\" {command} {line}"), program])
}

/// Messages about a container that failed to start may name it.
fn without_ids(text: &str) -> String {
    let is_id = |word: &&str| word.len() >= 12 && word.bytes().all(|byte| byte.is_ascii_hexdigit());
    text.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !is_id(word)).collect::<Vec<_>>().join(" ")
}
