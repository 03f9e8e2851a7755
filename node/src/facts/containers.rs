//! Docker: which containers there are, what their labels say, and what happens to them.
//!
//! A list first, then events, with the stream of events opened before the list so that nothing falls between. When
//! the daemon goes away, that is said once; when it is back, everything is listed anew. No Docker is no failure.

use super::{Labels, Teller, Told};
use crate::run::Connect;
use bollard::Docker;
use bollard::errors::Error;
use bollard::models::{ContainerSummary, ContainerSummaryStateEnum, EventMessage, HealthConfig};
use bollard::query_parameters::{EventsOptions, ListContainersOptions};
use futures_util::StreamExt;
use std::collections::HashMap;
use std::time::Duration;
use tokio::sync::mpsc::Receiver;

/// The first wait before connecting again, doubled each time.
const WAIT_FIRST: Duration = Duration::from_millis(100);
/// The longest wait.
const WAIT_MAX: Duration = Duration::from_secs(5);

/// What swarm labels its containers with. It never starts one a second time, so that one that has ended is as good as
/// removed: kept in the list, one that missed would bar its node until somebody removes its service.
const SWARM_TASK: &str = "com.docker.swarm.task.id";
/// How long Docker may take to tell of one container: nothing else is heard of it meanwhile, and one that hangs must not hide who is to stop.
const INSPECT_MAX: Duration = Duration::from_secs(2);
/// The ends of its processes are heard before that.
const GONE_AFTER: Duration = Duration::from_secs(1);

/// Follows Docker for as long as the agent runs. Through `asked` come ids that a process was seen in and nobody listed.
pub async fn watch(connect: Connect, teller: Teller, mut asked: Receiver<String>) {
    let mut wait = WAIT_FIRST;
    let mut said = false;
    loop {
        let mut answered = false;
        let ended = follow(&connect, &teller, &mut asked, &mut answered).await;
        if answered {
            (wait, said) = (WAIT_FIRST, false);
        }
        if !teller.tell_soon(Told::Docker(false)).await {
            return;
        }
        if !said {
            let why = ended.err().unwrap_or_else(|| "it closed the connection".to_owned());
            eprintln!("warning: Docker does not answer, and the agent goes on without: {why}");
            said = true;
        }
        tokio::time::sleep(wait).await;
        wait = (wait * 2).min(WAIT_MAX);
    }
}

/// One connection, from the list to the end of its events.
async fn follow(
    connect: &Connect,
    teller: &Teller,
    asked: &mut Receiver<String>,
    answered: &mut bool,
) -> Result<(), String> {
    let docker = connect()?;
    let docker = docker.negotiate_version().await.map_err(|error| in_words(&error))?;
    let only_containers = HashMap::from([("type".to_owned(), vec!["container".to_owned()])]);
    let options = EventsOptions { since: None, until: None, filters: Some(only_containers) };
    let mut events = docker.events(Some(options));
    // The stream is lazy: it must be polled once for the daemon to hear of it, while the list is made.
    let (listed, first) = futures_util::join!(list(&docker, teller), first_of(&mut events));
    listed?;
    if !*answered {
        eprintln!("notice: Docker answers");
    }
    *answered = true;
    teller.tell_soon(Told::Docker(true)).await;
    if let Some(event) = first {
        tell(teller, event.map_err(|error| in_words(&error))?).await;
    }
    loop {
        tokio::select! {
            event = events.next() => match event {
                Some(event) => tell(teller, event.map_err(|error| in_words(&error))?).await,
                None => return Ok(()),
            },
            Some(id) = asked.recv() => inspect(&docker, teller, &id).await,
        }
    }
}

/// Opens the stream, and takes an event that is there at once.
async fn first_of<S>(events: &mut S) -> Option<Result<EventMessage, Error>>
where
    S: futures_util::Stream<Item = Result<EventMessage, Error>> + Unpin,
{
    tokio::time::timeout(WAIT_FIRST, events.next()).await.ok().flatten()
}

async fn list(docker: &Docker, teller: &Teller) -> Result<(), String> {
    let options = ListContainersOptions { all: true, ..ListContainersOptions::default() };
    let containers = docker.list_containers(Some(options)).await.map_err(|error| in_words(&error))?;
    let ids = containers.iter().filter_map(|container| container.id.clone()).collect();
    teller.tell_soon(Told::Containers(ids)).await;
    for container in containers {
        tell_listed(teller, container).await;
    }
    Ok(())
}

async fn tell_listed(teller: &Teller, container: ContainerSummary) {
    let Some(id) = container.id else { return };
    let names = container.names.unwrap_or_default();
    let own = names.iter().map(|name| name.trim_start_matches('/')).find(|name| !name.contains('/'));
    let name = own.unwrap_or(&id).to_owned();
    let labels: Labels = container.labels.unwrap_or_default().into_iter().collect();
    let ended =
        matches!(container.state, Some(ContainerSummaryStateEnum::EXITED | ContainerSummaryStateEnum::DEAD));
    if ended && labels.contains_key(SWARM_TASK) {
        return;
    }
    teller.tell_soon(Told::Container(id.clone(), name, labels, container.image)).await;
    let paused = container.state == Some(ContainerSummaryStateEnum::PAUSED);
    teller.tell_soon(if paused { Told::Paused(id) } else { Told::Resumed(id) }).await;
}

