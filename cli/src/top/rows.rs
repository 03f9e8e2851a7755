//! The table: a row for each container, as many columns as fit, and the rest of the line for its last minute.

use super::lanes::SPAN_US;
use super::model::Model;
use super::theme::{Meaning, Theme};
use super::view::{Sort, View, float_us, hit_rate};
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Span};
use sched::Span as Length;
use wire::agent::{ContainerLine, State};

/// A bar of this many cells is a whole deadline.
const BAR: usize = 10;
/// Under a fifth of the deadline, a float is thin.
const THIN: f64 = 0.2;
/// The least that a lane needs to tell anything.
const LANE_MIN: u16 = 20;
/// Names are cut beyond this.
const NAME_MAX: usize = 28;

/// A column: what it is called, how wide it is, which side it keeps to, how wide the screen must be for it.
struct Column {
    sort: Sort,
    heading: &'static str,
    width: u16,
    right: bool,
    needs: u16,
}

const fn column(sort: Sort, heading: &'static str, width: u16, right: bool, needs: u16) -> Column {
    Column { sort, heading, width, right, needs }
}

const COLUMNS: [Column; 7] = [
    column(Sort::Gpu, "GPU", 4, true, 92),
    column(Sort::Core, "CORE", 5, true, 100),
    column(Sort::Memory, "MEMORY", 8, true, 108),
    column(Sort::State, "STATE", 7, false, 0),
    column(Sort::Deadline, "DEADLINE", 8, true, 84),
    column(Sort::Float, "FLOAT", BAR as u16 + 9, false, 0),
    column(Sort::Hits, "HITS", 12, true, 72),
];

/// Draws headings and rows into an area.
pub(super) fn draw(frame: &mut Frame<'_>, area: Rect, model: &Model, view: &mut View, now_us: i64) {
    let rows = view.rows(model, now_us);
    let longest = rows.iter().map(|line| line.name.chars().count()).max().unwrap_or(0);
    let names = longest.clamp(9, NAME_MAX) as u16;
    let columns: Vec<&Column> = COLUMNS.iter().filter(|column| column.needs <= area.width).collect();
    let used = 2 + names + 2 + columns.iter().map(|column| column.width + 2).sum::<u16>();
    let lane = area.width.saturating_sub(used + 1);
    let lane = if lane >= LANE_MIN { lane } else { 0 };
    headings(frame, area, view, names, &columns, lane);
    let below = Rect { y: area.y + 1, height: area.height.saturating_sub(1), ..area };
    view.drawn.rows = below;
    view.drawn.ids = rows.iter().map(|line| line.id.clone()).collect();
    scroll(view, below.height as usize);
    let theme = view.theme;
    for (line, y) in rows.iter().skip(view.first).zip(below.y..below.bottom()) {
        let mut spans = mark(view, &line.id, &cut(&line.name, names as usize), names as usize);
        for column in &columns {
            spans.extend(cell(column, line, theme, now_us));
            spans.push(Span::raw("  "));
        }
        spans.push(Span::raw(" "));
        if lane > 0 {
            spans.extend(view.lanes.line(model, &line.name, theme, lane as usize, now_us).spans);
        }
        frame.render_widget(Line::from(spans), Rect { y, height: 1, ..below });
    }
}

/// The beginning of a row: its name, and whether it is chosen.
pub(super) fn mark(view: &View, id: &str, name: &str, width: usize) -> Vec<Span<'static>> {
    let (theme, chosen) = (view.theme, view.chosen.as_deref() == Some(id));
    let mark = if chosen { if theme == Theme::Ascii { "> " } else { "▌ " } } else { "  " };
    let bold = if chosen { Style::new().add_modifier(Modifier::BOLD) } else { Style::new() };
    vec![Span::styled(mark, theme.style(Meaning::Heading)), Span::styled(format!("{name:width$}  "), bold)]
}

/// Keeps the chosen row on the screen.
pub(super) fn scroll(view: &mut View, height: usize) {
    let ids = &view.drawn.ids;
    view.first = view.first.min(ids.len().saturating_sub(height));
    let chosen = view.chosen.as_ref().and_then(|id| ids.iter().position(|one| one == id));
    if let Some(chosen) = chosen {
        view.first = view.first.min(chosen).max((chosen + 1).saturating_sub(height));
    }
}

fn headings(frame: &mut Frame<'_>, area: Rect, view: &mut View, names: u16, columns: &[&Column], lane: u16) {
    let theme = view.theme;
    view.drawn.headings.clear();
    let mut x = area.x + 2;
    let mut place = |frame: &mut Frame<'_>, words: &str, width: u16, right: bool, sort: Sort| {
        let place = Rect { x, y: area.y, width: width.min(area.right().saturating_sub(x)), height: 1 };
        let arrow = match (view.sort == sort && !view.printed, view.reversed, theme) {
            (false, ..) => "",
            (true, false, Theme::Ascii) => "<",
            (true, true, Theme::Ascii) => ">",
            (true, false, _) => "▴",
            (true, true, _) => "▾",
        };
        let words = Line::styled(format!("{words}{arrow}"), theme.style(Meaning::Heading));
        frame.render_widget(if right { words.right_aligned() } else { words }, place);
        view.drawn.headings.push((place, sort));
        x += width + 2;
    };
    place(frame, "CONTAINER", names, false, Sort::Name);
    for column in columns {
        place(frame, column.heading, column.width, column.right, column.sort);
    }
    if lane > 0 {
        let ago = format!("-{}s", SPAN_US / 1_000_000);
        let rest = lane as usize - ago.len() - "now".len();
        let words = format!("{ago}{:^rest$}now", if rest > 13 { "LAST MINUTE" } else { "" });
        let place = Rect { x: area.right() - lane, y: area.y, width: lane, height: 1 };
        frame.render_widget(Span::styled(words, theme.style(Meaning::Quiet)), place);
    }
}

