//! `leeway top`: a live view in the terminal.

use crate::ask::Whom;
use crate::failure::Failure;
use crate::top::{self, Theme};
use anyhow::{Context, Result};
use std::io::IsTerminal;
use std::path::PathBuf;

/// Watch containers, tasks and floats, live
///
/// A row for each container: what it uses, what is left of its deadline, and what it did in the last minute. With --master, a row for
/// each GPU of the cluster, the best for a new container first. Press ? for the keys.
#[derive(clap::Args)]
pub struct Top {
    /// Print one frame and exit
    #[arg(long, conflicts_with = "svg")]
    once: bool,
    /// Write one frame as a picture, and exit
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// Colours and characters; without one, dark, or ascii where the locale has no UTF-8
    #[arg(long, value_name = "THEME", env = "LEEWAY_THEME")]
    theme: Option<Theme>,
    #[command(flatten)]
    whom: Whom,
}

impl Top {
    pub(crate) fn run(self) -> Result<()> {
        let theme = self.theme.unwrap_or_else(usual);
        if self.once {
            return super::print_all(top::once(&self.whom, theme, false)?.as_bytes());
        }
        if let Some(file) = &self.svg {
            let drawn = top::once(&self.whom, self.theme.unwrap_or(Theme::Dark), true)?;
            return std::fs::write(file, drawn)
                .with_context(|| format!("could not write {}", file.display()));
        }
        if !std::io::stdout().is_terminal() || !std::io::stdin().is_terminal() {
            return Err(Failure::new("a live view needs a terminal").help("--once prints one frame").into());
        }
        top::run(&self.whom, theme)
    }
}

/// What suits the terminal, as far as the environment says. Who wants no colours gets none.
fn usual() -> Theme {
    let set = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    let locale = ["LC_ALL", "LC_CTYPE", "LANG"].into_iter().find_map(set).unwrap_or_default().to_lowercase();
    let plain = !(locale.contains("utf-8") || locale.contains("utf8"));
    if plain || set("NO_COLOR").is_some() { Theme::Ascii } else { Theme::Dark }
}
