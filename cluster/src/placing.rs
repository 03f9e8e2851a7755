//! From a request to a node that has said yes: the best of the list is asked, and on a refusal the next.

use crate::certificates;
use crate::clock;
use crate::master::Master;
use sched::placement::{Key, Placement, Request, ReservationId, Strategy};
use sched::time::Span;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use wire::cluster::{PlaceLine, PlaceNode, PlaceWanted, Placed};
use wire::link::Offer;

/// How long a worker may take to say yes or no; one that takes longer has said no.
const ANSWER_MAX: Duration = Duration::from_secs(1);
/// How many workers are asked before nobody fits.
const TRIES_MAX: u32 = 16;
/// Where a request leaves the node to us.
pub(crate) const AUTO: &str = "auto";

/// Why there is no place.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NoPlace {
    /// The request itself is wrong.
    #[error("{0}")]
    Wrong(String),
    /// Nobody fits, or nobody who fits admits.
    #[error("{0}")]
    Nowhere(String),
}

/// A place that was found, and is kept for half a minute.
pub(crate) struct Found {
    pub(crate) placed: Placed,
    key: Key,
    reserved: Option<ReservationId>,
}

/// A request, checked.
struct Asked<'a> {
    request: Request,
    strategy: Strategy,
    /// The one node that will do.
    pinned: Option<&'a str>,
}

fn check<'a>(master: &Master, wanted: &'a PlaceWanted) -> Result<Asked<'a>, NoPlace> {
    let strategy = match wanted.strategy.as_deref() {
        None => master.strategy,
        Some(name) => Strategy::named(name).ok_or_else(|| {
            let names = Strategy::ALL.map(Strategy::name).join(", ");
            NoPlace::Wrong(format!("'{name}' is not a strategy: accepted are {names}"))
        })?,
    };
    if let Some(wrong) = [wanted.deadline_us, wanted.expect_us].into_iter().flatten().find(|us| *us <= 0) {
        return Err(NoPlace::Wrong(format!("{wrong} µs is no length of time: accepted is more than 0")));
    }
    let measured = wanted.kind.as_deref().and_then(|kind| master.book().measured(kind));
    let request = Request {
        deadline: wanted.deadline_us.map(Span::from_micros),
        memory: wanted.gpu_memory_bytes,
        forecast: measured.or(wanted.expect_us.map(Span::from_micros)),
    };
    let pinned = wanted.node.as_deref().filter(|name| *name != AUTO);
    Ok(Asked { request, strategy, pinned })
}

/// Where a container would go, and for every node why or why not. Nothing is reserved, nobody is asked.
pub(crate) fn dry_run(master: &Master, wanted: &PlaceWanted) -> Result<PlaceLine, NoPlace> {
    let asked = check(master, wanted)?;
    let mut book = master.book();
    let barred = book.barred_keys();
    let told = book.list.explain(clock::now(), &asked.request, asked.strategy, &barred);
    let nodes = told.nodes.iter().map(|(key, reason)| PlaceNode {
        node: book.name(key.node),
        gpu: key.gpu,
        chosen: reason.is_chosen(),
        reason: book.barred(*key).map_or_else(|| reason.to_string(), str::to_owned),
    });
    let nodes = nodes.collect();
    let key = told.placement.map(|placement| placement.key);
    Ok(PlaceLine {
        node: key.map(|key| book.name(key.node)),
        gpu: key.map(|key| key.gpu),
        reason: told.to_string(),
        nodes,
    })
}

/// Finds a node, reserves there, and has its worker say yes. `avoid` are names of nodes that will not do.
pub(crate) async fn place(
    master: &Arc<Master>,
    wanted: &PlaceWanted,
    avoid: &[String],
) -> Result<Found, NoPlace> {
    let started = Instant::now();
    let asked = check(master, wanted)?;
    let placement = certificates::secret().map_err(|wrong| NoPlace::Wrong(wrong.to_string()))?;
    let placement = placement[..16].to_owned();
    let mut refused = master.book().barred_keys();
    refused.extend(avoid.iter().filter_map(|name| master.book().keys_of(name)).flatten());
    let mut refusals = Vec::new();
    for _ in 0..TRIES_MAX {
        let Some(found) = next(master, &asked, &refused)? else { break };
        match ask(master, found.key, &asked.request, &placement).await {
            Ok(reserved) => {
                let took = started.elapsed().as_micros() as u64;
                master.counts.placing.note(took);
                let book = master.book();
                let member = book.member(found.key.node);
                let placed = Placed {
                    node: book.name(found.key.node),
                    engine_id: member.map(|member| member.engine_id.clone()).unwrap_or_default(),
                    gpu: found.key.gpu,
                    reason: asked.pinned.map_or_else(|| found.because.to_string(), |_| PINNED.to_owned()),
                    placement,
                    refusals: refusals.len() as u32,
                    took_us: took.cast_signed(),
                };
                return Ok(Found { placed, key: found.key, reserved });
            }
            Err(why) => {
                master.counts.refusals.fetch_add(1, Ordering::Relaxed);
                refusals.push(format!("{} refused: {why}", master.book().name(found.key.node)));
                refused.push(found.key);
            }
        }
    }
    Err(NoPlace::Nowhere(nowhere(master, &asked, &refused, &refusals)))
}

