//! The whole screen: the machine and its GPUs above, the table, what happened last below, and what lies over it.

use super::keys::HELP;
use super::model::Model;
use super::rows::{self, bytes, span};
use super::theme::{Meaning, Theme};
use super::view::{Open, View};
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Clear, Paragraph, Wrap};
use wire::agent::{EventLine, GpuLine, NodeLine};

/// Cells of the bars in the header, and on a narrow screen.
const BAR: usize = 12;
const BAR_NARROW: usize = 5;

/// Draws it. What was stopped is drawn as it was then.
pub(super) fn draw(frame: &mut Frame<'_>, model: &Model, view: &mut View, now_us: i64) {
    let paused = view.paused.take();
    let (shown, at_us) = paused.as_ref().map_or((model, now_us), |(model, at_us)| (&**model, *at_us));
    let footer = if view.printed { 0 } else { 2 };
    let parts = [
        Constraint::Length(header_height(shown)),
        Constraint::Length(1),
        Constraint::Min(2),
        Constraint::Length(footer),
    ];
    let [header, _, table, below] = Layout::vertical(parts).areas(frame.area());
    draw_header(frame, header, shown, view, paused.is_some(), model.lost.as_deref(), at_us);
    rows::draw(frame, table, shown, view, at_us);
    if shown.containers.is_empty() {
        let words = "No container has used a GPU yet. `leeway run --deadline 2s IMAGE` gives one a deadline.";
        let place = Rect {
            y: table.y + 1,
            height: 1.min(table.height.saturating_sub(1)),
            x: table.x + 2,
            width: table.width.saturating_sub(2),
        };
        frame.render_widget(Span::styled(words, view.theme.style(Meaning::Quiet)), place);
    }
    if footer > 0 {
        draw_footer(frame, below, shown, view);
    }
    view.paused = paused;
    match &view.open {
        Open::Nothing => {}
        Open::Help => draw_help(frame, view.theme),
        Open::Explained(name, answer) => {
            let lines = match answer {
                Ok(line) => line.sentences.iter().map(|words| Line::raw(words.clone())).collect(),
                Err(why) => vec![Line::raw(why.clone())],
            };
            draw_over(frame, view.theme, &format!(" {name} "), lines);
        }
    }
}

/// How high a screen must be to hold everything.
pub(super) fn height(model: &Model) -> u16 {
    header_height(model) + 2 + model.containers.len().max(1) as u16
}

fn header_height(model: &Model) -> u16 {
    let gpus = model.nodes.iter().map(|node| node.gpus.len().max(1)).sum::<usize>();
    1 + gpus as u16
}

fn draw_header(
    frame: &mut Frame<'_>,
    area: Rect,
    model: &Model,
    view: &View,
    paused: bool,
    lost: Option<&str>,
    now_us: i64,
) {
    let theme = view.theme;
    let quiet = theme.style(Meaning::Quiet);
    let mut title = vec![Span::styled("leeway", theme.style(Meaning::Heading))];
    for node in &model.nodes {
        title.push(Span::raw(format!("  {}", node.node)));
        title.push(Span::styled(format!("  policy {}  {}", node.policy, seen(node)), quiet));
    }
    frame.render_widget(Line::from(title), Rect { height: 1, ..area });
    let (words, meaning) = match (lost, paused) {
        (Some(why), _) => (format!("{why}; trying again"), Meaning::Missed),
        (None, true) => ("stopped: p goes on".to_owned(), Meaning::Thin),
        (None, false) => (clock(now_us), Meaning::Quiet),
    };
    let words = Line::styled(words, theme.style(meaning)).right_aligned();
    frame.render_widget(words, Rect { height: 1, ..area });
    let gpus = model.nodes.iter().flat_map(|node| &node.gpus);
    for (gpu, y) in gpus.zip(area.y + 1..area.bottom()) {
        frame.render_widget(gpu_line(gpu, theme, area.width), Rect { y, height: 1, ..area });
    }
}

/// How tasks are seen, and how exactly.
fn seen(node: &NodeLine) -> String {
    match node.tier.as_str() {
        "none" => "sees no GPU".to_owned(),
        tier => format!("{tier} to within {}", span(node.error_us)),
    }
}

