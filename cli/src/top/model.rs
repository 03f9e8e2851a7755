//! What the agent said, or the master, put together.

use super::feed::Heard;
use crate::timeline::{Timeline, micros};
use std::collections::BTreeMap;
use wire::agent::{ContainerLine, EventLine, LiveLine, NodeLine};
use wire::cluster::{MasterLine, NodeRank};

/// How much news is kept to be shown.
const NEWS_KEPT: usize = 100;

/// Everything the screen can show.
#[derive(Clone, Default)]
pub(super) struct Model {
    /// The machine, where its agent speaks.
    pub(super) node: Option<NodeLine>,
    /// The master, where one speaks.
    pub(super) master: Option<MasterLine>,
    /// Its node list in rank order, and when it was so.
    pub(super) nodes: Vec<NodeRank>,
    nodes_us: i64,
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
            self.node = Some(node);
        }
        if let Some(master) = line.master {
            self.master = Some(master);
        }
        if let Some(nodes) = line.nodes {
            self.nodes = nodes;
            self.nodes_us = micros(&line.time).unwrap_or_default();
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

    /// How old a node's report is by now.
    pub(super) fn age_us(&self, node: &NodeRank, now_us: i64) -> i64 {
        node.age_us + (now_us - self.nodes_us).max(0)
    }

    /// Forgets what nobody will be shown any more.
    pub(super) fn forget(&mut self, before_us: i64) {
        self.timeline.forget_before(before_us);
    }
}
