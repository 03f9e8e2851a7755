//! `leeway run` and `leeway create`: Docker's, with a deadline.
//!
//! Every word goes to Docker as it is, in its place, but for Leeway's own options before the image: each of those
//! becomes the label it stands for. So the order still decides where one is given twice, as with Docker's `--label`.

mod on_node;

use crate::docker::endpoint::Endpoint;
use crate::docker::exec;
use crate::docker::globals::Globals;
use crate::docker::options::Options;
use crate::docker::words;
use crate::failure::Failure;
use crate::own::{self, Meant};
use anyhow::Result;
use std::ffi::OsString;

/// What `docker run` exits with when Docker itself failed, not the container. `docker create` has no such code.
const DOCKER_RUN_FAILED: u8 = 125;

/// The words after `run` or `create`, untouched. Clap never sees Leeway's options among them; it knows their
/// definitions for the help, the completions and the manual pages.
pub struct Words(Vec<OsString>);

impl Words {
    /// `leeway run`
    pub(crate) fn run(self, globals: &Globals) -> Result<()> {
        self.hand_over(globals, "run", DOCKER_RUN_FAILED)
    }

    /// `leeway create`
    pub(crate) fn create(self, globals: &Globals) -> Result<()> {
        self.hand_over(globals, "create", 1)
    }

    fn hand_over(self, globals: &Globals, command: &'static str, failed: u8) -> Result<()> {
        let words = match translate(&self.0, command)? {
            Translated::Help => return Ok(help(command).print_help()?),
            Translated::ForDocker(words) => words,
            Translated::ForMaster(node, words) if command == "run" => {
                return on_node::run(globals, node, &words);
            }
            Translated::ForMaster(node, _) => {
                let why = format!(
                    "--node {node} is for `leeway run` only: a service that the master makes runs at once"
                );
                return Err(Failure::new(why).help("leave --node out to create the container here").into());
            }
        };
        let doing =
            if command == "run" { "could not run the container" } else { "could not create the container" };
        // Docker reports a missing daemon too, but not how to get one. What Docker would not find either is left
        // to Docker to report.
        if let Ok(endpoint) = Endpoint::find(globals) {
            endpoint.check().map_err(|failure| anyhow::Error::new(failure.exit(failed)).context(doing))?;
        }
        let failure = exec::become_docker(globals, command, &words);
        Err(anyhow::Error::new(failure.exit(failed)).context(doing))
    }
}

/// What a command line asks for.
enum Translated {
    Help,
    ForDocker(Vec<OsString>),
    /// The node, `auto` or a name, and Docker's words.
    ForMaster(String, Vec<OsString>),
}

/// Docker's words, with a label in the place of each option of ours.
fn translate(given: &[OsString], command: &'static str) -> Result<Translated, Failure> {
    let mut options = Options::of(command);
    let mut translated = Vec::with_capacity(given.len());
    let mut rest = given;
    let mut node = None;
    while let Some(word) = rest.first().filter(|word| words::is_option(word)) {
        if word == "--help" {
            return Ok(Translated::Help);
        }
        let taken = if let Some((meant, taken)) = own::read(rest)? {
            match meant {
                Meant::Label(label) => translated.push(format!("--label={label}").into()),
                Meant::Node(name) => node = Some(name),
            }
            taken
        } else {
            let taken = words::words_taken(word, |name| options.takes_value(name))?.min(rest.len());
            translated.extend_from_slice(&rest[..taken]);
            taken
        };
        rest = &rest[taken..];
    }
    translated.extend_from_slice(rest);
    Ok(match node {
        None => Translated::ForDocker(translated),
        Some(node) => Translated::ForMaster(node, translated),
    })
}

fn help(command: &'static str) -> clap::Command {
    let about = match command {
        "run" => "Create and run a container, with a deadline",
        _ => "Create a container, with a deadline",
    };
    let named = clap::Command::new(command).bin_name(format!("leeway {command}")).about(about);
    <Words as clap::Args>::augment_args(named)
}

impl clap::Args for Words {
    fn augment_args(command: clap::Command) -> clap::Command {
        let name = command.get_name().to_owned();
        let words = clap::Arg::new("words")
            // The usage line says what they are.
            .hide(true)
            .num_args(0..)
            .trailing_var_arg(true)
            .allow_hyphen_values(true)
            .value_parser(clap::value_parser!(OsString));
        let help = clap::Arg::new("help").long("help").help("Print help").action(clap::ArgAction::Help);
        command
            .disable_help_flag(true)
            .override_usage(format!("leeway {name} [OPTIONS] [DOCKER OPTIONS] IMAGE [COMMAND] [ARG...]"))
            .args(own::arguments())
            .arg(help)
            .arg(words)
            .after_help(format!(
                "These options are Leeway's, and are read before IMAGE only. `-dl KEY=VALUE` is Docker's \
                 `-d -l KEY=VALUE`.\nAll others are Docker's: see `docker {name} --help`."
            ))
    }

    fn augment_args_for_update(command: clap::Command) -> clap::Command {
        Self::augment_args(command)
    }
}

impl clap::FromArgMatches for Words {
    fn from_arg_matches(matches: &clap::ArgMatches) -> Result<Self, clap::Error> {
        Ok(Self(matches.get_many("words").into_iter().flatten().cloned().collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &clap::ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}
