//! Docker's options that come before the command: which daemon, which configuration.
//!
//! `leeway -H … ps` takes them as `docker -H … ps` does, and a plugin must: Docker hands `docker -H … leeway ps` to it
//! with every word as it was typed.

use super::words::{self, Name};
use std::convert::Infallible;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

/// The name Docker knows the plugin by, and the prefix of its file's.
pub const PLUGIN: &str = "docker-leeway";

/// Docker's options that come before the command.
#[derive(clap::Args, Debug, Default)]
#[command(next_help_heading = "Docker's options, before the command")]
pub struct Globals {
    /// Location of Docker's client configuration
    #[arg(long, value_name = "DIR")]
    pub config: Option<PathBuf>,
    /// Docker context to use, instead of `DOCKER_HOST` and the current context
    #[arg(short = 'c', long, value_name = "NAME")]
    pub context: Option<String>,
    /// Docker daemon to use
    #[arg(short = 'H', long, value_name = "ADDRESS")]
    pub host: Vec<String>,
    /// Have Docker say more
    #[arg(short = 'D', long, hide = true)]
    pub debug: bool,
    /// How much Docker logs
    #[arg(short = 'l', long, value_name = "LEVEL", hide = true)]
    pub log_level: Option<String>,
    /// Use TLS
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true", hide = true)]
    pub tls: Option<bool>,
    /// Use TLS and verify the daemon
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true", hide = true)]
    pub tlsverify: Option<bool>,
    /// Trust certificates signed by this authority only
    #[arg(long, value_name = "FILE", hide = true)]
    pub tlscacert: Option<PathBuf>,
    /// Our certificate
    #[arg(long, value_name = "FILE", hide = true)]
    pub tlscert: Option<PathBuf>,
    /// Our key
    #[arg(long, value_name = "FILE", hide = true)]
    pub tlskey: Option<PathBuf>,
}

impl Globals {
    /// The same options, as words for Docker.
    pub fn words(&self) -> Vec<OsString> {
        let mut words: Vec<OsString> = Vec::new();
        let mut with_value = |name: &str, value: Option<&OsStr>| {
            words.extend(value.into_iter().flat_map(|value| [OsString::from(name), value.to_owned()]));
        };
        with_value("--config", self.config.as_deref().map(Path::as_os_str));
        with_value("--context", self.context.as_deref().map(OsStr::new));
        for host in &self.host {
            with_value("--host", Some(OsStr::new(host)));
        }
        with_value("--log-level", self.log_level.as_deref().map(OsStr::new));
        with_value("--tlscacert", self.tlscacert.as_deref().map(Path::as_os_str));
        with_value("--tlscert", self.tlscert.as_deref().map(Path::as_os_str));
        with_value("--tlskey", self.tlskey.as_deref().map(Path::as_os_str));
        words.extend(self.debug.then(|| "--debug".into()));
        words.extend(self.tls.map(|tls| format!("--tls={tls}").into()));
        words.extend(self.tlsverify.map(|verify| format!("--tlsverify={verify}").into()));
        words
    }
}

/// Whether we were called as a Docker plugin: by the name of the file, as Docker does.
pub fn called_as_plugin(program: &OsStr) -> bool {
    Path::new(program).file_stem().is_some_and(|name| name == PLUGIN)
}

/// Makes a command line readable for clap: a plugin's own name goes, and `--` goes in before the words that
/// belong to Docker, which clap then leaves alone (it would swallow a `--` that is already among them).
pub fn for_clap(arguments: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
    let mut arguments: Vec<OsString> = arguments.into_iter().collect();
    let Some(program) = arguments.first() else { return arguments };
    if called_as_plugin(program) {
        let name = command_at(&arguments);
        if arguments.get(name).is_some_and(|word| word == "leeway") {
            arguments.remove(name);
        }
        // What the help calls us is what was typed.
        arguments[0] = "docker leeway".into();
    }
    let command = command_at(&arguments);
    if arguments.get(command).is_some_and(|word| word == "run" || word == "create") {
        arguments.insert(command + 1, "--".into());
    }
    arguments
}

/// Where the command is: the first word, after the program, that is neither a global option nor its value.
fn command_at(arguments: &[OsString]) -> usize {
    let Ok(end) = words::options_end(&arguments[1..], |name| Ok::<bool, Infallible>(takes_value(name)));
    end + 1
}

fn takes_value(name: Name<'_>) -> bool {
    match name {
        Name::Long(name) => {
            matches!(name, "config" | "context" | "host" | "log-level" | "tlscacert" | "tlscert" | "tlskey")
        }
        Name::Short(letter) => matches!(letter, 'c' | 'H' | 'l'),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ready(line: &str) -> String {
        let ready = for_clap(line.split(' ').map(OsString::from));
        ready.iter().map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn what_follows_run_is_left_to_docker() {
        assert_eq!(ready("leeway run -it -- IMAGE"), "leeway run -- -it -- IMAGE");
        assert_eq!(ready("leeway -H run create x"), "leeway -H run create -- x");
        assert_eq!(ready("leeway ps -a run"), "leeway ps -a run");
    }

    #[test]
    fn a_plugin_is_called_with_every_word_that_docker_was() {
        let plugin = "/usr/lib/docker/cli-plugins/docker-leeway";
        assert_eq!(ready(&format!("{plugin} leeway ps")), "docker leeway ps");
        assert_eq!(
            ready(&format!("{plugin} -D -c leeway leeway -H x run leeway")),
            "docker leeway -D -c leeway -H x run -- leeway"
        );
        let metadata = format!("{plugin} docker-cli-plugin-metadata");
        assert_eq!(ready(&metadata), "docker leeway docker-cli-plugin-metadata");
    }
}
