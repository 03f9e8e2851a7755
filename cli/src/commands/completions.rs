//! `leeway completions` and `leeway man`: what a package installs beside the program, from the argument definitions.

use anyhow::{Context, Result};
use clap_complete::Shell;
use std::path::PathBuf;

/// Print completions for a shell
#[derive(clap::Args)]
pub struct Completions {
    /// The shell they are for
    #[arg(value_name = "SHELL")]
    shell: Shell,
}

impl Completions {
    pub(crate) fn run(self, mut leeway: clap::Command) -> Result<()> {
        let mut text = Vec::new();
        clap_complete::generate(self.shell, &mut leeway, "leeway", &mut text);
        super::print_all(&text)
    }
}

/// Write the manual pages
#[derive(clap::Args)]
pub struct Man {
    /// The folder to write a page per command to; without it, leeway(1) is printed
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

impl Man {
    pub(crate) fn run(self, leeway: clap::Command) -> Result<()> {
        let Some(dir) = self.dir else {
            let mut page = Vec::new();
            clap_mangen::Man::new(leeway).render(&mut page).context("could not write a manual page")?;
            return super::print_all(&page);
        };
        let doing = || format!("could not write manual pages to {}", dir.display());
        std::fs::create_dir_all(&dir).with_context(doing)?;
        clap_mangen::generate_to(leeway, &dir).with_context(doing)
    }
}
