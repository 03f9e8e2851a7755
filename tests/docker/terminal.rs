//! Exit codes, signals, pipes and terminals are Docker's own.

use crate::daemon::{IMAGE, folder, leeway_program, output, shared, stdout};
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// What a container does for as long as nobody stops it.
const FOREVER: &str = "while :; do sleep 0.1; done";

/// Docker and Leeway, which must do the same.
fn both() -> [&'static str; 2] {
    ["docker", leeway_program()]
}

/// The options that every run here has.
fn run_words<'a>(program: &str, more: &[&'a str]) -> Vec<&'a str> {
    let deadline: &[&str] = if program == "docker" { &[] } else { &["-dl", "2"] };
    [&["run", "--rm", "--net=none"], deadline, more].concat()
}

#[test]
fn the_exit_code_is_the_containers() {
    for program in both() {
        for code in [0, 1, 7, 125, 255] {
            let words = run_words(program, &[IMAGE, "sh", "-c"]);
            let exit = format!("exit {code}");
            let output = shared().program(program, words).arg(exit).output().unwrap();
            assert_eq!(output.status.code(), Some(code), "{program}");
        }
    }
}

#[test]
fn a_signal_to_leeway_reaches_the_container() {
    for program in both() {
        for (signal, more, code) in [
            ("TERM", "trap 'exit 9' TERM", 9),
            ("INT", "trap 'exit 4' INT", 4),
            ("USR1", "trap 'exit 5' USR1", 5),
        ] {
            let story = format!("{more}; echo ready; {FOREVER}");
            let words = run_words(program, &[IMAGE, "sh", "-c", &story]);
            assert_eq!(signalled(program, &words, signal), Some(code), "{program} {signal}");
        }
        let words = run_words(program, &["--init", IMAGE, "sh", "-c", "echo ready; exec sleep 1000"]);
        assert_eq!(signalled(program, &words, "TERM"), Some(128 + 15), "{program}");
    }
}

/// Sends a signal once the container is ready; the exit code that comes of it.
fn signalled(program: &str, words: &[&str], signal: &str) -> Option<i32> {
    let mut child = shared()
        .program(program, words.iter().copied())
        .stdout(Stdio::piped())
        .spawn()
        .expect("a program to run");
    let mut lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
    assert_eq!(lines.next().and_then(Result::ok).as_deref(), Some("ready"));
    output(Command::new("kill").args(["-s", signal, &child.id().to_string()]));
    ended(&mut child)
}

/// How a child ended. One that does not end must fail the test, not hang it.
pub(crate) fn ended(child: &mut Child) -> Option<i32> {
    for _ in 0..600 {
        if let Some(status) = child.try_wait().expect("a child") {
            return status.code();
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    child.kill().expect("a child");
    panic!("it did not end")
}

#[test]
fn what_goes_in_comes_out() {
    for program in both() {
        let words = run_words(program, &["-i", IMAGE, "sh", "-c", "cat; echo problem >&2"]);
        let mut command = shared().program(program, words);
        let piped = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = piped.spawn().unwrap();
        child.stdin.take().unwrap().write_all(b"words\0 and bytes \xff").unwrap();
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.stdout, b"words\0 and bytes \xff", "{program}");
        assert_eq!(output.stderr, b"problem\n", "{program}");
    }
}

/// Runs a line of shell in a terminal of its own, with what is typed there.
fn in_terminal(program: &str, line: &str, typed: &str) -> (Option<i32>, String) {
    let mut terminal = shared().program("script", ["-qec", line, "/dev/null"]);
    terminal.env("PROGRAM", program).env("RUN", run_words(program, &[]).join(" ")).env("IMAGE", IMAGE);
    let mut child = terminal.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("a program to run");
    let mut keyboard = child.stdin.take().expect("a pipe");
    keyboard.write_all(typed.as_bytes()).expect("a keyboard");
    // The keyboard stays until the end: a terminal that hangs up ends the story early.
    let mut screen = String::new();
    let mut lines = BufReader::new(child.stdout.take().expect("a pipe"));
    while lines.read_line(&mut screen).expect("a screen") > 0 {}
    drop(keyboard);
    (child.wait().expect("a child").code(), screen)
}

#[test]
fn a_terminal_gives_its_size_and_gets_the_exit_code() {
    let story = r#"stty rows 33 cols 111; exec $PROGRAM $RUN -it $IMAGE sh -c '
        until [ "$(stty size)" = "33 111" ]; do sleep 0.1; done; tty; exit 7'"#;
    for program in both() {
        let (code, screen) = in_terminal(program, story, "");
        assert_eq!(code, Some(7), "{program}: {screen}");
        assert!(screen.contains("/dev/pts/0") || screen.contains("/dev/console"), "{program}: {screen}");
    }
}

#[test]
fn a_terminal_that_changes_size_changes_the_containers() {
    for program in both() {
        let shared_folder = folder();
        let story = format!(
            r#"stty rows 33 cols 111
            (until [ -e {0}/ready ]; do sleep 0.1; done; stty rows 40 cols 120 </dev/tty) &
            exec $PROGRAM $RUN -it -v {0}:/shared $IMAGE sh -c '
                until [ "$(stty size)" = "33 111" ]; do sleep 0.1; done; touch /shared/ready
                until [ "$(stty size)" = "40 120" ]; do sleep 0.1; done; exit 5'"#,
            shared_folder.path().display()
        );
        let (code, screen) = in_terminal(program, &story, "");
        assert_eq!(code, Some(5), "{program}: {screen}");
    }
}

#[test]
fn what_is_typed_reaches_the_container() {
    for program in both() {
        let story = "exec $PROGRAM $RUN -it $IMAGE sh -c 'read answer; echo answer was $answer; exit 3'";
        let (code, screen) = in_terminal(program, story, "forty-two\r");
        assert_eq!(code, Some(3), "{program}: {screen}");
        assert!(screen.contains("answer was forty-two"), "{program}: {screen}");
    }
}

#[test]
fn a_detached_container_leaves_its_id() {
    let daemon = shared();
    let id = stdout(&output(&mut daemon.leeway(["run", "-d", "--rm", "--net=none", IMAGE, "sleep", "1000"])));
    assert_eq!(id.len(), 64, "{id}");
    output(&mut daemon.docker(["kill", &id]));
}