fn gpu_line(gpu: &GpuLine, theme: Theme, width: u16) -> Line<'static> {
    let quiet = theme.style(Meaning::Quiet);
    let bar = |share: f64| {
        let (full, rest) = theme.bar(share, if width < 110 { BAR_NARROW } else { BAR });
        [Span::styled(full, theme.style(Meaning::Runs)), Span::styled(rest, quiet)]
    };
    let mut spans = vec![Span::raw(format!("GPU {}", gpu.gpu))];
    if width >= 110 {
        spans.push(Span::styled(format!(" {}", gpu.name), quiet));
    }
    if gpu.lost {
        spans.push(Span::styled("  does not answer", theme.style(Meaning::Missed)));
        return Line::from(spans);
    }
    spans.push(Span::styled("  core ", quiet));
    spans.extend(bar(gpu.core_ratio));
    spans.push(Span::raw(format!(" {:>3.0} %", gpu.core_ratio * 100.0)));
    spans.push(Span::styled("  memory ", quiet));
    spans.extend(bar(gpu.memory_used_bytes as f64 / gpu.memory_total_bytes.max(1) as f64));
    let (used, total) = (bytes(gpu.memory_used_bytes), bytes(gpu.memory_total_bytes));
    spans.push(Span::raw(format!(" {used} of {total}")));
    spans.push(Span::styled("  float ", quiet));
    spans.push(match gpu.float_us {
        None => Span::raw("unlimited"),
        Some(us) if us < 0 => Span::styled(span(us), theme.style(Meaning::Missed)),
        Some(us) => Span::raw(span(us)),
    });
    if !gpu.provisionable {
        spans.push(Span::styled("  takes no more", theme.style(Meaning::Thin)));
    }
    Line::from(spans)
}

fn draw_footer(frame: &mut Frame<'_>, area: Rect, model: &Model, view: &View) {
    let theme = view.theme;
    let chosen = view.chosen.as_ref().and_then(|id| model.containers.get(id));
    let waits = chosen.and_then(|line| Some((line, line.reason.as_ref()?)));
    let first = match (waits, model.news.last()) {
        (Some((line, reason)), _) => {
            let words = format!("{} is {}, because {reason}", line.name, line.live.state.name());
            Line::styled(words, theme.style(Meaning::Held))
        }
        (None, Some(event)) => news(event, theme),
        (None, None) => Line::default(),
    };
    frame.render_widget(first, Rect { height: 1, ..area });
    let quiet = theme.style(Meaning::Quiet);
    let keys = if view.typing || !view.filter.is_empty() {
        let cursor = if view.typing { "_" } else { "" };
        Line::from(vec![
            Span::styled(format!("/{}{cursor}", view.filter), theme.style(Meaning::Heading)),
            Span::styled("  Enter keeps, Esc clears", quiet),
        ])
    } else {
        let words = format!("? help  / filter  s sort  p stop  Enter explain  t {}  q quit", theme.name());
        Line::styled(words, quiet)
    };
    frame.render_widget(keys, Rect { y: area.y + 1, height: 1, ..area });
}

fn news(event: &EventLine, theme: Theme) -> Line<'static> {
    let who = event.name.clone().unwrap_or_else(|| "a process".to_owned());
    let meaning = if event.event == "missed" { Meaning::Missed } else { Meaning::Text };
    let time = crate::timeline::micros(&event.time).map_or_else(String::new, clock);
    Line::from(vec![
        Span::styled(format!("{time}  "), theme.style(Meaning::Quiet)),
        Span::styled(event.event.clone(), theme.style(meaning)),
        Span::raw(format!("  {who}: {}", event.reason)),
    ])
}

fn draw_help(frame: &mut Frame<'_>, theme: Theme) {
    let line = |(keys, words): (&str, &str)| {
        Line::from(vec![
            Span::styled(format!("{keys:<16}"), theme.style(Meaning::Heading)),
            Span::raw(words.to_owned()),
        ])
    };
    draw_over(frame, theme, " help ", HELP.into_iter().map(line).collect());
}

/// Something to read, over the table.
fn draw_over(frame: &mut Frame<'_>, theme: Theme, title: &str, lines: Vec<Line<'static>>) {
    let screen = frame.area();
    let widest = lines.iter().map(Line::width).max().unwrap_or(0) as u16 + 4;
    let width = widest.clamp(30, screen.width.saturating_sub(4).max(30)).min(screen.width);
    let inner = width.saturating_sub(4).max(1) as usize;
    let wrapped: usize = lines.iter().map(|line| line.width().div_ceil(inner).max(1)).sum();
    let height = (wrapped as u16 + 2).min(screen.height);
    let area = Rect {
        x: screen.x + (screen.width - width) / 2,
        y: screen.y + (screen.height - height) / 2,
        width,
        height,
    };
    frame.render_widget(Clear, area);
    let mut block = Block::bordered().title(title.to_owned()).border_style(theme.style(Meaning::Quiet));
    if theme == Theme::Ascii {
        block = block.border_set(PLAIN);
    }
    let block = block.padding(ratatui::widgets::Padding::horizontal(1));
    frame.render_widget(Paragraph::new(lines).wrap(Wrap { trim: true }).block(block), area);
}

/// A frame of plain characters.
const PLAIN: ratatui::symbols::border::Set<'static> = ratatui::symbols::border::Set {
    top_left: "+",
    top_right: "+",
    bottom_left: "+",
    bottom_right: "+",
    vertical_left: "|",
    vertical_right: "|",
    horizontal_top: "-",
    horizontal_bottom: "-",
};

/// The time of day, on this machine's clock.
fn clock(us: i64) -> String {
    let time = jiff::Timestamp::from_microsecond(us).unwrap_or_default();
    time.to_zoned(jiff::tz::TimeZone::system()).strftime("%H:%M:%S").to_string()
}
