//! `/v1/events`: what happened, and what happens, as server-sent events.

use crate::feed::{Dated, Feed};
use axum::response::sse::{Event, KeepAlive, Sse};
use futures_util::{Stream, StreamExt, future, stream};
use std::convert::Infallible;
use std::time::Duration;
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;
use wire::agent::EventLine;

/// Which news somebody wants.
#[derive(serde::Deserialize)]
pub struct Asked {
    /// Microseconds since 1970; from now on if not given.
    since_us: Option<i64>,
    /// Until when; for ever if not given.
    until_us: Option<i64>,
    /// Whether the stream goes on after what has happened.
    follow: Option<bool>,
    /// One or several of each, with commas between; any if not given.
    event: Option<String>,
    container: Option<String>,
    gpu: Option<String>,
}

/// What happened since a moment, where one is given, and what happens from now on.
pub fn events(feed: &Feed, asked: Asked) -> Sse<impl Stream<Item = Result<Event, Infallible>> + use<>> {
    let (past, receiver) = feed.follow(asked.since_us.unwrap_or(i64::MAX));
    let follow = asked.follow.unwrap_or(true);
    let until_us = asked.until_us.unwrap_or(i64::MAX);
    let live = following(receiver).take(if follow { usize::MAX } else { 0 });
    let all = stream::iter(past).chain(live.take_until(the_end(until_us)));
    let wanted = move |(at_us, line): &Dated| future::ready(*at_us <= until_us && asked.wants(line));
    Sse::new(all.filter(wanted).map(|dated| Ok(sent(&dated)))).keep_alive(KeepAlive::default())
}

/// What comes. A follower that is too slow goes on with what is still there.
pub(crate) fn following(receiver: Receiver<Dated>) -> impl Stream<Item = Dated> {
    stream::unfold(receiver, |mut receiver| async {
        loop {
            match receiver.recv().await {
                Ok(dated) => return Some((dated, receiver)),
                Err(RecvError::Lagged(_)) => {}
                Err(RecvError::Closed) => return None,
            }
        }
    })
}

/// Waits for a moment that may never come.
async fn the_end(until_us: i64) {
    match until_us.checked_sub(jiff::Timestamp::now().as_microsecond()).map(u64::try_from) {
        _ if until_us == i64::MAX => future::pending().await,
        Some(Ok(left_us)) => tokio::time::sleep(Duration::from_micros(left_us)).await,
        _ => {}
    }
}

fn sent((_, line): &Dated) -> Event {
    let event = Event::default().event(&line.event);
    // A line that is no JSON cannot be; if it is all the same, the stream goes on.
    event.json_data(&**line).unwrap_or_default()
}

impl Asked {
    fn wants(&self, line: &EventLine) -> bool {
        let one_of = |wanted: &Option<String>, is: &dyn Fn(&str) -> bool| {
            wanted.as_ref().is_none_or(|wanted| wanted.split(',').any(is))
        };
        let named = |wanted: &str| {
            let id = line.container.as_ref().is_some_and(|id| !wanted.is_empty() && id.starts_with(wanted));
            id || line.name.as_deref() == Some(wanted)
        };
        one_of(&self.event, &|wanted| line.event == wanted)
            && one_of(&self.container, &named)
            && one_of(&self.gpu, &|wanted| line.gpu.is_some_and(|gpu| gpu.to_string() == wanted))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(event: &str, name: &str, gpu: u16) -> EventLine {
        EventLine {
            time: String::new(),
            event: event.to_owned(),
            container: Some(format!("{name}-0123")),
            name: Some(name.to_owned()),
            node: String::new(),
            reason: String::new(),
            pid: None,
            gpu: Some(gpu),
        }
    }

    #[test]
    fn of_one_kind_any_of_several_kinds_all() {
        let given = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
        let asked = |event: &str, container: &str, gpu: &str| Asked {
            since_us: None,
            until_us: None,
            follow: None,
            event: given(event),
            container: given(container),
            gpu: given(gpu),
        };
        let missed = line("missed", "infer", 1);
        for (event, container, gpu, wants) in [
            ("", "", "", true),
            ("missed", "", "", true),
            ("held,missed", "infer", "1", true),
            ("held", "", "", false),
            ("missed", "infer-01", "", true),
            ("missed", "inf", "", true),
            ("missed", "fer", "", false),
            ("missed", "train", "", false),
            ("missed", "train,infer", "0", false),
        ] {
            assert_eq!(asked(event, container, gpu).wants(&missed), wants, "{event} {container} {gpu}");
        }
    }
}