/// A container that a process was seen in, and that no list or event has named.
async fn inspect(docker: &Docker, teller: &Teller, id: &str) {
    let found = tokio::time::timeout(INSPECT_MAX, docker.inspect_container(id, None)).await;
    let Ok(Ok(found)) = found else { return };
    let name = found.name.unwrap_or_default().trim_start_matches('/').to_owned();
    let config = found.config.unwrap_or_default();
    let labels = config.labels.unwrap_or_default();
    teller.tell_soon(Told::Container(id.to_owned(), name, labels.into_iter().collect(), config.image)).await;
    if let Some(tolerated) = config.healthcheck.as_ref().and_then(tolerated) {
        teller.tell_soon(Told::Health(id.to_owned(), tolerated)).await;
    }
}

/// How long a container may fail to answer its health check before it counts as unhealthy. Docker counts failures in a row, and a
/// check that is due just after the freeze fails at once, so one interval less than there are tries.
fn tolerated(check: &HealthConfig) -> Option<Duration> {
    let test = check.test.as_ref()?;
    if test.is_empty() || test.first().is_some_and(|word| word == "NONE") {
        return None;
    }
    let or = |given: Option<i64>, otherwise| match given {
        Some(given) if given > 0 => given.cast_unsigned(),
        _ => otherwise,
    };
    // Docker's own defaults, in nanoseconds.
    let interval = or(check.interval, 30_000_000_000);
    let timeout = or(check.timeout, 30_000_000_000);
    let retries = or(check.retries, 3);
    Some(Duration::from_nanos(interval.saturating_mul(retries - 1).max(timeout)))
}

/// An event's attributes are the container's labels, with its name and image among them.
async fn tell(teller: &Teller, event: EventMessage) {
    let Some(actor) = event.actor else { return };
    let Some(id) = actor.id else { return };
    let mut attributes: Labels = actor.attributes.unwrap_or_default().into_iter().collect();
    let name = attributes.remove("name").unwrap_or_else(|| id.clone());
    let image = attributes.remove("image");
    let told = match event.action.as_deref().unwrap_or_default() {
        "create" | "rename" => Told::Container(id, name, attributes, image),
        "start" => {
            teller.tell_soon(Told::Container(id.clone(), name, attributes, image)).await;
            Told::Started(id)
        }
        "pause" => Told::Paused(id),
        "unpause" => Told::Resumed(id),
        "kill" if ends(attributes.get("signal").map(String::as_str)) => Told::Stopping(id),
        "destroy" | "remove" => Told::ContainerGone(id),
        "die" if attributes.contains_key(SWARM_TASK) => {
            let teller = teller.clone();
            tokio::spawn(async move {
                tokio::time::sleep(GONE_AFTER).await;
                teller.tell_soon(Told::ContainerGone(id)).await;
            });
            return;
        }
        _ => return,
    };
    teller.tell_soon(told).await;
}

/// Whether a signal is meant to end a program; `docker kill -s HUP` makes many of them read their settings.
fn ends(signal: Option<&str>) -> bool {
    matches!(signal, None | Some("2" | "3" | "9" | "15"))
}

/// Only the cause: that it was Docker is said already.
fn in_words(error: &Error) -> String {
    use std::error::Error as _;
    let mut words = error.to_string();
    let mut cause = error.source();
    while let Some(deeper) = cause {
        let more = deeper.to_string();
        if !words.contains(&more) {
            words = format!("{words}: {more}");
        }
        cause = deeper.source();
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_health_check_bears_as_many_intervals_as_it_has_tries_but_one() {
        let seconds = |seconds: i64| Some(seconds * 1_000_000_000);
        let test = Some(vec!["CMD".to_owned(), "true".to_owned()]);
        let check = |interval, timeout, retries| HealthConfig {
            test: test.clone(),
            interval,
            timeout,
            retries,
            ..HealthConfig::default()
        };
        assert_eq!(tolerated(&check(seconds(2), seconds(1), Some(5))), Some(Duration::from_secs(8)));
        assert_eq!(tolerated(&check(seconds(2), seconds(1), Some(1))), Some(Duration::from_secs(1)));
        assert_eq!(tolerated(&check(None, Some(0), Some(0))), Some(Duration::from_mins(1)));
        let none = HealthConfig { test: Some(vec!["NONE".to_owned()]), ..HealthConfig::default() };
        assert_eq!(tolerated(&none), None);
        assert_eq!(tolerated(&HealthConfig::default()), None);
    }
}
