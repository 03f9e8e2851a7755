//! What the person wants to see: the order, the filter, the theme, and what is open.

use super::lanes::Lanes;
use super::model::Model;
use super::theme::Theme;
use crate::timeline::micros;
use ratatui::layout::Rect;
use wire::agent::{ContainerLine, State};
use wire::cluster::NodeRank;

/// What rows are ordered by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sort {
    Name,
    Gpu,
    Core,
    Memory,
    State,
    Deadline,
    Float,
    Hits,
}

impl Sort {
    pub(super) const ALL: [Self; 8] = [
        Self::Name,
        Self::Gpu,
        Self::Core,
        Self::Memory,
        Self::State,
        Self::Deadline,
        Self::Float,
        Self::Hits,
    ];

    pub(super) fn next(self) -> Self {
        let at = Self::ALL.iter().position(|sort| *sort == self).unwrap_or(0);
        Self::ALL[(at + 1) % Self::ALL.len()]
    }
}

/// Something that lies over the table.
pub(super) enum Open {
    Nothing,
    Help,
    /// Why a container is, or is not, running, or what a node says, in sentences; or why nobody can say.
    Explained(String, Result<Vec<String>, String>),
}

/// What is shown, and how.
pub(super) struct View {
    pub(super) theme: Theme,
    pub(super) sort: Sort,
    pub(super) reversed: bool,
    pub(super) filter: String,
    /// The filter is being typed.
    pub(super) typing: bool,
    /// What was so when the person stopped it, and when that was.
    pub(super) paused: Option<(Box<Model>, i64)>,
    pub(super) open: Open,
    /// The container that is chosen, or the node's GPU.
    pub(super) chosen: Option<String>,
    /// The first row that is on the screen.
    pub(super) first: usize,
    /// For scripts: no keys, no colours, no place for what cannot be reached.
    pub(super) printed: bool,
    pub(super) lanes: Lanes,
    /// Where things were drawn, for the mouse.
    pub(super) drawn: Drawn,
}

/// Where things are on the screen.
#[derive(Default)]
pub(super) struct Drawn {
    pub(super) headings: Vec<(Rect, Sort)>,
    pub(super) rows: Rect,
    pub(super) ids: Vec<String>,
}

impl View {
    pub(super) fn new(theme: Theme) -> Self {
        Self {
            theme,
            sort: Sort::Name,
            reversed: false,
            filter: String::new(),
            typing: false,
            paused: None,
            open: Open::Nothing,
            chosen: None,
            first: 0,
            printed: false,
            lanes: Lanes::default(),
            drawn: Drawn::default(),
        }
    }

    /// The containers to show, in order.
    pub(super) fn rows<'a>(&self, model: &'a Model, now_us: i64) -> Vec<&'a ContainerLine> {
        let filter = self.filter.to_lowercase();
        let wanted = |line: &&ContainerLine| {
            let state = line.live.state.name();
            filter.is_empty() || line.name.to_lowercase().contains(&filter) || state.contains(&filter)
        };
        let mut rows: Vec<&ContainerLine> = model.containers.values().filter(wanted).collect();
        let by = |line: &ContainerLine| -> i64 {
            match self.sort {
                Sort::Name => 0,
                Sort::Gpu => line.live.gpu.map_or(i64::MAX, i64::from),
                Sort::Core => -((line.gpu_core_ratio * 1000.0) as i64),
                Sort::Memory => -(line.gpu_memory_bytes.cast_signed()),
                Sort::State => rank(line.live.state),
                Sort::Deadline => line.deadline_us.unwrap_or(i64::MAX),
                Sort::Float => float_us(line, now_us).unwrap_or(i64::MAX),
                Sort::Hits => (hit_rate(line).unwrap_or(2.0) * 1e6) as i64,
            }
        };
        rows.sort_by(|a, b| by(a).cmp(&by(b)).then_with(|| a.name.cmp(&b.name)));
        if self.reversed {
            rows.reverse();
        }
        rows
    }

    /// The node list, as far as it is wanted, in its own order.
    pub(super) fn nodes<'a>(&self, model: &'a Model) -> Vec<&'a NodeRank> {
        let filter = self.filter.to_lowercase();
        let has = |words: &String| words.to_lowercase().contains(&filter);
        let wanted = |node: &&NodeRank| has(&node.node) || has(&node.state) || node.services.iter().any(has);
        model.nodes.iter().filter(wanted).collect()
    }

    /// Chooses the row so many below the one that is chosen.
    pub(super) fn choose(&mut self, model: &Model, now_us: i64, by: isize) {
        let ids: Vec<String> = match model.master {
            Some(_) => self.nodes(model).into_iter().map(id_of).collect(),
            None => self.rows(model, now_us).into_iter().map(|line| line.id.clone()).collect(),
        };
        let at = self.chosen.as_ref().and_then(|id| ids.iter().position(|one| one == id));
        let next = at.map_or(0, |at| at.saturating_add_signed(by).min(ids.len().saturating_sub(1)));
        self.chosen = ids.into_iter().nth(next);
    }
}

/// What a GPU of the node list is called.
pub(super) fn id_of(node: &NodeRank) -> String {
    format!("{}, GPU {}", node.node, node.gpu)
}

/// Who runs comes before who waits, and both before who does nothing.
fn rank(state: State) -> i64 {
    match state {
        State::Running => 0,
        State::Held => 1,
        State::Frozen => 2,
        State::Swapped => 3,
        State::Idle => 4,
    }
}

/// What is left of the deadline now, or was left of the latest.
pub(super) fn float_us(line: &ContainerLine, now_us: i64) -> Option<i64> {
    match &line.due {
        Some(due) => micros(due).map(|due_us| due_us - now_us),
        None => line.live.float_us,
    }
}

/// Of the tasks that had a deadline, the share that made it.
pub(super) fn hit_rate(line: &ContainerLine) -> Option<f64> {
    let all = line.live.hits + line.live.misses;
    (all > 0).then(|| line.live.hits as f64 / all as f64)
}