/// Nothing comes to a place that was found: it is free again, here and in its worker's eyes.
pub(crate) fn give_up(master: &Master, found: &Found) {
    free(master, found.key, found.reserved, &found.placed.placement);
}

fn free(master: &Master, key: Key, reserved: Option<ReservationId>, placement: &str) {
    let mut book = master.book();
    book.withdraw(key.node, placement);
    if let Some(id) = reserved {
        book.list.cancel(clock::now(), key, id);
    }
}

const PINNED: &str = "it was asked for by name";

/// The next node to ask.
fn next(master: &Master, asked: &Asked<'_>, refused: &[Key]) -> Result<Option<Placement>, NoPlace> {
    let mut book = master.book();
    let Some(name) = asked.pinned else {
        return Ok(book.list.place(clock::now(), &asked.request, asked.strategy, refused));
    };
    let keys = book.keys_of(name).ok_or_else(|| {
        let known: Vec<String> = book.members().map(|member| member.name.clone()).collect();
        NoPlace::Wrong(format!("no node '{name}' reports: accepted are auto, {}", known.join(", ")))
    })?;
    let told = book.list.explain(clock::now(), &asked.request, asked.strategy, &[]);
    let ours = told.nodes.into_iter().find(|(key, _)| keys.contains(key) && !refused.contains(key));
    Ok(ours.map(|(key, because)| Placement { key, because }))
}

/// Reserves, and asks the worker. On a no, nothing is reserved any more.
async fn ask(
    master: &Arc<Master>,
    key: Key,
    request: &Request,
    placement: &str,
) -> Result<Option<ReservationId>, String> {
    let us = |span: Option<Span>| span.map_or(0, Span::as_micros);
    let offer = Offer {
        offer: 0,
        gpu: u32::from(key.gpu),
        deadline_us: us(request.deadline),
        run_us: us(request.forecast),
        memory: request.memory,
        placement: placement.to_owned(),
    };
    let (reserved, offered) = {
        let mut book = master.book();
        (book.list.reserve(clock::now(), key, request), book.offer(key.node, offer))
    };
    let outcome = match offered {
        None => Err("its agent is not connected".to_owned()),
        Some((number, answer)) => {
            let answer = tokio::time::timeout(ANSWER_MAX, answer).await;
            master.book().answered(key.node, number, None);
            match answer {
                Ok(Ok(answer)) if answer.admitted => Ok(reserved),
                Ok(Ok(answer)) => Err(answer.reason),
                _ => Err(format!("it did not answer within {} s", ANSWER_MAX.as_secs())),
            }
        }
    };
    // Also where the worker did not answer: its yes may come late.
    if outcome.is_err() {
        free(master, key, reserved, placement);
    }
    outcome
}

fn nowhere(master: &Master, asked: &Asked<'_>, refused: &[Key], refusals: &[String]) -> String {
    let barred = {
        let book = master.book();
        let pinned = asked.pinned.and_then(|name| book.keys_of(name));
        let counts = |key: &&Key| pinned.as_ref().is_none_or(|keys| keys.contains(key));
        let barred = refused.iter().filter(counts).find_map(|key| Some((key.node, book.barred(*key)?)));
        barred.map(|(node, why)| format!("{}: {why}", book.name(node)))
    };
    let told = if let Some(name) = asked.pinned {
        format!("node {name} does not take it")
    } else {
        master.book().list.explain(clock::now(), &asked.request, asked.strategy, refused).to_string()
    };
    match refusals.last().or(barred.as_ref()) {
        Some(last) => format!("{told}; {last}"),
        None => told,
    }
}
