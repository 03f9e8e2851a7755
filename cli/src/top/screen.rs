//! The whole screen: the machine and its GPUs above, the table, what happened last below, and what lies over it.

use super::keys::{HELP, HELP_WITH_CONTAINERS};
use super::model::Model;
use super::nodes;
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
/// The longest table that is printed: a frame has as many lines as a small number can count.
const ROWS_MAX: u16 = 20_000;
/// How much of what happened last is shown of a cluster.
const NEWS_SHOWN: usize = 6;

/// Draws it. What was stopped is drawn as it was then.
pub(super) fn draw(frame: &mut Frame<'_>, model: &Model, view: &mut View, now_us: i64) {
    let paused = view.paused.take();
    let (shown, at_us) = paused.as_ref().map_or((model, now_us), |(model, at_us)| (&**model, *at_us));
    let footer = if view.printed { 0 } else { 2 };
    let parts = [
        Constraint::Length(header_height(shown)),
        Constraint::Length(1),
        Constraint::Min(2),
        Constraint::Length(news_height(shown)),
        Constraint::Length(footer),
    ];
    let [header, _, table, happened, below] = Layout::vertical(parts).areas(frame.area());
    draw_header(frame, header, shown, view, paused.is_some(), model.lost.as_deref(), at_us);
    let empty = if shown.master.is_some() {
        nodes::draw(frame, table, shown, view, at_us);
        draw_news(frame, happened, shown, view.theme);
        let words = "No node reports yet. `leeway cluster token` shows what lets an agent join.";
        shown.nodes.is_empty().then_some(words)
    } else {
        rows::draw(frame, table, shown, view, at_us);
        let words = "No container has used a GPU yet. `leeway run --deadline 2s IMAGE` gives one a deadline.";
        shown.containers.is_empty().then_some(words)
    };
    if let Some(words) = empty {
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
    let with_containers = shown.master.is_none();
    view.paused = paused;
    match &view.open {
        Open::Nothing => {}
        Open::Help => draw_help(frame, view.theme, with_containers),
        Open::Explained(name, answer) => {
            let lines = match answer {
                Ok(sentences) => sentences.iter().map(|words| Line::raw(words.clone())).collect(),
                Err(why) => vec![Line::raw(why.clone())],
            };
            draw_over(frame, view.theme, &format!(" {name} "), lines);
        }
    }
}

/// How high a screen must be to hold everything.
pub(super) fn height(model: &Model) -> u16 {
    let rows = model.containers.len().max(model.nodes.len()).max(1);
    header_height(model) + 2 + u16::try_from(rows).unwrap_or(ROWS_MAX).min(ROWS_MAX) + news_height(model)
}

fn header_height(model: &Model) -> u16 {
    1 + model.node.as_ref().map_or(0, |node| node.gpus.len().max(1)) as u16
}

/// What happened last has lines of its own where it is the master's, and an empty one before them.
fn news_height(model: &Model) -> u16 {
    let shown = model.news.len().min(NEWS_SHOWN);
    if model.master.is_some() && shown > 0 { 1 + shown as u16 } else { 0 }
}

fn draw_news(frame: &mut Frame<'_>, area: Rect, model: &Model, theme: Theme) {
    let first = model.news.len().saturating_sub(NEWS_SHOWN);
    for (event, y) in model.news[first..].iter().zip(area.y + 1..area.bottom()) {
        frame.render_widget(news(event, theme, true), Rect { y, height: 1, ..area });
    }
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
    if let Some(master) = &model.master {
        let (who, about) = nodes::title(master, &model.nodes);
        title.extend([Span::raw(who), Span::styled(about, quiet)]);
    }
    if let Some(node) = &model.node {
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
    let gpus = model.node.iter().flat_map(|node| &node.gpus);
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
        (None, Some(event)) if model.master.is_none() => news(event, theme, false),
        (None, _) => Line::default(),
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
        let sort = if model.master.is_none() { "  s sort" } else { "" };
        let words = format!("? help  / filter{sort}  p stop  Enter explain  t {}  q quit", theme.name());
        Line::styled(words, quiet)
    };
    frame.render_widget(keys, Rect { y: area.y + 1, height: 1, ..area });
}

/// One event; where it happened is worth a word in a cluster.
fn news(event: &EventLine, theme: Theme, with_node: bool) -> Line<'static> {
    let mut who = event.name.clone().unwrap_or_else(|| "a process".to_owned());
    if with_node {
        who += &format!(" on {}", event.node);
    }
    let meaning = if event.event == "missed" { Meaning::Missed } else { Meaning::Text };
    let time = crate::timeline::micros(&event.time).map_or_else(String::new, clock);
    Line::from(vec![
        Span::styled(format!("{time}  "), theme.style(Meaning::Quiet)),
        Span::styled(event.event.clone(), theme.style(meaning)),
        Span::raw(format!("  {who}: {}", event.reason)),
    ])
}

fn draw_help(frame: &mut Frame<'_>, theme: Theme, with_containers: bool) {
    let line = |(keys, words): (&str, &str)| {
        Line::from(vec![
            Span::styled(format!("{keys:<16}"), theme.style(Meaning::Heading)),
            Span::raw(words.to_owned()),
        ])
    };
    let more = HELP_WITH_CONTAINERS.into_iter().filter(|_| with_containers);
    draw_over(frame, theme, " help ", HELP.into_iter().chain(more).map(line).collect());
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
