//! What a master's follower hears of: the master, and its node list, when they have changed.
//!
//! A list is told as a whole, for with the float of one node the rank of many may change. A report that only grows older is no change;
//! a newer one, which says that its node lives, is.

use crate::clock;
use crate::master::Master;
use sched::time::Instant;
use std::sync::Arc;
use std::time::Duration;
use web::{Dated, Source};
use wire::agent::LiveLine;
use wire::cluster::{MasterLine, NodeRank};

/// How often it is looked whether something has changed: agents say each second that they live.
pub(crate) const LOOK_EVERY: Duration = Duration::from_secs(1);

/// What one follower was told.
pub(crate) struct Told {
    master: Arc<Master>,
    about: Option<MasterLine>,
    nodes: Vec<NodeRank>,
}

impl Told {
    /// Nothing yet.
    pub(crate) fn new(master: Arc<Master>) -> Self {
        Self { master, about: None, nodes: Vec::new() }
    }
}

impl Source for Told {
    async fn look(&mut self, line: &mut LiveLine, _: &[Dated]) -> Option<()> {
        let about = self.master.line();
        if self.about.as_ref().map(steady) != Some(steady(&about)) {
            line.master = Some(about.clone());
            self.about = Some(about);
        }
        let now = clock::now();
        let nodes = self.master.book().ranked(now, self.master.strategy);
        let dated: Vec<NodeRank> = nodes.iter().map(|node| reported(now, node)).collect();
        if line.all || dated != self.nodes {
            line.nodes = Some(nodes);
            self.nodes = dated;
        }
        Some(())
    }
}

/// Without what counts up all the time.
fn steady(about: &MasterLine) -> MasterLine {
    MasterLine { reports: 0, report_bytes: 0, report_lag_p99_us: None, ..about.clone() }
}

/// With the moment of the report instead of its age.
fn reported(now: Instant, node: &NodeRank) -> NodeRank {
    NodeRank { age_us: now.as_micros().cast_signed() - node.age_us, ..node.clone() }
}
