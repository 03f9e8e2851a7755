//! `leeway policy`: which policy runs, and another one from now on.

use crate::ask::{self, Socket};
use crate::failure::Failure;
use anyhow::{Context, Result};
use wire::agent::{PolicyLine, PolicyWanted};
use wire::client::{self, NoAnswer};

/// Show or change how GPUs are shared
#[derive(clap::Args)]
pub struct Policy {
    #[command(subcommand)]
    action: Action,
}

#[derive(clap::Subcommand)]
enum Action {
    /// Print the policy of every GPU, or of one
    Get(Which),
    /// Run another policy on every GPU, or on one, until the agent restarts
    Set {
        #[command(flatten)]
        which: Which,
        /// none, fifo, earliest-deadline or least-slack
        #[arg(value_name = "POLICY")]
        policy: String,
    },
}

#[derive(clap::Args)]
struct Which {
    /// One GPU, by its index
    #[arg(long, value_name = "N")]
    gpu: Option<u16>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    socket: Socket,
}

impl Policy {
    pub(crate) fn run(self) -> Result<()> {
        match self.action {
            Action::Get(which) => {
                let line: PolicyLine =
                    client::get(&which.socket.path, "/v1/policy").map_err(|error| ask::failure(&error))?;
                which.print(line)
            }
            Action::Set { which, policy } => {
                let names = sched::policy::NAMES;
                if !names.contains(&policy.as_str()) {
                    let wrong = format!("'{policy}' is not a policy: accepted are {}", names.join(", "));
                    return Err(Failure::input(wrong).into());
                }
                let wanted = PolicyWanted { policy, gpu: which.gpu };
                let set = client::send(&which.socket.path, "PUT", "/v1/policy", &wanted);
                which.print(set.map_err(|error| refused(&error))?)
            }
        }
    }
}

/// What the agent would not do is the caller's to mend.
fn refused(error: &NoAnswer) -> Failure {
    match error {
        NoAnswer::Refused(400, why) => Failure::input(why.clone()),
        _ => ask::failure(error),
    }
}

impl Which {
    fn print(&self, mut line: PolicyLine) -> Result<()> {
        if let Some(wanted) = self.gpu {
            line.gpus.retain(|gpu| gpu.gpu == wanted);
            if line.gpus.is_empty() {
                return Err(Failure::input(format!("there is no GPU {wanted}")).into());
            }
        }
        let text = if self.json {
            serde_json::to_string(&line).context("could not write the policy as JSON")? + "\n"
        } else {
            let different = line.gpus.iter().any(|gpu| gpu.policy != line.policy) || self.gpu.is_some();
            let each = line.gpus.iter().map(|gpu| format!("GPU {}: {}\n", gpu.gpu, gpu.policy));
            if different { each.collect() } else { format!("{}\n", line.policy) }
        };
        super::print_all(text.as_bytes())
    }
}
