//! Completions and manual pages come from the definitions.

use crate::daemon::{folder, leeway_program, output, stdout};
use std::process::Command;

#[test]
fn completions_know_every_option_and_are_understood_by_their_shell() {
    for shell in ["bash", "zsh", "fish"] {
        let script = stdout(&output(Command::new(leeway_program()).args(["completions", shell])));
        for word in ["deadline", "gpu-memory", "no-trunc", "uninstall"] {
            assert!(script.contains(word), "{shell}: {word}");
        }
        if shell == "bash" {
            // In a file: it is longer than an argument may be.
            let folder = folder();
            let file = folder.path().join("leeway.bash");
            std::fs::write(&file, &script).expect("a file");
            output(Command::new("bash").arg("-n").arg(file));
        }
    }
}

#[test]
fn there_is_a_manual_page_for_every_command() {
    let pages = folder();
    output(Command::new(leeway_program()).args(["man", "--dir"]).arg(pages.path()));
    for page in
        ["leeway.1", "leeway-run.1", "leeway-ps.1", "leeway-deadline-set.1", "leeway-plugin-install.1"]
    {
        assert!(pages.path().join(page).exists(), "{page}");
    }
    let run = std::fs::read_to_string(pages.path().join("leeway-run.1")).unwrap();
    assert!(run.contains("deadline") && run.contains("1m30s"), "{run}");
    assert!(stdout(&output(Command::new(leeway_program()).arg("man"))).contains(".TH leeway 1"));
}
