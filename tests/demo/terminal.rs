//! On a terminal there is more to see while it lasts, and the same when it is over.

use crate::theatre::{On, Theatre};
use std::io::{Read, Write};
use std::process::{Command, Stdio};

/// What a show puts on a terminal, with what is typed there once something is on the screen. Its exit code, its pid.
fn on_terminal(theatre: &Theatre, colours: bool, typed: Option<(&str, &[u8])>) -> (Option<i32>, u32, String) {
    let line = "stty rows 40 cols 120; echo $$; exec \"$PROGRAM\" demo --on cgroups";
    let mut command = Command::new("script");
    command.args(["-qec", line, "/dev/null"]).env("PROGRAM", theatre.program());
    command.env("TMPDIR", theatre.temporary()).env("TERM", "xterm").env_remove("NO_COLOR");
    if !colours {
        command.env("NO_COLOR", "1");
    }
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("a terminal");
    let mut keyboard = child.stdin.take().expect("a terminal");
    let mut output = child.stdout.take().expect("a terminal");
    let (mut screen, mut piece, mut typed) = (String::new(), [0; 4_096], typed);
    loop {
        let length = output.read(&mut piece).expect("a terminal");
        if length == 0 {
            break;
        }
        screen += &String::from_utf8_lossy(&piece[..length]);
        if let Some((_, keys)) = typed.take_if(|(seen, _)| screen.contains(*seen)) {
            keyboard.write_all(keys).expect("a keyboard");
        }
    }
    drop(keyboard);
    let pid = screen.lines().next().and_then(|line| line.parse().ok()).expect(&screen);
    (child.wait().expect("a terminal").code(), pid, screen)
}

#[test]
fn floats_run_down_on_a_terminal_and_the_table_is_last() {
    let theatre = Theatre::new(On::Cgroups);
    let (code, pid, screen) = on_terminal(&theatre, true, None);
    assert_eq!(code, Some(0), "{screen}");
    let (live, closing) = screen.split_once("CONTAINER   DEADLINE").expect(&screen);
    assert!(live.contains("\x1b[32m") && live.contains("\x1b[31m"), "green in time, red when late: {live:?}");
    assert!(live.contains("float ") && live.contains("missed, late by ") && live.contains('█'), "{live}");
    assert!(closing.contains("3 of 4 deadlines were met.") && closing.contains("leeway run --deadline"));
    assert!(!closing.contains('\x1b'), "nothing is drawn over the table: {closing:?}");
    assert_eq!(theatre.left_of(pid), Vec::<String>::new());
}

#[test]
fn ctrl_c_is_typed_and_no_colour_is_asked_for() {
    let theatre = Theatre::new(On::Cgroups);
    let (code, pid, screen) = on_terminal(&theatre, false, Some(("missed, late by", b"\x03")));
    assert_eq!(code, Some(130), "{screen}");
    assert!(screen.ends_with("error: ended early; all that it had made is gone\r\n"), "{screen:?}");
    let colours = ["\x1b[31m", "\x1b[32m", "\x1b[0m"];
    assert!(!colours.iter().any(|colour| screen.contains(colour)), "{screen:?}");
    assert_eq!(theatre.left_of(pid), Vec::<String>::new());
}

#[test]
fn without_a_terminal_there_are_plain_lines() {
    let theatre = Theatre::new(On::Cgroups);
    let shown = theatre.demo(&[]).output().unwrap();
    let text = String::from_utf8(shown.stdout).unwrap();
    assert!(shown.status.success() && shown.stderr.is_empty());
    assert!(!text.contains('\x1b') && !text.contains('█'), "{text}");
    let line = |words: &[&str]| {
        let is = |line: &&str| words.iter().all(|word| line.split_whitespace().any(|has| has == *word));
        text.lines().filter(is).count()
    };
    assert_eq!(line(&["missed", "render", "deadline", "passed"]), 1, "{text}");
    assert_eq!((line(&["started"]), line(&["finished"])), (5, 5), "{text}");
    assert_eq!(
        (line(&["render", "4s", "1", "missed"]), line(&["train", "30s", "1", "hit"])),
        (1, 1),
        "{text}"
    );
}
