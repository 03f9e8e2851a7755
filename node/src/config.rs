//! The agent's configuration: flags and environment over the file over the defaults.
//!
//! A key that nobody knows is an error that names the nearest one: a setting that is silently ignored is worse than none.

use crate::ledger::Retention;
use crate::webhook::Webhook;
use serde::Deserialize;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Where the configuration is when nobody says otherwise.
pub const FILE: &str = "/etc/leeway/leeway.toml";

/// Poll periods that make sense: faster costs a core, slower sees nothing.
const POLL_MS: std::ops::RangeInclusive<u64> = 1..=1000;
/// Bounds on the time in flight that make sense: a signal and a launch take about a third of a millisecond.
const IN_FLIGHT_US: std::ops::RangeInclusive<u64> = 500..=1_000_000;
/// Long enough to keep the GPU busy while a process wakes, short beside a request of ten milliseconds.
const IN_FLIGHT_US_DEFAULT: u64 = 1000;
/// Programs wait for their input's copy and launch microseconds later; requests come milliseconds apart.
const BURST_GAP_US_DEFAULT: u64 = 2000;
/// A longer gap than a minute would make one task of a day.
const BURST_GAP_US: std::ops::RangeInclusive<u64> = 0..=60_000_000;
/// How different a key may be from the one that is suggested.
const SUGGESTED_DISTANCE_MAX: usize = 4;

/// Everything that can be set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// The folder of the driver's libraries; none: wherever the loader finds them.
    pub driver: Option<PathBuf>,
    /// The API's socket.
    pub socket: PathBuf,
    /// The API and the page on TCP, too.
    pub http: Option<SocketAddr>,
    /// The file with the token that is asked for there; without one it is on loopback.
    pub http_token_file: Option<PathBuf>,
    /// Whether something can be changed there.
    pub http_actions: bool,
    /// What must not outlive a restart of the machine.
    pub run_dir: PathBuf,
    /// What must.
    pub state_dir: PathBuf,
    /// The task table.
    pub table: PathBuf,
    /// The policy's name.
    pub policy: String,
    /// Containers without a label of ours are ours, too.
    pub manage_all: bool,
    /// Containers are held by Docker's own pause, for everybody to see.
    pub visible: bool,
    /// The node's name.
    pub node: String,
    /// How long between two looks at the GPUs.
    pub poll: Duration,
    /// Probes are used where they can be.
    pub probes: bool,
    /// How much GPU time processes without a deadline may have in flight beside one that has.
    pub in_flight_us: u64,
    /// How long a server must have nothing on the GPU before its request counts as done.
    pub burst_gap_us: u64,
    /// How much the ledger keeps.
    pub ledger: Retention,
    /// Who is told of events as they happen.
    pub webhook: Option<Webhook>,
}

/// What one source sets: the file, or flags and environment together.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Layer {
    /// See [`Config`].
    pub driver: Option<PathBuf>,
    /// See [`Config`].
    pub socket: Option<PathBuf>,
    /// See [`Config`].
    pub http: Option<SocketAddr>,
    /// See [`Config`].
    pub http_token_file: Option<PathBuf>,
    /// See [`Config`].
    pub http_actions: Option<bool>,
    /// See [`Config`].
    pub run_dir: Option<PathBuf>,
    /// See [`Config`].
    pub state_dir: Option<PathBuf>,
    /// See [`Config`].
    pub table: Option<PathBuf>,
    /// See [`Config`].
    pub policy: Option<String>,
    /// `labelled` or `all`.
    pub manage: Option<String>,
    /// See [`Config`].
    pub visible: Option<bool>,
    /// See [`Config`].
    pub node: Option<String>,
    /// In milliseconds.
    pub poll_ms: Option<u64>,
    /// `auto` or `off`.
    pub probes: Option<String>,
    /// In microseconds.
    pub in_flight_us: Option<u64>,
    /// In microseconds.
    pub burst_gap_us: Option<u64>,
    /// See [`Config`].
    pub ledger: LedgerLayer,
    /// See [`Config`].
    pub webhook: WebhookLayer,
}

