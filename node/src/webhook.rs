//! The webhook: what an operator wants to hear of at once is posted to an address, with patience, but not without end.
//!
//! A thread of its own posts one piece of news after another. A receiver that is away is tried again a few times, later and later;
//! meanwhile news waits, up to what the feed keeps for followers. What is given up is counted and said.

use crate::metrics::Metrics;
use serde::Serialize;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::broadcast::error::RecvError;
use web::Feed;
use wire::agent::EventLine;

/// How long a receiver may take to answer.
const ANSWER_MAX: Duration = Duration::from_secs(10);
/// How often one piece of news is tried.
const TRIES_MAX: u32 = 5;
/// The wait after the first try, doubled after each.
const WAIT_FIRST: Duration = Duration::from_millis(500);

/// Who is told of what.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Webhook {
    /// Where to.
    pub url: String,
    /// Which events.
    pub events: Vec<String>,
}

/// What is posted: the event, and the same as a sentence, which chat programs show.
#[derive(Serialize)]
struct Post<'a> {
    text: String,
    #[serde(flatten)]
    event: &'a EventLine,
}

/// Why a try failed, and whether another may do better.
struct Refusal {
    why: String,
    for_good: bool,
}

/// Starts the thread. It ends with the agent.
pub(crate) fn start(webhook: Webhook, feed: &Feed, metrics: Arc<Metrics>) -> std::io::Result<()> {
    let mut news = feed.follow(i64::MAX).1;
    let post = move || {
        let config = ureq::Agent::config_builder();
        // Where it is sent elsewhere, the operator should know.
        let agent: ureq::Agent = config.timeout_global(Some(ANSWER_MAX)).max_redirects(0).build().into();
        loop {
            match news.blocking_recv() {
                Ok((_, event)) if webhook.events.contains(&event.event) => {
                    if let Err(why) = deliver(&agent, &webhook.url, &event) {
                        metrics.a_webhook_is_lost();
                        let name = event.name.as_deref().unwrap_or("a process");
                        eprintln!("warning: the webhook did not take that {name} {}: {why}", event.event);
                    }
                }
                Ok(_) => {}
                Err(RecvError::Lagged(many)) => {
                    // Of what was not heard, nobody knows how much was for the webhook.
                    metrics.a_webhook_is_lost();
                    eprintln!("warning: the webhook is too slow: {many} events passed by");
                }
                Err(RecvError::Closed) => return,
            }
        }
    };
    std::thread::Builder::new().name("webhook".to_owned()).spawn(post).map(drop)
}

fn deliver(agent: &ureq::Agent, url: &str, event: &EventLine) -> Result<(), String> {
    let name = event.name.as_deref().unwrap_or("a process");
    let text = format!("{name} on {}: {}", event.node, event.reason);
    let body = serde_json::to_string(&Post { text, event }).map_err(|error| error.to_string())?;
    let mut wait = WAIT_FIRST;
    for last in (0..TRIES_MAX).map(|tried| tried + 1 == TRIES_MAX) {
        match post(agent, url, &body) {
            Ok(()) => return Ok(()),
            Err(refusal) if last || refusal.for_good => return Err(refusal.why),
            Err(_) => std::thread::sleep(wait),
        }
        wait *= 2;
    }
    Ok(())
}

fn post(agent: &ureq::Agent, url: &str, body: &str) -> Result<(), Refusal> {
    match agent.post(url).header("Content-Type", "application/json").send(body) {
        Ok(answer) if answer.status().is_success() => Ok(()),
        Ok(answer) => Err(Refusal { why: format!("it answered {}", answer.status()), for_good: true }),
        Err(ureq::Error::StatusCode(code)) => {
            // Who says that the request is wrong says so again; who is busy may not be later.
            let for_good = (400..500).contains(&code) && ![408, 425, 429].contains(&code);
            Err(Refusal { why: format!("it answered {code}"), for_good })
        }
        Err(error) => Err(Refusal { why: error.to_string(), for_good: false }),
    }
}
