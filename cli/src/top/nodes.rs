//! The cluster's table, of a master: a row for each GPU, the best for a new container first.

use super::model::Model;
use super::rows::{bytes, cut, mark, scroll, span};
use super::theme::{Meaning, Theme};
use super::view::{View, id_of};
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};
use wire::cluster::{MasterLine, NodeRank};

/// Cells of the bar of free memory.
const BAR: usize = 10;
/// Names are cut beyond this.
const NAME_MAX: usize = 32;
/// How wide the screen must be for the bar, and for how old reports are.
const BAR_NEEDS: u16 = 100;
const AGE_NEEDS: u16 = 70;

/// Draws headings and rows into an area.
pub(super) fn draw(frame: &mut Frame<'_>, area: Rect, model: &Model, view: &mut View, now_us: i64) {
    let theme = view.theme;
    let nodes = view.nodes(model);
    let longest = nodes.iter().map(|node| node.node.chars().count()).max().unwrap_or(0);
    let names = longest.clamp(4, NAME_MAX);
    let heading = Line::styled(headings(names, area.width), theme.style(Meaning::Heading));
    frame.render_widget(heading, Rect { height: 1, ..area });
    let below = Rect { y: area.y + 1, height: area.height.saturating_sub(1), ..area };
    view.drawn.headings.clear();
    view.drawn.rows = below;
    view.drawn.ids = nodes.iter().map(|node| id_of(node)).collect();
    scroll(view, below.height as usize);
    for (node, y) in nodes.iter().skip(view.first).zip(below.y..below.bottom()) {
        let mut spans = mark(view, &id_of(node), &cut(&node.node, names), names);
        spans.extend(cells(node, theme, area.width, model.age_us(node, now_us)));
        frame.render_widget(Line::from(spans), Rect { y, height: 1, ..below });
    }
}

fn headings(names: usize, width: u16) -> String {
    let bar = if width >= BAR_NEEDS { BAR + 1 } else { 0 };
    let age = if width >= AGE_NEEDS { "  REPORTED" } else { "" };
    let memory = format!("{:<1$}", "FREE MEMORY", bar + 20);
    format!("  {:<names$}  GPU  {:<11}  {memory}  {:>9}{age}  SERVICES", "NODE", "STATE", "FLOAT")
}

fn cells(node: &NodeRank, theme: Theme, width: u16, age_us: i64) -> Vec<Span<'static>> {
    let (quiet, text) = (theme.style(Meaning::Quiet), theme.style(Meaning::Text));
    let matters = if node.provisionable { text } else { quiet };
    let mut spans = vec![
        Span::styled(format!("{:>3}  ", node.gpu), matters),
        Span::styled(format!("{:<11}  ", node.state), theme.style(meaning(node))),
    ];
    let (free, total) = (node.gpu_memory_free_bytes, node.gpu_memory_total_bytes);
    if width >= BAR_NEEDS {
        let (full, rest) = theme.bar(free as f64 / total.max(1) as f64, BAR);
        spans.push(Span::styled(full, theme.style(Meaning::Good)));
        spans.push(Span::styled(format!("{rest} "), quiet));
    }
    let memory = format!("{} of {}", bytes(free), bytes(total));
    let float = node.float_us.map_or_else(|| "unlimited".to_owned(), span);
    spans.push(Span::styled(format!("{memory:<20}  {float:>9}"), matters));
    if width >= AGE_NEEDS {
        let late = if node.state == "silent" { Meaning::Missed } else { Meaning::Quiet };
        spans.push(Span::styled(format!("  {:>8}", span(age_us)), theme.style(late)));
    }
    spans.push(Span::raw("  "));
    spans.push(match &node.reason {
        Some(reason) => Span::styled(reason.clone(), theme.style(meaning(node))),
        None => Span::styled(node.services.join(", "), text),
    });
    spans
}

fn meaning(node: &NodeRank) -> Meaning {
    match node.state.as_str() {
        _ if node.provisionable => Meaning::Good,
        "missed" | "silent" => Meaning::Missed,
        _ => Meaning::Thin,
    }
}

/// Who answers, and how long placements take.
pub(super) fn title(master: &MasterLine, nodes: &[NodeRank]) -> (String, String) {
    let agents = master.agents;
    let who = format!("  {agents} {}, {} GPUs", if agents == 1 { "agent" } else { "agents" }, nodes.len());
    let role = match (master.active, master.leader.as_str()) {
        (true, _) => "active".to_owned(),
        (false, "") => "waits: the swarm has no leader".to_owned(),
        (false, leader) => format!("waits: {leader} leads"),
    };
    let mut about = format!("  master {} {role}", master.address);
    if let (Some(half), Some(most)) = (master.placement_p50_us, master.placement_p99_us) {
        let (half, most) = (half as f64 / 1000.0, most as f64 / 1000.0);
        about += &format!("  {} placed, p50 {half:.1}ms p99 {most:.1}ms", master.placements);
    }
    (who, about)
}

/// What there is to say of one, for people.
pub(super) fn sentences(node: &NodeRank, age_us: i64) -> Vec<String> {
    let state = match &node.reason {
        Some(reason) => format!("It takes nobody: {reason}."),
        None => "It takes another container.".to_owned(),
    };
    let float = node.float_us.map_or_else(|| "unlimited".to_owned(), span);
    let (free, total) = (bytes(node.gpu_memory_free_bytes), bytes(node.gpu_memory_total_bytes));
    let services = match node.services.as_slice() {
        [] => "No service is placed on the node.".to_owned(),
        services => format!("Services on the node: {}.", services.join(", ")),
    };
    vec![state, format!("{free} of {total} free, float {float}, reported {} ago.", span(age_us)), services]
}
