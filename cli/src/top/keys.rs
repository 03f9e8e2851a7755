//! What is typed and clicked.

use super::model::Model;
use super::nodes;
use super::view::{Open, Sort, View, id_of};
use ratatui::crossterm::event::{
    Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers, MouseButton, MouseEvent, MouseEventKind,
};
use ratatui::layout::Position;
use std::path::Path;
use wire::agent::ExplainLine;
use wire::client;

/// How many rows a page is.
const PAGE: isize = 10;

/// What each key does, for the help.
pub(super) const HELP: [(&str, &str); 7] = [
    ("↑ ↓ j k", "choose a row; PgUp and PgDn by pages"),
    ("Enter", "why it is so"),
    ("/", "show only rows whose name or state has these letters; Enter keeps, Esc clears"),
    ("p, Space", "stop the picture; again to go on"),
    ("t", "the next theme: dark, light, colour-blind, ascii"),
    ("?", "this help"),
    ("q, Esc, Ctrl-C", "leave"),
];

/// What there is beside that where containers are shown. The node list has an order of its own.
pub(super) const HELP_WITH_CONTAINERS: [(&str, &str); 5] = [
    ("s", "order by the next column; or click its heading"),
    ("f", "order by float: what is due first comes first"),
    ("r", "the other way round"),
    ("█ ▄ ░", "in the last minute: the GPU was used, used in part, the task was held"),
    ("│ ╳", "a deadline, and one that was missed"),
];

/// Does what is meant. False if that is the end.
pub(super) fn take(event: &Event, view: &mut View, model: &Model, socket: &Path, now_us: i64) -> bool {
    match event {
        Event::Key(key) if key.kind == KeyEventKind::Press => typed(*key, view, model, socket, now_us),
        Event::Mouse(mouse) => {
            clicked(*mouse, view, model, socket, now_us);
            true
        }
        _ => true,
    }
}

fn typed(key: KeyEvent, view: &mut View, model: &Model, socket: &Path, now_us: i64) -> bool {
    if key.modifiers.contains(KeyModifiers::CONTROL) && key.code == KeyCode::Char('c') {
        return false;
    }
    if view.typing {
        type_filter(key.code, view);
        return true;
    }
    if !matches!(view.open, Open::Nothing) {
        view.open = Open::Nothing;
        return true;
    }
    match key.code {
        KeyCode::Char('s' | 'f' | 'r') if model.master.is_some() => {}
        KeyCode::Char('q') => return false,
        KeyCode::Esc if view.filter.is_empty() => return false,
        KeyCode::Esc => view.filter.clear(),
        KeyCode::Char('/') => view.typing = true,
        KeyCode::Char('s') => order(view, view.sort.next()),
        KeyCode::Char('f') => order(view, Sort::Float),
        KeyCode::Char('r') => view.reversed = !view.reversed,
        KeyCode::Char('t') => view.theme = view.theme.next(),
        KeyCode::Char('?' | 'h') => view.open = Open::Help,
        KeyCode::Char('p' | ' ') => {
            let paused = view.paused.take();
            if paused.is_none() {
                view.paused = Some((Box::new(model.clone()), now_us));
            }
        }
        KeyCode::Up | KeyCode::Char('k') => view.choose(model, now_us, -1),
        KeyCode::Down | KeyCode::Char('j') => view.choose(model, now_us, 1),
        KeyCode::PageUp => view.choose(model, now_us, -PAGE),
        KeyCode::PageDown => view.choose(model, now_us, PAGE),
        KeyCode::Home => view.choose(model, now_us, isize::MIN / 2),
        KeyCode::End => view.choose(model, now_us, isize::MAX / 2),
        KeyCode::Enter | KeyCode::Char('e') => explain(view, model, socket, now_us),
        _ => {}
    }
    true
}

fn order(view: &mut View, by: Sort) {
    view.reversed = view.sort == by && !view.reversed;
    view.sort = by;
}

fn type_filter(code: KeyCode, view: &mut View) {
    match code {
        KeyCode::Enter => view.typing = false,
        KeyCode::Esc => {
            view.typing = false;
            view.filter.clear();
        }
        KeyCode::Backspace => drop(view.filter.pop()),
        KeyCode::Char(letter) => view.filter.push(letter),
        _ => {}
    }
}

fn explain(view: &mut View, model: &Model, socket: &Path, now_us: i64) {
    let node = model.nodes.iter().find(|node| Some(id_of(node)) == view.chosen);
    if let Some(node) = node {
        view.open = Open::Explained(id_of(node), Ok(nodes::sentences(node, model.age_us(node, now_us))));
        return;
    }
    let Some(line) = view.chosen.as_ref().and_then(|id| model.containers.get(id)) else { return };
    let path = format!("/v1/containers/{}/explain", client::escaped(&line.id));
    let answer = client::get::<ExplainLine>(socket, &path);
    let answer = answer.map(|line| line.sentences).map_err(|error| error.to_string());
    view.open = Open::Explained(line.name.clone(), answer);
}

fn clicked(mouse: MouseEvent, view: &mut View, model: &Model, socket: &Path, now_us: i64) {
    let at = Position { x: mouse.column, y: mouse.row };
    match mouse.kind {
        MouseEventKind::ScrollDown => view.choose(model, now_us, 3),
        MouseEventKind::ScrollUp => view.choose(model, now_us, -3),
        MouseEventKind::Down(MouseButton::Left) if !matches!(view.open, Open::Nothing) => {
            view.open = Open::Nothing;
        }
        MouseEventKind::Down(MouseButton::Left) => {
            let heading = view.drawn.headings.iter().find(|(area, _)| area.contains(at));
            if let Some((_, sort)) = heading.copied() {
                order(view, sort);
            } else if view.drawn.rows.contains(at) {
                let row = usize::from(at.y - view.drawn.rows.y) + view.first;
                let id = view.drawn.ids.get(row).cloned();
                let again = id.is_some() && id == view.chosen;
                view.chosen = id;
                if again {
                    explain(view, model, socket, now_us);
                }
            }
        }
        _ => {}
    }
}
