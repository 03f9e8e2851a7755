//! `leeway top`: containers, their tasks and their floats, or the nodes of a cluster, live in a terminal.
//!
//! In reading order: `model` (what the agent said, or the master), `view` (what the person wants to see of it), `theme`, `lanes` (the last minute in
//! characters), `rows`, `nodes` and `screen` (what is drawn), `keys` (what is typed and clicked), `feed` (the thread that hears the agent).
//! The screen knows nothing that the API does not say.

mod feed;
mod keys;
mod lanes;
mod model;
mod nodes;
mod picture;
mod rows;
mod screen;
mod theme;
mod view;

#[cfg(test)]
mod snapshots;

pub(crate) use theme::Theme;

use crate::ask::Whom;
use crate::timeline::micros;
use anyhow::{Context, Result};
use feed::Heard;
use model::Model;
use ratatui::backend::TestBackend;
use ratatui::buffer::Buffer;
use ratatui::crossterm::event::{self, DisableMouseCapture, EnableMouseCapture};
use ratatui::crossterm::execute;
use ratatui::{DefaultTerminal, Terminal};
use std::path::Path;
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};
use view::View;
use wire::agent::LiveLine;

/// How often a frame is drawn.
const FRAME_EVERY: Duration = Duration::from_millis(100);
/// How wide a frame is that goes to no terminal.
const WIDTH: u16 = 120;

/// Shows it until the person has seen enough.
pub(crate) fn run(whom: &Whom, theme: Theme) -> Result<()> {
    let socket = &whom.path();
    // That nobody is there is said before the screen is taken.
    wire::client::get::<serde_json::Value>(socket, "/v1/access").map_err(|error| whom.failure(&error))?;
    let heard = feed::follow(socket.to_owned(), lanes::SPAN_US);
    let mut terminal = ratatui::try_init().context("could not take the terminal")?;
    let _ = execute!(std::io::stdout(), EnableMouseCapture);
    let shown = show(&mut terminal, socket, &heard, View::new(theme));
    let _ = execute!(std::io::stdout(), DisableMouseCapture);
    ratatui::restore();
    shown
}

fn show(
    terminal: &mut DefaultTerminal,
    socket: &Path,
    heard: &Receiver<Heard>,
    mut view: View,
) -> Result<()> {
    let doing = "could not draw on the terminal";
    let mut model = Model::default();
    loop {
        let next = Instant::now() + FRAME_EVERY;
        while let Ok(news) = heard.try_recv() {
            model.hear(news);
        }
        let now_us = jiff::Timestamp::now().as_microsecond();
        model.forget(now_us - lanes::SPAN_US);
        terminal.draw(|frame| screen::draw(frame, &model, &mut view, now_us)).context(doing)?;
        // What is typed is answered at once, with a frame of its own.
        while event::poll(next.saturating_duration_since(Instant::now())).context(doing)? {
            let typed = event::read().context(doing)?;
            if !keys::take(&typed, &mut view, &model, socket, now_us) {
                return Ok(());
            }
            terminal.draw(|frame| screen::draw(frame, &model, &mut view, now_us)).context(doing)?;
        }
    }
}

/// One frame for scripts: as text, or as a picture.
pub(crate) fn once(whom: &Whom, theme: Theme, drawn: bool) -> Result<String> {
    let since_us = jiff::Timestamp::now().as_microsecond() - lanes::SPAN_US;
    let mut first = None;
    wire::client::follow(&whom.path(), &format!("/v1/live?since_us={since_us}"), |data| {
        first = serde_json::from_str::<LiveLine>(data).ok();
        false
    })
    .map_err(|error| whom.failure(&error))?;
    let line = first.context("nothing was said")?;
    let now_us = micros(&line.time).unwrap_or(since_us);
    let mut model = Model::default();
    model.hear(Heard::Line(Box::new(line)));
    let wanted = std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok());
    let width = wanted.or_else(|| terminal_size::terminal_size().map(|(width, _)| width.0)).unwrap_or(WIDTH);
    let mut view = View::new(theme);
    Ok(if drawn {
        picture::draw(&frame(&model, &mut view, now_us, width))
    } else {
        text(&model, &mut view, now_us, width)
    })
}

/// A frame that is high enough for everything, without what only a person at a keyboard needs.
fn frame(model: &Model, view: &mut View, now_us: i64, width: u16) -> Buffer {
    view.printed = true;
    let height = screen::height(model);
    let mut terminal = match Terminal::new(TestBackend::new(width, height)) {
        Ok(terminal) => terminal,
        Err(never) => match never {},
    };
    let Ok(_) = terminal.draw(|frame| screen::draw(frame, model, view, now_us));
    terminal.backend().buffer().clone()
}

fn text(model: &Model, view: &mut View, now_us: i64, width: u16) -> String {
    let buffer = frame(model, view, now_us, width);
    let mut text = String::new();
    for y in 0..buffer.area.height {
        let line: String = (0..buffer.area.width).map(|x| buffer[(x, y)].symbol()).collect();
        text += line.trim_end();
        text.push('\n');
    }
    text
}
