//! `leeway events`: what happens to tasks, as it happens.

use crate::ask::{self, Whom};
use crate::failure::Failure;
use anyhow::Result;
use std::str::FromStr;
use wire::agent::EventLine;
use wire::client;

/// Show what happens to tasks, as it happens
#[derive(clap::Args)]
pub struct Events {
    /// Print one JSON object a line
    #[arg(long)]
    json: bool,
    /// Begin with what happened since: how long ago (1h, 10m), or a time such as 2026-11-15T09:00:00Z
    #[arg(long, value_name = "WHEN", value_parser = ask::since)]
    since: Option<i64>,
    /// End with what happens until then: how long ago, or a time, which may be still to come
    #[arg(long, value_name = "WHEN", value_parser = ask::since)]
    until: Option<i64>,
    /// Only those with event=NAME, container=NAME or gpu=N; of several with one key any will do, of each key one must
    #[arg(long = "filter", short = 'f', value_name = "KEY=VALUE")]
    filters: Vec<Filter>,
    /// End after what has happened already
    #[arg(long)]
    no_follow: bool,
    #[command(flatten)]
    whom: Whom,
}

/// What to look for, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Filter {
    key: &'static str,
    value: String,
}

/// What can be filtered by.
const KEYS: [&str; 3] = ["event", "container", "gpu"];

impl FromStr for Filter {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (key, value) = text.split_once('=').unwrap_or((text, ""));
        let wrong = |why: String| format!("{why}: accepted are event=NAME, container=NAME and gpu=N");
        let known = KEYS.into_iter().find(|known| *known == key);
        let key = known.ok_or_else(|| wrong(format!("'{key}' is not known")))?;
        let events = [&node::config::EVENTS[..], &wire::cluster::EVENTS].concat();
        match key {
            _ if value.is_empty() => Err(wrong(format!("'{key}' has no value"))),
            "gpu" if value.parse::<u16>().is_err() => Err(wrong(format!("'{value}' is no GPU's number"))),
            "event" if !events.contains(&value) => {
                Err(format!("there is no event '{value}': accepted are {}", events.join(", ")))
            }
            key => Ok(Self { key, value: value.to_owned() }),
        }
    }
}

impl Events {
    pub(crate) fn run(self) -> Result<()> {
        let path = self.path();
        let mut failed = None;
        let each = |data: &str| {
            let text = if self.json { Ok(format!("{data}\n")) } else { line(data) };
            match text.and_then(|text| super::print_if_read(text.as_bytes())) {
                Ok(goes_on) => goes_on,
                Err(error) => {
                    failed = Some(error);
                    false
                }
            }
        };
        client::follow(&self.whom.path(), &path, each).map_err(|error| self.whom.failure(&error))?;
        failed.map_or(Ok(()), Err)
    }

    fn path(&self) -> String {
        let mut path = format!("/v1/events?follow={}", !self.no_follow);
        // Without a start, what has happened is all that is kept.
        let ends = self.no_follow || self.until.is_some();
        if let Some(since_us) = self.since.or(ends.then_some(0)) {
            path += &format!("&since_us={since_us}");
        }
        if let Some(until_us) = self.until {
            path += &format!("&until_us={until_us}");
        }
        for key in KEYS {
            let values = self.filters.iter().filter(|filter| filter.key == key);
            let values: Vec<String> = values.map(|filter| client::escaped(&filter.value)).collect();
            if !values.is_empty() {
                path += &format!("&{key}={}", values.join(","));
            }
        }
        path
    }
}

fn line(data: &str) -> Result<String> {
    let event: EventLine = serde_json::from_str(data)
        .map_err(|error| Failure::new(format!("an event came that is none: {error}")))?;
    let who = event.name.or_else(|| event.pid.map(|pid| format!("pid {pid}"))).unwrap_or_default();
    Ok(format!("{}  {:<9} {who}: {}\n", event.time, event.event, event.reason))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_names_what_is_accepted() {
        let filter = |text: &str| text.parse::<Filter>();
        let filtered = Filter { key: "event", value: "missed".to_owned() };
        assert_eq!(filter("event=missed"), Ok(filtered));
        assert_eq!(filter("container=a=b").map(|filter| filter.value), Ok("a=b".to_owned()));
        for (text, words) in [
            ("colour=red", ["'colour'", "container=NAME"]),
            ("container", ["no value", "gpu=N"]),
            ("gpu=first", ["'first'", "gpu=N"]),
            ("event=late", ["'late'", "missed"]),
        ] {
            let wrong = filter(text).unwrap_err();
            assert!(words.iter().all(|word| wrong.contains(word)), "{text}: {wrong}");
        }
    }
}
