//! What the agent said, put together.

use super::feed::Heard;
use crate::timeline::Timeline;
use std::collections::BTreeMap;
use wire::agent::{ContainerLine, EventLine, LiveLine, NodeLine};

/// How much news is kept to be shown.
const NEWS_KEPT: usize = 100;

/// Everything the screen can show. One node today; a master's list would be several.
#[derive(Clone, Default)]
pub(super) struct Model {
    pub(super) nodes: Vec<NodeLine>,
    pub(super) containers: BTreeMap<String, ContainerLine>,
    pub(super) timeline: Timeline,
    /// The latest last.
    pub(super) news: Vec<EventLine>,
    /// Why nothing new comes, if nothing does.
    pub(super) lost: Option<String>,
    /// Counts what was heard: what was drawn of an earlier count is out of date.
    pub(super) heard: u64,
}

impl Model {
    pub(super) fn hear(&mut self, heard: Heard) {
        self.heard += 1;
        match heard {
            Heard::Lost(why) => self.lost = Some(why),
            Heard::Line(line) => self.take(*line),
        }
    }

    fn take(&mut self, line: LiveLine) {
        self.lost = None;
        if line.all {
            *self = Self { heard: self.heard, ..Self::default() };
        }
        if let Some(node) = line.node {
            self.nodes = vec![node];
        }
        for id in line.gone {
            self.containers.remove(&id);
        }
        for container in line.containers {
            self.containers.insert(container.id.clone(), container);
        }
        for event in &line.events {
            self.timeline.hear(event);
        }
        for task in line.tasks {
            self.timeline.see(task);
        }
        self.news.extend(line.events);
        let over = self.news.len().saturating_sub(NEWS_KEPT);
        self.news.drain(..over);
    }

    /// Forgets what nobody will be shown any more.
    pub(super) fn forget(&mut self, before_us: i64) {
        self.timeline.forget_before(before_us);
    }
}
