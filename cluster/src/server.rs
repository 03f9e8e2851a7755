//! The master's API: HTTP over a Unix socket, and on TCP where that is asked for. Documented in docs/cluster.md.

use crate::clock;
use crate::engine::Engine;
use crate::engine::swarm::{self, NoService};
use crate::live::{LOOK_EVERY, Told};
use crate::master::Master;
use crate::placing::{self, AUTO, Found, NoPlace};
use axum::extract::{Query, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use bollard::models::ServiceSpec;
use sched::placement::Strategy;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;
use web::Door;
use wire::agent::AccessLine;
use wire::cluster::{MasterLine, NodeRank, PlaceLine, PlaceWanted, Placed, RunLine, RunWanted};

/// Whoever shows a cluster hears of an hour at least: placements and moves are few.
const NEWS_SHOWN_US: i64 = 3_600_000_000;

type Shared = State<Arc<Master>>;

/// Every path there is; `may_change` says whether something can be placed, too, and `door` who may come in.
pub(crate) fn routes(master: Arc<Master>, may_change: bool, door: Option<Door>) -> Router {
    let changes = Router::new().route("/v1/placements", post(place)).route("/v1/services", post(run));
    let routes = if may_change { changes } else { Router::new() };
    let access = Json(AccessLine { may_change });
    let routes = routes
        .route("/v1/access", get(async move || access))
        .route("/healthz", get(|| async { "ok\n" }))
        .route("/v1/master", get(about))
        .route("/v1/nodes", get(nodes))
        .route("/v1/place", post(dry_run))
        .route("/v1/events", get(events))
        .route("/v1/live", get(live))
        .route("/metrics", get(metrics))
        .fallback(|| async { (StatusCode::NOT_FOUND, "there is no such path; see docs/cluster.md\n") });
    web::with_page(routes, door).with_state(master)
}

/// The questions of a path.
#[derive(serde::Deserialize)]
struct Asked {
    strategy: Option<String>,
    /// Microseconds since 1970.
    since_us: Option<i64>,
}

async fn about(State(master): Shared) -> Json<MasterLine> {
    Json(master.line())
}

async fn nodes(State(master): Shared, Query(asked): Query<Asked>) -> Result<Json<Vec<NodeRank>>, Response> {
    let strategy = match asked.strategy.as_deref() {
        None => master.strategy,
        Some(name) => Strategy::named(name).ok_or_else(|| wrong(format!("'{name}' is not a strategy")))?,
    };
    Ok(Json(master.book().ranked(clock::now(), strategy)))
}

async fn dry_run(
    State(master): Shared,
    Json(wanted): Json<PlaceWanted>,
) -> Result<Json<PlaceLine>, Response> {
    placing::dry_run(&master, &wanted).map(Json).map_err(|no| no_place(&no))
}

async fn place(State(master): Shared, Json(wanted): Json<PlaceWanted>) -> Result<Json<Placed>, Response> {
    if let Some(refusal) = not_active(&master) {
        return Err(refusal);
    }
    // Whoever creates the container has its own name for it; here it goes by its placement.
    match placing::place(&master, &wanted, &[]).await {
        Ok(Found { placed, .. }) => {
            tell_placed(&master, &placed.placement, &placed);
            Ok(Json(placed))
        }
        Err(no) => {
            master.tell("refused", "a container", wanted.node.as_deref().unwrap_or(AUTO), no.to_string());
            Err(no_place(&no))
        }
    }
}

fn tell_placed(master: &Master, name: &str, placed: &Placed) {
    let took = placed.took_us.cast_unsigned() as f64 / 1000.0;
    master.tell("placed", name, &placed.node, format!("in {took:.1} ms: {}", placed.reason));
}

async fn run(State(master): Shared, Json(wanted): Json<RunWanted>) -> Result<Json<RunLine>, Response> {
    if let Some(refusal) = not_active(&master) {
        return Err(refusal);
    }
    let Engine::Swarm(swarm) = &master.engine else {
        return Err(wrong("this master has no engine, and creates no containers".to_owned()));
    };
    let spec: ServiceSpec =
        serde_json::from_value(wanted.spec).map_err(|error| no_service(&NoService::Spec(error)))?;
    let name = spec.name.clone().unwrap_or_default();
    let node = wanted.place.node.clone().unwrap_or_else(|| AUTO.to_owned());
    if let Some(service) =
        swarm.made_by(&name, &wanted.request).await.map_err(|refused| no_service(&refused))?
    {
        return Ok(Json(already(service, name)));
    }
    let place = PlaceWanted { kind: Some(swarm::kind(&spec)), ..wanted.place };
    let found = match placing::place(&master, &place, &[]).await {
        Ok(found) => found,
        Err(no) => {
            master.tell("refused", &name, &node, no.to_string());
            return Err(no_place(&no));
        }
    };
    let started = Instant::now();
    let service = swarm.create(spec, &found.placed, &node, &wanted.request).await.map_err(|refused| {
        placing::give_up(&master, &found);
        no_service(&refused)
    })?;
    let placed = found.placed;
    let created = started.elapsed().as_micros() as u64;
    master.counts.creating.note(created);
    tell_placed(&master, &name, &placed);
    Ok(Json(RunLine { service, name, placed, created_us: created.cast_signed() }))
}

/// Somebody asked again, because the answer to the first time was lost.
fn already(service: String, name: String) -> RunLine {
    let reason = "it was created when it was asked for the first time".to_owned();
    let placed = Placed {
        node: String::new(),
        engine_id: String::new(),
        gpu: 0,
        reason,
        placement: String::new(),
        refusals: 0,
        took_us: 0,
    };
    RunLine { service, name, placed, created_us: 0 }
}

/// Only one master places: the answer of the others.
fn not_active(master: &Master) -> Option<Response> {
    if master.active.load(Ordering::Relaxed) {
        return None;
    }
    let leader = master.leader();
    let why = if leader.is_empty() {
        "the swarm has no leader now, and nothing can be placed\n".to_owned()
    } else {
        format!("this master is not the active one: ask the one on {leader}, swarm's leader\n")
    };
    Some((StatusCode::CONFLICT, why).into_response())
}

fn wrong(why: String) -> Response {
    (StatusCode::BAD_REQUEST, why + "\n").into_response()
}

fn no_place(no: &NoPlace) -> Response {
    let status = match no {
        NoPlace::Wrong(_) => StatusCode::BAD_REQUEST,
        NoPlace::Nowhere(_) => StatusCode::UNPROCESSABLE_ENTITY,
    };
    (status, format!("{no}\n")).into_response()
}

fn no_service(refused: &NoService) -> Response {
    let status = match refused {
        NoService::Spec(_) | NoService::Exists(_) => StatusCode::BAD_REQUEST,
        NoService::Docker(_) => StatusCode::BAD_GATEWAY,
    };
    (status, format!("{refused}\n")).into_response()
}

async fn events(State(master): Shared, Query(asked): Query<web::Asked>) -> impl IntoResponse {
    web::events(&master.feed, asked)
}

async fn live(State(master): Shared, Query(asked): Query<Asked>) -> impl IntoResponse {
    let recently_us = clock::wall_now_us() - NEWS_SHOWN_US;
    let since_us = asked.since_us.unwrap_or(recently_us).min(recently_us);
    web::follow(&master.feed, since_us, LOOK_EVERY, Told::new(Arc::clone(&master)))
}

/// Prometheus' text format.
async fn metrics(State(master): Shared) -> String {
    let counts = &master.counts;
    let of = |count: &std::sync::atomic::AtomicU64| count.load(Ordering::Relaxed);
    let mut text = String::new();
    let mut one = |name: &str, kind: &str, value: f64| {
        text += &format!("# TYPE leeway_{name} {kind}\nleeway_{name} {value}\n");
    };
    let book = master.book();
    one("master_active", "gauge", f64::from(u8::from(master.active.load(Ordering::Relaxed))));
    one("master_agents", "gauge", book.connected() as f64);
    one("master_gpus", "gauge", book.list.len() as f64);
    drop(book);
    one("master_reports_total", "counter", of(&counts.reports) as f64);
    one("master_report_bytes_total", "counter", of(&counts.report_bytes) as f64);
    one("master_connections_refused_total", "counter", master.complaints.count() as f64);
    one("placements_refused_total", "counter", of(&counts.refusals) as f64);
    one("moves_total", "counter", of(&counts.moves) as f64);
    for (name, meter) in [("placement_seconds", &counts.placing), ("creation_seconds", &counts.creating)] {
        text += &format!("# TYPE leeway_{name} summary\n");
        for (share, quantile) in [(0.5, "0.5"), (0.99, "0.99")] {
            let seconds = meter.quantile(share).unwrap_or(0) as f64 / 1e6;
            text += &format!("leeway_{name}{{quantile=\"{quantile}\"}} {seconds}\n");
        }
        let (sum, count) = (meter.sum_us() as f64 / 1e6, meter.count());
        text += &format!("leeway_{name}_sum {sum}\nleeway_{name}_count {count}\n");
    }
    text
}