fn cell(column: &Column, line: &ContainerLine, theme: Theme, now_us: i64) -> Vec<Span<'static>> {
    let width = column.width as usize;
    let plain = |text: String, meaning| vec![Span::styled(text, theme.style(meaning))];
    let right = |text: String| format!("{text:>width$}");
    let busy = line.live.state != State::Idle;
    let matters = if busy { Meaning::Text } else { Meaning::Quiet };
    match column.sort {
        Sort::Name => Vec::new(),
        Sort::Gpu => {
            plain(right(line.live.gpu.map_or_else(|| "-".to_owned(), |gpu| gpu.to_string())), matters)
        }
        Sort::Core if busy => plain(right(format!("{:.0} %", line.gpu_core_ratio * 100.0)), Meaning::Text),
        Sort::Memory if busy => plain(right(bytes(line.gpu_memory_bytes)), Meaning::Text),
        Sort::Core | Sort::Memory => plain(right("-".to_owned()), Meaning::Quiet),
        Sort::State => {
            let meaning = match line.live.state {
                State::Running => Meaning::Runs,
                State::Held | State::Frozen | State::Swapped => Meaning::Held,
                State::Idle => Meaning::Quiet,
            };
            plain(format!("{:width$}", line.live.state.name()), meaning)
        }
        Sort::Deadline => plain(right(line.deadline_us.map_or_else(|| "-".to_owned(), span)), Meaning::Quiet),
        Sort::Float => float(line, theme, now_us),
        Sort::Hits => {
            let rate = hit_rate(line);
            let meaning = if rate.is_some_and(|rate| rate < 1.0) { Meaning::Thin } else { Meaning::Quiet };
            let all = line.live.hits + line.live.misses;
            let words = rate.map_or_else(|| "-".to_owned(), |rate| percent(line.live.hits, all, rate));
            plain(right(words), meaning)
        }
    }
}

/// `12/13 92%`; a rate that is not whole is never shown as whole.
fn percent(hits: u64, all: u64, rate: f64) -> String {
    let shown = if hits == all { 100.0 } else { (rate * 100.0).floor() };
    format!("{hits}/{all} {shown:.0}%")
}

/// A bar that empties: green, yellow when it is thin, red when it is too late.
fn float(line: &ContainerLine, theme: Theme, now_us: i64) -> Vec<Span<'static>> {
    let width = BAR + 9;
    let Some(float_us) = float_us(line, now_us) else {
        return vec![Span::styled(format!("{:>width$}", "-"), theme.style(Meaning::Quiet))];
    };
    let value = format!("{:>8}", span(float_us));
    let share = float_us as f64 / line.deadline_us.unwrap_or(1).max(1) as f64;
    let meaning = match share {
        share if share < 0.0 => Meaning::Missed,
        share if share < THIN => Meaning::Thin,
        _ => Meaning::Good,
    };
    // Of a task that is over, only the figure is left.
    if line.due.is_none() {
        let meaning = if meaning == Meaning::Missed { meaning } else { Meaning::Quiet };
        return vec![Span::raw(" ".repeat(BAR + 1)), Span::styled(value, theme.style(meaning))];
    }
    let (full, rest) = match (meaning, theme) {
        (Meaning::Missed, Theme::Ascii) => ("!".repeat(BAR), String::new()),
        (Meaning::Missed, _) => ("█".repeat(BAR), String::new()),
        _ => theme.bar(share, BAR),
    };
    let style = theme.style(meaning);
    vec![
        Span::styled(full, style),
        Span::styled(rest, theme.style(Meaning::Quiet)),
        Span::styled(format!(" {value}"), style),
    ]
}

/// A length as it can be read while it changes: tenths of seconds, whole milliseconds below one.
pub(super) fn span(us: i64) -> String {
    let step = if us.abs() >= 1_000_000 { 100_000 } else { 1_000 };
    // Down, so that what is late is never shown as being in time.
    Length::from_micros(us.div_euclid(step) * step).to_string()
}

pub(super) fn bytes(bytes: u64) -> String {
    let mib = bytes as f64 / f64::from(1 << 20);
    if mib >= 1000.0 { format!("{:.1} GiB", mib / 1024.0) } else { format!("{mib:.0} MiB") }
}

pub(super) fn cut(name: &str, width: usize) -> String {
    if name.chars().count() <= width {
        return name.to_owned();
    }
    name.chars().take(width.saturating_sub(1)).chain(['…']).collect()
}
