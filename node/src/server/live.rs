//! `/v1/live`: everything once, and from then on what has changed, for those who show it.
//!
//! What only grows older is no change: a float runs down by itself, and whoever shows it knows when it is due.

use super::news::following;
use super::{Asked, Desk, ask, tasks_since};
use crate::clock;
use crate::feed::Dated;
use crate::views::Question;
use axum::extract::{Query, State};
use axum::response::Response;
use axum::response::sse::{Event, KeepAlive, Sse};
use futures_util::{FutureExt, Stream, StreamExt, stream};
use std::collections::HashMap;
use std::convert::Infallible;
use std::pin::Pin;
use std::time::Duration;
use wire::agent::{ContainerLine, LiveLine, NodeLine, TaskLine};

/// How often it is looked whether something has changed. What people see should be less than half a second old.
const LOOK_EVERY: Duration = Duration::from_millis(250);
/// News is told this soon after it came, with what else came meanwhile.
const NEWS_WAIT: Duration = Duration::from_millis(30);

/// What one follower was told.
struct Follower {
    desk: Desk,
    news: Pin<Box<dyn Stream<Item = Dated> + Send>>,
    told: Told,
    since_us: i64,
}

#[derive(Default)]
struct Told {
    begun: bool,
    node: Option<NodeLine>,
    containers: HashMap<String, ContainerLine>,
    tasks: HashMap<(u32, u16, String), TaskLine>,
}

pub(super) async fn follow(
    State(desk): State<Desk>,
    Query(asked): Query<Asked>,
) -> Sse<impl Stream<Item = Result<Event, Infallible>>> {
    let since_us = asked.since_us.unwrap_or_else(clock::wall_now_us);
    let (past, receiver) = desk.feed.follow(since_us);
    let news = Box::pin(stream::iter(past).chain(following(receiver)));
    let follower = Follower { desk, news, told: Told::default(), since_us };
    let updates = stream::unfold(follower, |mut follower| async move {
        let line = follower.next().await?;
        Some((Ok(Event::default().json_data(&line).unwrap_or_default()), follower))
    });
    Sse::new(updates).keep_alive(KeepAlive::default())
}

impl Follower {
    /// What has changed, once something has. None when the agent stops.
    async fn next(&mut self) -> Option<LiveLine> {
        loop {
            let mut line = LiveLine { all: !self.told.begun, ..LiveLine::default() };
            let mut events = Vec::new();
            if self.told.begun {
                // Woken by news, or by the time.
                tokio::select! {
                    dated = self.news.next() => events.push(dated?),
                    () = tokio::time::sleep(LOOK_EVERY) => {}
                }
                if !events.is_empty() {
                    tokio::time::sleep(NEWS_WAIT).await;
                }
            }
            while let Some(dated) = self.news.next().now_or_never() {
                events.push(dated?);
            }
            self.look(&mut line, &events).await.ok()?;
            line.events = events.into_iter().map(|(_, event)| (*event).clone()).collect();
            self.told.begun = true;
            let empty = line.node.is_none() && line.containers.is_empty() && line.gone.is_empty();
            if line.all || !empty || !line.tasks.is_empty() || !line.events.is_empty() {
                line.time = clock::rfc3339(clock::wall_now_us());
                return Some(line);
            }
        }
    }

    async fn look(&mut self, line: &mut LiveLine, events: &[Dated]) -> Result<(), Response> {
        // Finished tasks are looked up only when some have finished.
        let ended = events.iter().filter(|(_, event)| event.event == "finished").map(|(at_us, _)| *at_us);
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
        self.told.take_node(line, node);
        self.told.take_containers(line, containers);
        self.told.take_tasks(line, tasks);
        Ok(())
    }
}

impl Told {
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
