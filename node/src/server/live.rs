//! What an agent's follower hears of: the machine, containers and tasks that have changed.

use super::{Asked, Desk, ask, tasks_since};
use crate::clock;
use crate::views::Question;
use axum::extract::{Query, State};
use axum::response::{IntoResponse, Response};
use std::collections::HashMap;
use std::time::Duration;
use web::{Dated, Source};
use wire::agent::{ContainerLine, LiveLine, NodeLine, TaskLine};

/// How often it is looked whether something has changed. What people see should be less than half a second old.
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// What one follower was told.
struct Told {
    desk: Desk,
    since_us: i64,
    node: Option<NodeLine>,
    containers: HashMap<String, ContainerLine>,
    tasks: HashMap<(u32, u16, String), TaskLine>,
}

pub(super) async fn follow(State(desk): State<Desk>, Query(asked): Query<Asked>) -> impl IntoResponse {
    let since_us = asked.since_us.unwrap_or_else(clock::wall_now_us);
    let feed = std::sync::Arc::clone(&desk.feed);
    let told = Told { desk, since_us, node: None, containers: HashMap::new(), tasks: HashMap::new() };
    web::follow(&feed, since_us, LOOK_EVERY, told)
}

impl Source for Told {
    async fn look(&mut self, line: &mut LiveLine, news: &[Dated]) -> Option<()> {
        self.take(line, news).await.ok()
    }
}

impl Told {
    async fn take(&mut self, line: &mut LiveLine, news: &[Dated]) -> Result<(), Response> {
        // Finished tasks are looked up only when some have finished.
        let ended = news.iter().filter(|(_, event)| event.event == "finished").map(|(at_us, _)| *at_us);
        let since_us = if line.all { Some(self.since_us) } else { ended.min() };
        let node = ask(&self.desk, Question::Node).await?;
        let containers = ask(&self.desk, Question::Containers).await?;
        let tasks = match since_us {
            // The ledger's times are rounded, and so may be a little earlier than the news'.
            Some(us) => {
                tasks_since(&self.desk, &Asked { since_us: Some(us - 1000), container: None }).await?
            }
            None => ask(&self.desk, Question::Tasks).await?,
        };
        self.take_node(line, node);
        self.take_containers(line, containers);
        self.take_tasks(line, tasks);
        Ok(())
    }

    fn take_node(&mut self, line: &mut LiveLine, node: NodeLine) {
        // How busy the core is changes all the time, and is told with the rest.
        if self.node.as_ref() != Some(&node) {
            self.node = Some(node.clone());
            line.node = Some(node);
        }
    }

    fn take_containers(&mut self, line: &mut LiveLine, containers: Vec<ContainerLine>) {
        let mut before = std::mem::take(&mut self.containers);
        for container in containers {
            let known = before.remove(&container.id);
            if known.is_none_or(|known| ageless(&known) != ageless(&container)) {
                line.containers.push(container.clone());
            }
            self.containers.insert(container.id.clone(), container);
        }
        line.gone = before.into_keys().collect();
    }

    fn take_tasks(&mut self, line: &mut LiveLine, tasks: Vec<TaskLine>) {
        let mut before = std::mem::take(&mut self.tasks);
        for task in tasks {
            let key = (task.pid, task.gpu, task.start.clone());
            let known = before.remove(&key);
            if known.is_none_or(|known| ageless_task(&known) != ageless_task(&task)) {
                line.tasks.push(task.clone());
            }
            // What has ended will not change, and need not be remembered.
            if task.end.is_none() {
                self.tasks.insert(key, task);
            }
        }
    }
}

fn ageless(line: &ContainerLine) -> ContainerLine {
    let mut line = line.clone();
    if line.due.is_some() {
        line.live.float_us = None;
    }
    line
}

fn ageless_task(line: &TaskLine) -> TaskLine {
    let held_us = if line.held { 0 } else { line.held_us };
    TaskLine { run_us: 0, float_us: None, held_us, ..line.clone() }
}
