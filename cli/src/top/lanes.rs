//! The last minute of a container in one line of characters.
//!
//! A column is a stretch of time, aligned to the clock, so that what is past does not change when time goes on. It shows the worst
//! that happened in it (late, then held, then running), and how much of it was spent running. Lanes are put together
//! again when something was heard, and a few times a second; other frames draw them as they are.

use super::model::Model;
use super::theme::Theme;
use crate::timeline::{Bar, Doing};
use ratatui::text::{Line, Span};
use std::collections::HashMap;

/// How much time is shown.
pub(super) const SPAN_US: i64 = 60_000_000;

/// How often a lane is put together again when nothing is heard.
const AGAIN_EVERY_US: i64 = 250_000;

/// One column.
#[derive(Clone, Copy, Default, PartialEq)]
struct Cell {
    runs_us: i64,
    held_us: i64,
    late_us: i64,
    held_late_us: i64,
    /// A deadline is here; whether it was missed.
    due: Option<bool>,
}

/// What was drawn, to be drawn again as it is.
#[derive(Default)]
pub(super) struct Lanes {
    drawn: HashMap<String, Vec<Cell>>,
    /// What it was drawn from.
    of: (u64, i64, usize),
}

impl Lanes {
    /// A container's lane of so many columns, up to now.
    pub(super) fn line(
        &mut self,
        model: &Model,
        name: &str,
        theme: Theme,
        width: usize,
        now_us: i64,
    ) -> Line<'static> {
        let column_us = (SPAN_US / width.max(1) as i64).max(1);
        let last = now_us / column_us;
        let of = (model.heard, now_us / AGAIN_EVERY_US, width);
        if self.of != of {
            self.drawn.clear();
            self.of = of;
        }
        if !self.drawn.contains_key(name) {
            let bars = model.timeline.lane(name).map_or(&[][..], |lane| lane.bars.as_slice());
            let mut cells = vec![Cell::default(); width];
            let first = last + 1 - width as i64;
            bars.iter().for_each(|bar| add(&mut cells, bar, first, column_us, now_us));
            self.drawn.insert(name.to_owned(), cells);
        }
        let cells = self.drawn.get(name).map_or(&[][..], Vec::as_slice);
        told(cells, theme, column_us)
    }
}

fn add(cells: &mut [Cell], bar: &Bar, first: i64, column_us: i64, now_us: i64) {
    let begin_us = first * column_us;
    if bar.end_us.is_some_and(|end_us| end_us < begin_us) {
        return;
    }
    for (from_us, end_us, doing) in bar.stretches(now_us) {
        let mut at_us = from_us.max(begin_us);
        while at_us < end_us {
            let column = at_us / column_us;
            let next_us = ((column + 1) * column_us).min(end_us);
            let Some(cell) = cells.get_mut((column - first) as usize) else { break };
            *cell.of(doing) += next_us - at_us;
            at_us = next_us;
        }
    }
    if let Some(due_us) = bar.due_us.filter(|due_us| *due_us >= begin_us)
        && let Some(cell) = cells.get_mut((due_us / column_us - first) as usize)
    {
        let missed = bar.hit(now_us) == Some(false);
        // Where a deadline is shorter than two columns, its mark would hide what it is about; a miss never does.
        if missed || due_us - bar.start_us >= 2 * column_us {
            cell.due = Some(cell.due.unwrap_or(false) || missed);
        }
    }
}

impl Cell {
    fn of(&mut self, doing: Doing) -> &mut i64 {
        match doing {
            Doing::Runs => &mut self.runs_us,
            Doing::Held => &mut self.held_us,
            Doing::Late => &mut self.late_us,
            Doing::HeldLate => &mut self.held_late_us,
        }
    }

    /// The worst that happened, and how much of the column it filled, in eighths.
    fn worst(&self, column_us: i64) -> Option<(Doing, usize)> {
        let eighths = |us: i64| ((us * 8 + column_us - 1) / column_us).clamp(1, 8) as usize;
        match () {
            () if self.late_us > 0 => Some((Doing::Late, eighths(self.late_us))),
            () if self.held_late_us > 0 => Some((Doing::HeldLate, 8)),
            // A hold of a moment should not hide that it ran.
            () if self.held_us > self.runs_us => Some((Doing::Held, 8)),
            () if self.runs_us > 0 => Some((Doing::Runs, eighths(self.runs_us))),
            () => None,
        }
    }
}

fn told(cells: &[Cell], theme: Theme, column_us: i64) -> Line<'static> {
    let mut spans: Vec<Span<'static>> = Vec::new();
    let mut text = String::new();
    let mut style = ratatui::style::Style::new();
    for cell in cells {
        let (letter, next) = match (cell.due, cell.worst(column_us)) {
            (Some(true), _) => (theme.due(true), theme.doing(Doing::Late)),
            (Some(false), Some((doing, _))) => (theme.due(false), theme.doing(doing)),
            (Some(false), None) => (theme.due(false), theme.style(super::theme::Meaning::Quiet)),
            (None, Some((doing, eighths))) => (theme.column(doing, eighths), theme.doing(doing)),
            (None, None) => (' ', style),
        };
        if next != style && !text.is_empty() {
            spans.push(Span::styled(std::mem::take(&mut text), style));
        }
        style = next;
        text.push(letter);
    }
    spans.push(Span::styled(text, style));
    Line::from(spans)
}