/// The webhook's part of a layer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct WebhookLayer {
    /// Where to.
    pub url: Option<String>,
    /// Which events; `missed` if not given.
    pub events: Option<Vec<String>>,
}

/// The ledger's part of a layer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct LedgerLayer {
    /// See [`Retention`].
    pub days: Option<u32>,
    /// See [`Retention`].
    pub rows: Option<u32>,
}

/// The keys of the file, and those of its sections.
const KEYS: [&str; 18] = [
    "driver",
    "socket",
    "http",
    "http_token_file",
    "http_actions",
    "run_dir",
    "state_dir",
    "table",
    "policy",
    "manage",
    "visible",
    "node",
    "poll_ms",
    "probes",
    "in_flight_us",
    "burst_gap_us",
    "ledger",
    "webhook",
];
const LEDGER_KEYS: [&str; 2] = ["days", "rows"];
const WEBHOOK_KEYS: [&str; 2] = ["url", "events"];

/// Why a configuration is none.
#[derive(Debug, thiserror::Error)]
pub enum Wrong {
    /// The file cannot be read.
    #[error("could not read the configuration {0}")]
    Unreadable(PathBuf, #[source] std::io::Error),
    /// The file is no TOML, or a value is of the wrong kind.
    #[error("could not understand the configuration {0}: {1}")]
    Toml(PathBuf, String),
    /// A key nobody knows.
    #[error("the configuration {file} has a key '{key}' that is unknown{}", suggestion(.nearest.as_deref()))]
    Key {
        /// The file.
        file: PathBuf,
        /// The key.
        key: String,
        /// The key it may be meant to be.
        nearest: Option<String>,
    },
    /// A value that makes no sense.
    #[error("{0}")]
    Value(String),
}

fn suggestion(nearest: Option<&str>) -> String {
    nearest.map_or_else(String::new, |nearest| format!("; did you mean '{nearest}'?"))
}

impl Layer {
    /// Reads the file. One that is not there says nothing, unless it was asked for by name.
    pub fn read(file: &Path, required: bool) -> Result<Self, Wrong> {
        match std::fs::read_to_string(file) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound && !required => Ok(Self::default()),
            Err(error) => Err(Wrong::Unreadable(file.to_owned(), error)),
            Ok(text) => Self::parse(file, &text),
        }
    }

    fn parse(file: &Path, text: &str) -> Result<Self, Wrong> {
        let not_toml = |error: toml::de::Error| {
            let line = error.span().map_or(1, |span| 1 + text[..span.start].matches('\n').count());
            Wrong::Toml(file.to_owned(), format!("line {line}: {}", error.message()))
        };
        let table: toml::Table = toml::from_str(text).map_err(not_toml)?;
        check_keys(file, "", table.keys(), &KEYS)?;
        for (section, known) in [("ledger", &LEDGER_KEYS), ("webhook", &WEBHOOK_KEYS)] {
            if let Some(toml::Value::Table(keys)) = table.get(section) {
                check_keys(file, &format!("{section}."), keys.keys(), known)?;
            }
        }
        toml::from_str(text).map_err(not_toml)
    }

