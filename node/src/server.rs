//! The agent's API: HTTP over a Unix socket, and on loopback where that is asked for. Documented in docs/api.md.

use crate::clock;
use crate::commands::Command;
use crate::facts::{Teller, Told};
use crate::feed::{Dated, Feed};
use crate::ledger::{Ledger, Query as Lookup};
use crate::views::Question;
use axum::extract::{Path, Query, State};
use axum::http::StatusCode;
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use futures_util::{Stream, StreamExt, stream};
use std::collections::HashSet;
use std::convert::Infallible;
use std::sync::Arc;
use tokio::sync::oneshot;
use wire::agent::{
    ContainerLine, ExplainLine, NodeLine, PolicyLine, PolicyWanted, ReleaseWanted, ReleasedLine, TaskLine,
};

/// The most finished tasks one answer holds.
const TASKS_LISTED_MAX: usize = 100_000;
/// How far back finished tasks are listed when nobody says.
const TASKS_SINCE_US: i64 = 86_400_000_000;

/// What the handlers need.
#[derive(Clone)]
pub(crate) struct Desk {
    pub(crate) teller: Teller,
    pub(crate) ledger: Ledger,
    pub(crate) feed: Arc<Feed>,
}

/// The questions of a path.
#[derive(serde::Deserialize)]
struct Asked {
    /// Microseconds since 1970.
    since_us: Option<i64>,
    container: Option<String>,
    /// Whether a stream goes on after what has happened.
    follow: Option<bool>,
}

/// Every path there is; `may_change` says whether something can be changed, too.
pub(crate) fn routes(desk: Desk, may_change: bool) -> Router {
    let changes =
        Router::new().route("/v1/policy", get(policy).put(set_policy)).route("/v1/release", post(release));
    // Whoever reaches a loopback address is not asked who they are, and may only look.
    let looks = Router::new().route("/v1/policy", get(policy));
    let routes = if may_change { changes } else { looks };
    routes
        .route("/healthz", get(|| async { "ok\n" }))
        .route("/v1/containers", get(containers))
        .route("/v1/containers/{container}/explain", get(explain))
        .route("/v1/tasks", get(tasks))
        .route("/v1/node", get(node))
        .route("/v1/events", get(events))
        .route("/metrics", get(metrics))
        .fallback(|| async { (StatusCode::NOT_FOUND, "there is no such path; see docs/api.md\n") })
        .with_state(desk)
}

/// Asks the owner.
async fn ask<T>(desk: &Desk, question: impl FnOnce(oneshot::Sender<T>) -> Question) -> Result<T, Response> {
    let (to, answer) = oneshot::channel();
    desk.teller.tell_soon(Told::Ask(question(to))).await;
    answer.await.map_err(|_| (StatusCode::SERVICE_UNAVAILABLE, "the agent stops\n").into_response())
}

async fn containers(State(desk): State<Desk>) -> Result<Json<Vec<ContainerLine>>, Response> {
    Ok(Json(ask(&desk, Question::Containers).await?))
}

async fn node(State(desk): State<Desk>) -> Result<Json<NodeLine>, Response> {
    Ok(Json(ask(&desk, Question::Node).await?))
}

async fn policy(State(desk): State<Desk>) -> Result<Json<PolicyLine>, Response> {
    Ok(Json(ask(&desk, Question::Policy).await?))
}

async fn explain(
    State(desk): State<Desk>,
    Path(container): Path<String>,
) -> Result<Json<ExplainLine>, Response> {
    let unknown = |why: String| (StatusCode::NOT_FOUND, why + "\n").into_response();
    ask(&desk, |to| Question::Explain(container, to)).await?.map(Json).map_err(unknown)
}

async fn set_policy(
    State(desk): State<Desk>,
    Json(wanted): Json<PolicyWanted>,
) -> Result<Json<PolicyLine>, Response> {
    command(&desk, |to| Command::SetPolicy(wanted.policy, wanted.gpu, to)).await.map(Json)
}

async fn release(
    State(desk): State<Desk>,
    Json(wanted): Json<ReleaseWanted>,
) -> Result<Json<ReleasedLine>, Response> {
    command(&desk, |to| Command::Release(wanted.container, to)).await.map(Json)
}

