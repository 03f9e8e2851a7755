//! `leeway sim`: a workload under one or all policies, in a made-up world.

/// Run a workload under one or all policies in a simulated world
#[derive(clap::Args)]
pub struct Sim {}

impl Sim {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        Ok(())
    }
}