    /// This layer, with what it leaves open filled from another, and that from the defaults.
    pub fn over(self, below: Layer) -> Result<Config, Wrong> {
        let run_dir = self.run_dir.or(below.run_dir).unwrap_or_else(|| PathBuf::from("/run/leeway"));
        let policy = known_policy(self.policy.or(below.policy))?;
        let manage_all = one_of("manage", self.manage.or(below.manage), ["labelled", "all"])? == "all";
        let probes = one_of("probes", self.probes.or(below.probes), ["auto", "off"])? == "auto";
        let poll_ms = in_range("poll_ms", self.poll_ms.or(below.poll_ms), 5, POLL_MS)?;
        let in_flight_us = self.in_flight_us.or(below.in_flight_us);
        let in_flight_us = in_range("in_flight_us", in_flight_us, IN_FLIGHT_US_DEFAULT, IN_FLIGHT_US)?;
        let burst_gap_us = self.burst_gap_us.or(below.burst_gap_us);
        let burst_gap_us = in_range("burst_gap_us", burst_gap_us, BURST_GAP_US_DEFAULT, BURST_GAP_US)?;
        let http = self.http.or(below.http);
        let http_token_file = self.http_token_file.or(below.http_token_file);
        let open = http.filter(|address| web::is_open_to_all(*address, http_token_file.as_deref()));
        if let Some(address) = open {
            let wrong = "is not on loopback: anybody who reaches it could ask it, unless http_token_file asks for a token";
            return Err(Wrong::Value(format!("http = '{address}' {wrong}")));
        }
        Ok(Config {
            driver: self.driver.or(below.driver),
            socket: self.socket.or(below.socket).unwrap_or_else(|| run_dir.join("agent.sock")),
            http,
            http_token_file,
            http_actions: self.http_actions.or(below.http_actions).unwrap_or(false),
            run_dir,
            state_dir: self.state_dir.or(below.state_dir).unwrap_or_else(|| PathBuf::from("/var/lib/leeway")),
            table: self.table.or(below.table).unwrap_or_else(|| PathBuf::from(wire::table::PATH)),
            policy,
            manage_all,
            visible: self.visible.or(below.visible).unwrap_or(false),
            node: self.node.or(below.node).unwrap_or_else(host_name),
            poll: Duration::from_millis(poll_ms),
            probes,
            in_flight_us,
            burst_gap_us,
            ledger: Retention {
                days: self.ledger.days.or(below.ledger.days).unwrap_or(30),
                rows: self.ledger.rows.or(below.ledger.rows).unwrap_or(1_000_000),
            },
            webhook: webhook(below.webhook)?,
        })
    }
}

/// Events that a webhook can be told of.
pub const EVENTS: [&str; 10] = [
    "started",
    "missed",
    "finished",
    "held",
    "released",
    "hold-expired",
    "frozen",
    "thawed",
    "leaked",
    "suggested",
];

fn webhook(given: WebhookLayer) -> Result<Option<Webhook>, Wrong> {
    let Some(url) = given.url else { return Ok(None) };
    // The address may have a secret in it, and is not repeated.
    if !url.starts_with("http://") && !url.starts_with("https://") {
        let wrong = "webhook.url is not an address: accepted are http://… and https://…";
        return Err(Wrong::Value(wrong.to_owned()));
    }
    let events = given.events.unwrap_or_else(|| vec!["missed".to_owned()]);
    if let Some(event) = events.iter().find(|event| !EVENTS.contains(&event.as_str())) {
        let known = EVENTS.join(", ");
        return Err(Wrong::Value(format!("webhook.events has '{event}': accepted are {known}")));
    }
    Ok(Some(Webhook { url, events }))
}

fn known_policy(name: Option<String>) -> Result<String, Wrong> {
    let name = name.unwrap_or_else(|| "least-slack".to_owned());
    if sched::policy::NAMES.contains(&name.as_str()) {
        return Ok(name);
    }
    let names = sched::policy::NAMES.join(", ");
    Err(Wrong::Value(format!("'{name}' is not a policy: accepted are {names}")))
}

