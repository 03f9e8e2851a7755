//! A terminal of its own, which tmux is, with one program in it.

use std::path::Path;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

/// How long a state may take to come about on a machine with other work to do.
const PATIENCE: Duration = Duration::from_secs(30);
/// How often to look whether it has.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// The terminal.
pub(crate) struct Tmux {
    socket: String,
}

impl Tmux {
    /// Runs a line of a shell in a terminal of that size; what it needs is kept in the folder.
    pub(crate) fn start(folder: &Path, size: (u16, u16), line: &str) -> Self {
        let socket = folder.join("tmux").display().to_string();
        let (width, height) = (size.0.to_string(), size.1.to_string());
        let line = format!("LANG=C.UTF-8 TERM=screen-256color {line}");
        let tmux = Self { socket };
        tmux.run(&["-f", "/dev/null", "-u", "new-session", "-d", "-x", &width, "-y", &height, &line]);
        tmux
    }

    fn ask(&self, words: &[&str]) -> Output {
        Command::new("tmux").args(["-S", &self.socket]).args(words).output().expect("tmux")
    }

    fn run(&self, words: &[&str]) -> String {
        let output = self.ask(words);
        assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).expect("text")
    }

    pub(crate) fn keys(&self, keys: &[&str]) {
        self.run(&[&["send-keys"], keys].concat());
    }

    /// Waits until the screen is so; the screen.
    pub(crate) fn until(&self, what: &str, is_so: impl Fn(&str) -> bool) -> String {
        let start = Instant::now();
        loop {
            let screen = self.run(&["capture-pane", "-p"]);
            if is_so(&screen) {
                return screen;
            }
            assert!(start.elapsed() < PATIENCE, "no {what} on the screen:\n{screen}");
            std::thread::sleep(LOOK_EVERY);
        }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.run(&["display-message", "-p", "#{pane_pid}"]).trim().parse().expect("a pid")
    }

    /// Whether the program has ended, and the terminal with it.
    pub(crate) fn has_ended(&self) -> bool {
        !self.ask(&["list-sessions"]).status.success()
    }
}

impl Drop for Tmux {
    fn drop(&mut self) {
        self.ask(&["kill-server"]);
    }
}
