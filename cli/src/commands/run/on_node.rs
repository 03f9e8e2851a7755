//! `leeway run --node`: the container becomes a swarm service, where the master says.

use crate::ask;
use crate::commands::master;
use crate::docker::client::Client;
use crate::docker::globals::Globals;
use crate::docker::options::Options;
use crate::docker::service;
use crate::failure::Failure;
use anyhow::Result;
use std::ffi::OsString;
use std::time::{Duration, Instant};
use wire::client::{self, NoAnswer};
use wire::cluster::{PlaceWanted, RunLine, RunWanted};
use wire::{bytes, duration, labels};

/// How long a request whose answer was lost is asked again: a master may be starting anew.
const ASK_AGAIN: Duration = Duration::from_secs(15);
/// How long between two tries.
const WAIT: Duration = Duration::from_millis(200);

/// Has the master place it; prints the service's id, as Docker does.
pub(super) fn run(globals: &Globals, node: String, words: &[OsString]) -> Result<()> {
    let mut options = Options::of("run");
    let line = service::line(words, |name| options.takes_value(name))?;
    let request = unique()?;
    let name = format!("leeway-{}", &request[..8]);
    // What cannot be is said before anybody is asked.
    line.spec(&name, String::new())?;
    let image = Client::connect(globals)?.image_by_content(&line.image)?;
    let spec = line.spec(&name, image)?;
    let label = |key: &str| spec.labels.as_ref().and_then(|labels| labels.get(key)).map(String::as_str);
    let span =
        |key| label(key).and_then(|text| duration::parse(text).ok()).map(|span| span.as_micros() as i64);
    let memory = label(labels::GPU_MEMORY).and_then(|text| bytes::parse(text).ok());
    let place = PlaceWanted {
        deadline_us: span(labels::DEADLINE),
        expect_us: span(labels::EXPECT),
        gpu_memory_bytes: memory.unwrap_or(0),
        node: Some(node),
        ..PlaceWanted::default()
    };
    let wanted = RunWanted { place, request, spec: serde_json::to_value(&spec)? };
    let made = ask_until_answered(&wanted).map_err(|error| ask::master_failure(&error))?;
    let ms = |us: i64| us as f64 / 1000.0;
    let placed = &made.placed;
    if placed.node.is_empty() {
        eprintln!("notice: {} exists: {}", made.name, placed.reason);
    } else {
        eprintln!(
            "notice: {} goes to {}, GPU {}: {}; placed in {:.1} ms, created in {:.1} ms",
            made.name,
            placed.node,
            placed.gpu,
            placed.reason,
            ms(placed.took_us),
            ms(made.created_us)
        );
    }
    crate::commands::print_all(format!("{}\n", made.service).as_bytes())
}

/// An answer that was lost is asked for again, under the same name, so that no second service comes of it.
fn ask_until_answered(wanted: &RunWanted) -> Result<RunLine, NoAnswer> {
    let socket = master::usual_socket();
    let started = Instant::now();
    let mut lost = false;
    loop {
        let answer = client::send(&socket, "POST", "/v1/services", wanted);
        match answer {
            Err(NoAnswer::Broken(_)) if started.elapsed() < ASK_AGAIN => lost = true,
            Err(NoAnswer::Nobody(..)) if lost && started.elapsed() < ASK_AGAIN => {}
            other => return other,
        }
        std::thread::sleep(WAIT);
    }
}

/// A name that nobody else uses, from the kernel.
fn unique() -> Result<String, Failure> {
    let uuid = std::fs::read_to_string("/proc/sys/kernel/random/uuid");
    let uuid = uuid.map_err(|error| Failure::new(format!("the kernel gave no random name: {error}")))?;
    Ok(uuid.trim().replace('-', ""))
}
