//! The command line: what a person types, checked once at the door, and handed to the crate that does it.

pub mod ask;
pub mod commands;
pub mod docker;
pub mod failure;
pub mod gpu;
pub mod overrides;
pub mod own;
mod refusal;
mod stage;
mod timeline;
mod top;
mod work;

use clap::error::ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand;
use clap::{CommandFactory, Parser, Subcommand};
use docker::globals::{self, Globals};
use std::ffi::OsString;
use std::io::Write;
use std::process::ExitCode;

/// Deadline-aware GPU sharing for containers.
#[derive(Parser)]
#[command(name = "leeway", version, max_term_width = 110, arg_required_else_help = true)]
struct Leeway {
    #[command(flatten)]
    docker: Globals,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Create and run a container, with a deadline
    Run(commands::run::Words),
    /// Create a container, with a deadline
    Create(commands::run::Words),
    Ps(commands::ps::Ps),
    Deadline(commands::deadline::Deadline),
    Agent(commands::agent::Agent),
    Master(commands::master::Master),
    Cluster(commands::cluster::Cluster),
    Nodes(commands::nodes::Nodes),
    Place(commands::place::Place),
    Explain(commands::explain::Explain),
    Policy(commands::policy::Policy),
    Release(commands::release::Release),
    Tasks(commands::tasks::Tasks),
    Events(commands::events::Events),
    Top(commands::top::Top),
    Doctor(commands::doctor::Doctor),
    Demo(commands::demo::Demo),
    Bench(commands::bench::Bench),
    Sim(commands::sim::Sim),
    Replay(commands::replay::Replay),
    Gpu(commands::gpu::Gpu),
    Work(commands::work::Work),
    Plugin(commands::plugin::Plugin),
    Completions(commands::completions::Completions),
    #[command(hide = true)]
    Man(commands::completions::Man),
    #[command(hide = true)]
    Play(commands::play::Play),
    /// Put away what a demonstration made, when it ends
    #[command(hide = true, name = commands::demo::sweeper::COMMAND)]
    Sweeper,
    /// What Docker asks of every plugin
    #[command(hide = true, name = "docker-cli-plugin-metadata")]
    PluginMetadata,
    #[command(hide = true, name = commands::guard::COMMAND)]
    Guard(commands::guard::Guard),
    #[command(hide = true, name = commands::swapper::COMMAND)]
    Swapper(commands::swapper::Swapper),
    /// Pass the end of `docker` on to the process that started us
    #[command(hide = true, name = docker::relay::COMMAND)]
    Relay,
}

/// Runs one command line. Exit codes: 0 done, 1 failed, 2 the command line or an input was not understood.
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let leeway = match Leeway::try_parse_from(globals::for_clap(arguments)) {
        Ok(leeway) => leeway,
        Err(refusal) => {
            // Help and version are refusals to clap too; they print to stdout and exit with 0.
            if refusal.use_stderr() && refusal.kind() != DisplayHelpOnMissingArgumentOrSubcommand {
                eprint!("{}", refusal::in_one_line(&refusal));
            } else {
                let _ = refusal.print();
            }
            return ExitCode::from(refusal.exit_code() as u8);
        }
    };
    let docker = &leeway.docker;
    let outcome = match leeway.command {
        Command::Run(words) => words.run(docker),
        Command::Create(words) => words.create(docker),
        Command::Ps(ps) => ps.run(docker),
        Command::Deadline(deadline) => deadline.run(docker),
        Command::Agent(agent) => agent.run(docker),
        Command::Master(master) => master.run(docker),
        Command::Cluster(cluster) => cluster.run(docker),
        Command::Nodes(nodes) => nodes.run(),
        Command::Place(place) => place.run(),
        Command::Explain(explain) => explain.run(),
        Command::Policy(policy) => policy.run(),
        Command::Release(release) => release.run(docker),
        Command::Tasks(tasks) => tasks.run(),
        Command::Events(events) => events.run(),
        Command::Top(top) => top.run(),
        Command::Doctor(doctor) => doctor.run(docker),
        Command::Demo(demo) => demo.run(docker),
        Command::Bench(bench) => bench.run(),
        Command::Sim(sim) => sim.run(),
        Command::Replay(replay) => replay.run(),
        Command::Gpu(gpu) => gpu.run(),
        Command::Work(work) => work.run(),
        Command::Plugin(plugin) => plugin.run(docker),
        Command::Completions(completions) => completions.run(Leeway::command()),
        Command::Man(man) => man.run(Leeway::command()),
        Command::Guard(guard) => guard.run(docker),
        Command::Swapper(swapper) => swapper.run(),
        Command::Play(play) => play.run(),
        Command::Sweeper => commands::demo::sweeper::run(docker),
        Command::Relay => docker::relay::run(),
        Command::PluginMetadata => commands::plugin::metadata(),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Whoever closed stderr still wants the exit code.
            let _ = writeln!(std::io::stderr(), "error: {error:#}");
            ExitCode::from(failure::help_and_exit_code(&error))
        }
    }
}