/// One of two words, of which the first is the default.
fn one_of(key: &str, given: Option<String>, accepted: [&'static str; 2]) -> Result<&'static str, Wrong> {
    let Some(given) = given else { return Ok(accepted[0]) };
    let wrong = || format!("{key} = '{given}' is not known: accepted are {}", accepted.join(", "));
    accepted.into_iter().find(|word| *word == given).ok_or_else(|| Wrong::Value(wrong()))
}

fn in_range(
    key: &str,
    given: Option<u64>,
    otherwise: u64,
    accepted: std::ops::RangeInclusive<u64>,
) -> Result<u64, Wrong> {
    let value = given.unwrap_or(otherwise);
    let (least, most) = (accepted.start(), accepted.end());
    let wrong = || format!("{key} = {value} is out of range: accepted are {least} to {most}");
    accepted.contains(&value).then_some(value).ok_or_else(|| Wrong::Value(wrong()))
}

fn check_keys<'a>(
    file: &Path,
    section: &str,
    keys: impl IntoIterator<Item = &'a String>,
    known: &[&str],
) -> Result<(), Wrong> {
    let Some(key) = keys.into_iter().find(|key| !known.contains(&key.as_str())) else { return Ok(()) };
    let distance = |known: &&&str| strsim::osa_distance(key, known);
    let nearest = known.iter().min_by_key(distance).filter(|near| distance(near) <= SUGGESTED_DISTANCE_MAX);
    Err(Wrong::Key {
        file: file.to_owned(),
        key: format!("{section}{key}"),
        nearest: nearest.map(|near| format!("{section}{near}")),
    })
}

fn host_name() -> String {
    let name = rustix::system::uname().nodename().to_string_lossy().into_owned();
    if name.is_empty() { "localhost".to_owned() } else { name }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Config, String> {
        let layer = Layer::parse(Path::new("leeway.toml"), text);
        layer.and_then(|layer| Layer::default().over(layer)).map_err(|wrong| wrong.to_string())
    }

    #[test]
    fn flags_beat_the_file_and_the_file_beats_the_defaults() {
        let file = Layer::parse(Path::new("f"), "poll_ms = 20\nnode = \"a\"\n[ledger]\ndays = 3\n").unwrap();
        let flags = Layer { node: Some("b".to_owned()), ..Layer::default() };
        let config = flags.over(file).unwrap();
        assert_eq!((config.poll, config.node.as_str()), (Duration::from_millis(20), "b"));
        assert_eq!((config.ledger.days, config.ledger.rows), (3, 1_000_000));
        assert_eq!(config.socket, Path::new("/run/leeway/agent.sock"));
    }

    #[test]
    fn the_sample_has_every_key_at_its_default() {
        let without_default = ["driver", "http", "http_token_file", "node", "url", "events"];
        let says = |line: &'static str| {
            let said = line.strip_prefix("# ").unwrap_or(line);
            let key = said.split_once(" = ").map(|(key, _)| key);
            let counts = key.map_or(said.starts_with('['), |key| !without_default.contains(&key));
            counts.then_some(said)
        };
        let sample: Vec<&str> = include_str!("../../etc/leeway.toml").lines().filter_map(says).collect();
        assert!(sample.contains(&"policy = \"least-slack\""), "{sample:?}");
        assert_eq!(parse(&sample.join("\n")), parse(""));
    }

    #[test]
    fn a_socket_follows_its_folder() {
        let config = parse("run_dir = \"/tmp/x\"").unwrap();
        assert_eq!(config.socket, Path::new("/tmp/x/agent.sock"));
    }

    #[test]
    fn an_unknown_key_is_refused_with_the_nearest() {
        let wrong = parse("pol_ms = 5").unwrap_err();
        assert!(wrong.contains("'pol_ms'") && wrong.contains("'poll_ms'?"), "{wrong}");
        let wrong = parse("[ledger]\ndayz = 5").unwrap_err();
        assert!(wrong.contains("'ledger.dayz'") && wrong.contains("'ledger.days'?"), "{wrong}");
        let wrong = parse("entirely_different = 5").unwrap_err();
        assert!(!wrong.contains("did you mean"), "{wrong}");
    }

    #[test]
    fn a_wrong_value_is_named_with_what_is_accepted() {
        for (text, words) in [
            ("policy = \"lifo\"", ["'lifo'", "fifo"]),
            ("manage = \"some\"", ["'some'", "labelled"]),
            ("poll_ms = 0", ["0", "1 to 1000"]),
            ("poll_ms = \"fast\"", ["line 1", "u64"]),
            ("probes = \"on\"", ["'on'", "auto"]),
            ("burst_gap_us = 99000000", ["99000000", "0 to"]),
            ("in_flight_us = 1", ["1", "500 to"]),
            ("http = \"0.0.0.0:80\"", ["0.0.0.0:80", "loopback"]),
            ("[webhook]\nurl = \"ftp://x\"", ["webhook.url", "https://"]),
            ("[webhook]\nurl = \"http://x\"\nevents = [\"late\"]", ["'late'", "missed"]),
            ("node = \"a\"\nnot toml", ["line 2", "leeway.toml"]),
        ] {
            let wrong = parse(text).unwrap_err();
            assert!(words.iter().all(|word| wrong.contains(word)), "{text}: {wrong}");
        }
    }
}