/// Has the owner do something.
async fn command<T>(
    desk: &Desk,
    command: impl FnOnce(oneshot::Sender<Result<T, String>>) -> Command,
) -> Result<T, Response> {
    let (to, answer) = oneshot::channel();
    desk.teller.tell_soon(Told::Command(command(to))).await;
    let stops = |_| (StatusCode::SERVICE_UNAVAILABLE, "the agent stops\n").into_response();
    let refused = |why: String| (StatusCode::BAD_REQUEST, why + "\n").into_response();
    answer.await.map_err(stops)?.map_err(refused)
}

/// Finished tasks, the oldest end first, then those that run.
async fn tasks(
    State(desk): State<Desk>,
    Query(asked): Query<Asked>,
) -> Result<Json<Vec<TaskLine>>, Response> {
    let mut running = ask(&desk, Question::Tasks).await?;
    let query = Lookup {
        since_us: asked.since_us.unwrap_or_else(|| clock::wall_now_us() - TASKS_SINCE_US),
        container: asked.container.clone(),
        limit: TASKS_LISTED_MAX,
    };
    let finished = desk.ledger.find(query).await;
    let mut lines: Vec<TaskLine> = finished.iter().map(crate::ledger::Row::line).collect();
    // A task that ended between the two questions is in both answers.
    let ended: HashSet<(u32, u16, &str)> =
        lines.iter().map(|line| (line.pid, line.gpu, line.start.as_str())).collect();
    running.retain(|line| !ended.contains(&(line.pid, line.gpu, line.start.as_str())));
    if let Some(wanted) = &asked.container {
        // As in the ledger, a name comes before the start of an id.
        let named = |line: &TaskLine| line.name.as_ref() == Some(wanted);
        let by_name = lines.iter().chain(&running).any(named);
        let by_id =
            |line: &TaskLine| line.container.as_ref().is_some_and(|id| id.starts_with(wanted.as_str()));
        running.retain(|line| named(line) || (!by_name && by_id(line)));
    }
    lines.extend(running);
    Ok(Json(lines))
}

/// What happened since a moment, where one is given, and what happens from now on.
async fn events(
    State(desk): State<Desk>,
    Query(asked): Query<Asked>,
) -> Sse<impl Stream<Item = Result<Event, Infallible>>> {
    let (past, receiver) = desk.feed.follow(asked.since_us.unwrap_or(i64::MAX));
    let live = stream::unfold(receiver, |mut receiver| async {
        loop {
            match receiver.recv().await {
                Ok(dated) => return Some((dated, receiver)),
                // A follower that is too slow goes on with what is still there.
                Err(tokio::sync::broadcast::error::RecvError::Lagged(_)) => {}
                Err(tokio::sync::broadcast::error::RecvError::Closed) => return None,
            }
        }
    });
    let follow = asked.follow.unwrap_or(true);
    let all = stream::iter(past).chain(live.take(if follow { usize::MAX } else { 0 }));
    Sse::new(all.map(|dated| Ok(sent(&dated)))).keep_alive(KeepAlive::default())
}

fn sent((_, line): &Dated) -> Event {
    let event = Event::default().event(&line.event);
    // A line that is no JSON cannot be; if it is all the same, the stream goes on.
    event.json_data(&**line).unwrap_or_default()
}

/// A first few figures in Prometheus' text format.
async fn metrics(State(desk): State<Desk>) -> Result<String, Response> {
    let node = ask(&desk, Question::Node).await?;
    let containers = ask(&desk, Question::Containers).await?;
    let tasks: usize = containers.iter().map(|container| container.tasks).sum();
    let sum = |of: fn(&ContainerLine) -> u64| containers.iter().map(of).sum::<u64>();
    Ok(format!(
        "# TYPE leeway_up gauge\nleeway_up 1\n\
         # TYPE leeway_gpus gauge\nleeway_gpus {}\n\
         # TYPE leeway_tasks_running gauge\nleeway_tasks_running {tasks}\n\
         # TYPE leeway_tasks_hit counter\nleeway_tasks_hit {}\n\
         # TYPE leeway_tasks_missed counter\nleeway_tasks_missed {}\n",
        node.gpus.len(),
        sum(|container| container.live.hits),
        sum(|container| container.live.misses),
    ))
}
