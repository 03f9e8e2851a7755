//! The agent's API: HTTP over a Unix socket, and on loopback where that is asked for. Documented in docs/api.md.

mod live;

use crate::clock;
use crate::commands::Command;
use crate::facts::{Teller, Told};
use crate::ledger::{Counting, Ledger, Query as Lookup};
use crate::metrics::{self, Metrics};
use crate::views::Question;
use axum::extract::{Path, Query, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use std::collections::HashSet;
use std::sync::Arc;
use tokio::sync::oneshot;
use web::{Door, Feed};
use wire::agent::{
    AccessLine, ContainerLine, ExplainLine, HistoryLine, NodeLine, PolicyLine, PolicyWanted, ReleaseWanted,
    ReleasedLine, TaskLine,
};

/// The most finished tasks one answer holds.
const TASKS_LISTED_MAX: usize = 100_000;
/// How far back finished tasks are listed when nobody says.
const TASKS_SINCE_US: i64 = 86_400_000_000;

/// How many stretches of time a history has when nobody says, and at most.
const HISTORY_PARTS: i64 = 120;
const HISTORY_PARTS_MAX: i64 = 2000;

/// What the handlers need.
#[derive(Clone)]
pub(crate) struct Desk {
    pub(crate) teller: Teller,
    pub(crate) ledger: Ledger,
    pub(crate) feed: Arc<Feed>,
    pub(crate) metrics: Arc<Metrics>,
}

/// The questions of a path.
#[derive(serde::Deserialize)]
struct Asked {
    /// Microseconds since 1970.
    since_us: Option<i64>,
    container: Option<String>,
}

/// What is asked of the history.
#[derive(serde::Deserialize)]
struct HistoryAsked {
    /// Microseconds since 1970.
    since_us: Option<i64>,
    container: Option<String>,
    /// How many stretches of time.
    parts: Option<i64>,
}

/// Every path there is; `may_change` says whether something can be changed, too, and `door` who may come in.
pub(crate) fn routes(desk: Desk, may_change: bool, door: Option<Door>) -> Router {
    let changes =
        Router::new().route("/v1/policy", get(policy).put(set_policy)).route("/v1/release", post(release));
    // Over TCP they may only look, unless the operator says otherwise.
    let looks = Router::new().route("/v1/policy", get(policy));
    let routes = if may_change { changes } else { looks };
    let access = Json(AccessLine { may_change });
    let routes = routes
        .route("/v1/access", get(async move || access))
        .route("/healthz", get(|| async { "ok\n" }))
        .route("/v1/containers", get(containers))
        .route("/v1/containers/{container}/explain", get(explain))
        .route("/v1/tasks", get(tasks))
        .route("/v1/node", get(node))
        .route("/v1/events", get(events))
        .route("/v1/live", get(live::follow))
        .route("/v1/history", get(history))
        .route("/metrics", get(figures))
        .fallback(|| async { (StatusCode::NOT_FOUND, "there is no such path; see docs/api.md\n") });
    web::with_page(routes, door).with_state(desk)
}

/// Asks the owner.
async fn ask<T>(desk: &Desk, question: impl FnOnce(oneshot::Sender<T>) -> Question) -> Result<T, Response> {
    let (to, answer) = oneshot::channel();
    desk.teller.tell_soon(Told::Ask(question(to))).await;
    answer.await.map_err(|_| (StatusCode::SERVICE_UNAVAILABLE, "the agent stops\n").into_response())
}

async fn events(State(desk): State<Desk>, Query(asked): Query<web::Asked>) -> impl IntoResponse {
    web::events(&desk.feed, asked)
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
    tasks_since(&desk, &asked).await.map(Json)
}

async fn tasks_since(desk: &Desk, asked: &Asked) -> Result<Vec<TaskLine>, Response> {
    let mut running = ask(desk, Question::Tasks).await?;
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
    Ok(lines)
}

/// How many deadlines were met and missed, in equal stretches of time.
async fn history(
    State(desk): State<Desk>,
    Query(asked): Query<HistoryAsked>,
) -> Result<Json<Vec<HistoryLine>>, Response> {
    let until_us = clock::wall_now_us();
    let since_us = asked.since_us.unwrap_or(until_us - TASKS_SINCE_US);
    let parts = asked.parts.unwrap_or(HISTORY_PARTS);
    if !(1..=HISTORY_PARTS_MAX).contains(&parts) || since_us >= until_us {
        let wrong = format!("parts must be 1 to {HISTORY_PARTS_MAX}, and since_us before now\n");
        return Err((StatusCode::BAD_REQUEST, wrong).into_response());
    }
    let query = Counting { since_us, part_us: (until_us - since_us) / parts + 1, container: asked.container };
    Ok(Json(desk.ledger.count(query).await))
}

/// Figures for Prometheus, in the format that is asked for.
async fn figures(State(desk): State<Desk>, asks: HeaderMap) -> Result<Response, Response> {
    let node = ask(&desk, Question::Node).await?;
    let containers = ask(&desk, Question::Containers).await?;
    // Many containers are many lines, and others want to be answered meanwhile.
    let metrics = Arc::clone(&desk.metrics);
    let text = tokio::task::spawn_blocking(move || metrics.open_text(&node, &containers)).await;
    let text = text.map_err(|_| StatusCode::INTERNAL_SERVER_ERROR.into_response())?;
    let accepts = asks.get(header::ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let (kind, text) = if accepts.contains("application/openmetrics-text") {
        (metrics::OPEN, text)
    } else {
        (metrics::CLASSIC, metrics::classic(&text))
    };
    Ok(([(header::CONTENT_TYPE, kind)], text).into_response())
}
