//! `leeway demo`: the tour. A simulated GPU, an agent, and containers with deadlines, all of our own, and gone afterwards.

mod cast;
mod docker;
mod ground;
mod narrator;
mod processes;
mod show;
mod signals;
pub(crate) mod sweeper;

use crate::docker::globals::Globals;
use crate::failure::Failure;
use crate::stage::{Folder, Setting, Stage};
use anyhow::Result;
use ground::{Chosen, On};
use narrator::Narrator;
use show::Show;
use signals::Signals;
use std::net::SocketAddr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use sweeper::{Sweeper, Thing};
use wire::demo::DemoStage;

/// Memory of the simulated GPU: that of the paper's.
const MEMORY: &str = "24GiB";
/// NVML lists a program that late on a real GPU.
const LISTED_AFTER_MS: u64 = 140;
/// The agent's own default.
const POLL_MS: u64 = 5;
/// How often a show that stays looks whether it is to end.
const STAY_TICK: Duration = Duration::from_millis(50);
/// What a shell adds to a signal's number for an exit code.
const BY_SIGNAL: u8 = 128;

/// Show it all on this machine, in under a minute: no GPU needed
///
/// Starts a simulated GPU, an agent and five containers that share the GPU, tells what the agent sees as it happens, and
/// ends with the agent's account of it. Everything is in a folder of its own and gone afterwards, also after Ctrl-C;
/// no other agent, container or file of this machine is touched.
#[derive(clap::Args)]
pub struct Demo {
    /// What the containers are; the best that works here if not given
    #[arg(long, value_name = "GROUND")]
    on: Option<On>,
    /// Print one JSON object a line: the stage, the agent's events, the closing table
    #[arg(long)]
    json: bool,
    /// How the agent shares the GPU: none, fifo, earliest-deadline, least-slack
    #[arg(long, value_name = "POLICY", default_value = "none", value_parser = clap::builder::PossibleValuesParser::new(sched::policy::NAMES))]
    policy: String,
    /// Let the agent serve its page at this loopback address, such as 127.0.0.1:9465
    #[arg(long, value_name = "ADDRESS")]
    http: Option<SocketAddr>,
    /// Keep the GPU and the agent until Ctrl-C, so that you can ask the agent yourself
    #[arg(long)]
    stay: bool,
}

impl Demo {
    pub(crate) fn run(self, globals: &Globals) -> Result<()> {
        let signals = Signals::catch()?;
        let mut sweeper = Sweeper::start(globals)?;
        // The agent and the GPU are gone when this returns; the sweeper removes the rest.
        let shown = self.show(globals, &signals, &mut sweeper);
        for complaint in sweeper.finish()? {
            eprintln!("warning: {complaint}");
        }
        match (shown, signals.came()) {
            (Ok(Shown::Whole), _) => Ok(()),
            (_, Some(signal)) => {
                Err(Failure::new("ended early; all that it had made is gone").exit(BY_SIGNAL + signal).into())
            }
            (shown, None) => shown.map(drop),
        }
    }

    fn show(&self, globals: &Globals, signals: &Signals, sweeper: &mut Sweeper) -> Result<Shown> {
        let folder = Folder::new(&format!("leeway-demo-{:05x}", luck()))?;
        sweeper.remember(&Thing::Folder(folder.path().to_owned()))?;
        let run = folder.path().file_name().map(|name| name.to_string_lossy().into_owned());
        let run = run.unwrap_or_default();
        let setting = Setting {
            driver: None,
            memory: MEMORY,
            listed_after_ms: LISTED_AFTER_MS,
            poll_ms: POLL_MS,
            policy: &self.policy,
            tier: None,
            run_dir: None,
            http: self.http,
        };
        let stage = Stage::set_in(folder, &setting)?;
        let Chosen { ground, on, because } = ground::choose(self.on, &run, globals, &stage, sweeper)?;
        let mut narrator = Narrator::new(self.json);
        narrator.opens(described(&stage, on, because)?, on)?;
        if let Some(http) = self.http {
            let socket = stage.socket();
            narrator.adds(&format!(
                "See it at http://{http}/\nor with leeway top --socket {}\n\n",
                socket.display()
            ))?;
        }
        let show = Show { stage: &stage, ground, sweeper, narrator: &mut narrator, signals };
        let Some(rows) = show.perform()? else { return Ok(Shown::Part) };
        narrator.closes(rows)?;
        if self.stay {
            let socket = stage.socket();
            narrator.adds(&format!(
                "\nThe agent stays until Ctrl-C. Ask it:\n  leeway tasks --socket {}\n",
                socket.display()
            ))?;
            while signals.came().is_none() {
                std::thread::sleep(STAY_TICK);
            }
        }
        Ok(Shown::Whole)
    }
}

/// How much of it was shown.
enum Shown {
    Whole,
    /// Somebody ended it, or nobody reads any more.
    Part,
}

fn described(stage: &Stage, on: On, because: Vec<String>) -> Result<DemoStage> {
    let node = stage.node().ok_or_else(|| Failure::new("the agent went away"))?;
    let gpu = node.gpus.first().ok_or_else(|| Failure::new("the agent sees no GPU"))?;
    Ok(DemoStage {
        on: on.name().to_owned(),
        because,
        gpu: gpu.name.clone(),
        gpu_memory_bytes: gpu.memory_total_bytes,
        policy: node.policy,
        socket: stage.socket().display().to_string(),
    })
}

/// Five hexadecimal digits that differ from run to run: a pid alone is not enough where several pid namespaces share a Docker.
fn luck() -> u32 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.subsec_micros() & 0xf_ffff)
}
