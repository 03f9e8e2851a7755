//! The fields of a container that a template can name: Docker's, and Leeway's.

use super::{ports, words};
use crate::commands::tasks::in_words;
use crate::docker::containers::{Container, SHORT_ID};
use serde_json::{Map, Value};
use wire::agent::Live;
use wire::deadlines::Deadlines;

/// How much of a command is shown.
const COMMAND_CHARS_MAX: usize = 20;

/// One container to print.
pub(super) struct Row<'a> {
    pub container: &'a Container,
    pub deadlines: &'a Deadlines,
    /// What the agent knows of it.
    pub live: Option<&'a Live>,
    /// Whether ids and commands are shown in full.
    pub full: bool,
    pub now: jiff::Timestamp,
}

/// A field, by the name templates use.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Field {
    Known(&'static Known),
    Label(String),
}

/// A field with a name, a heading and a way to get its value.
pub(super) struct Known {
    name: &'static str,
    heading: &'static str,
    value: fn(&Row<'_>) -> String,
}

/// Docker's names and headings; Leeway's last.
const FIELDS: [Known; 17] = [
    Known { name: "ID", heading: "CONTAINER ID", value: id },
    Known { name: "Image", heading: "IMAGE", value: image },
    Known { name: "Command", heading: "COMMAND", value: command },
    Known { name: "CreatedAt", heading: "CREATED AT", value: created_at },
    Known { name: "RunningFor", heading: "CREATED", value: running_for },
    Known {
        name: "Ports",
        heading: "PORTS",
        value: |row| ports::words(row.container.summary.ports.as_deref()),
    },
    Known { name: "State", heading: "STATE", value: state },
    Known {
        name: "Status",
        heading: "STATUS",
        value: |row| row.container.summary.status.clone().unwrap_or_default(),
    },
    Known { name: "Names", heading: "NAMES", value: names },
    Known { name: "Labels", heading: "LABELS", value: labels },
    Known { name: "Mounts", heading: "MOUNTS", value: mounts },
    Known { name: "Networks", heading: "NETWORKS", value: networks },
    Known { name: "Deadline", heading: "DEADLINE", value: deadline },
    Known { name: "Mode", heading: "MODE", value: |row| row.container.mode().name().to_owned() },
    Known { name: "Task", heading: "TASK", value: |row| of_live(row, |live| live.state.name().to_owned()) },
    Known { name: "Float", heading: "FLOAT", value: |row| of_live(row, float) },
    Known { name: "Hits", heading: "HITS", value: |row| of_live(row, hits) },
];

impl Field {
    /// The field a template names: `Names`, `Label "leeway.task"`.
    pub(super) fn named(name: &str) -> Option<Self> {
        if let Some(label) = name.strip_prefix("Label ") {
            let label = label.trim().strip_prefix('"')?.strip_suffix('"')?;
            return Some(Self::Label(label.to_owned()));
        }
        FIELDS.iter().find(|known| known.name == name).map(Self::Known)
    }

    /// Every name there is, for a message.
    pub(super) fn names() -> String {
        FIELDS.iter().map(|known| format!(".{}", known.name)).collect::<Vec<_>>().join(" ")
    }

    pub(super) fn heading(&self) -> String {
        match self {
            Self::Known(known) => known.heading.to_owned(),
            // Docker's heading for `com.example.my-label` is `my label`.
            Self::Label(label) => label.rsplit('.').next().unwrap_or(label).replace(['-', '_'], " "),
        }
    }

    pub(super) fn value(&self, row: &Row<'_>) -> String {
        match self {
            Self::Known(known) => (known.value)(row),
            Self::Label(label) => row.container.label(label).unwrap_or_default().to_owned(),
        }
    }
}

impl std::fmt::Debug for Known {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

impl PartialEq for Known {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Row<'_> {
    /// Every field, under Docker's names.
    pub(super) fn json(&self) -> String {
        let fields = FIELDS.iter().map(|known| (known.name.to_owned(), Value::from((known.value)(self))));
        Value::Object(fields.collect::<Map<_, _>>()).to_string()
    }
}

fn id(row: &Row<'_>) -> String {
    if row.full { row.container.id.clone() } else { row.container.short_id().to_owned() }
}

/// The image as it was named; where that was an id, as much of it as of other ids.
fn image(row: &Row<'_>) -> String {
    let summary = &row.container.summary;
    let image = summary.image.as_deref().unwrap_or_default();
    if image.is_empty() {
        return "<no image>".to_owned();
    }
    if row.full {
        return image.to_owned();
    }
    let digits =
        |id: &str| id.strip_prefix("sha256:").unwrap_or(id).chars().take(SHORT_ID).collect::<String>();
    if summary.image_id.as_deref().is_some_and(|id| digits(id) == digits(image)) {
        return digits(image);
    }
    // Podman gives names in full, of which Docker shows what a person would type.
    let name = image.split('@').next().unwrap_or(image);
    let name = name.strip_prefix("docker.io/").unwrap_or(name);
    name.strip_prefix("library/").unwrap_or(name).to_owned()
}

fn command(row: &Row<'_>) -> String {
    let command = row.container.summary.command.as_deref().unwrap_or_default();
    let shown = if row.full { command.to_owned() } else { words::shortened(command, COMMAND_CHARS_MAX) };
    words::quoted(&shown)
}

fn created_at(row: &Row<'_>) -> String {
    let local = created(row).to_zoned(jiff::tz::TimeZone::system());
    local.strftime("%Y-%m-%d %H:%M:%S %z %Z").to_string()
}

fn running_for(row: &Row<'_>) -> String {
    words::ago(row.now.duration_since(created(row)).as_secs())
}

fn created(row: &Row<'_>) -> jiff::Timestamp {
    jiff::Timestamp::from_second(row.container.summary.created.unwrap_or_default()).unwrap_or_default()
}

fn state(row: &Row<'_>) -> String {
    row.container.summary.state.map(|state| state.to_string()).unwrap_or_default()
}

/// The container's own name; with the names that links gave it, where nothing is shortened.
fn names(row: &Row<'_>) -> String {
    if row.full { row.container.names.join(",") } else { row.container.name().to_owned() }
}

fn labels(row: &Row<'_>) -> String {
    let labels = row.container.summary.labels.iter().flatten();
    let mut labels: Vec<String> = labels.map(|(name, value)| format!("{name}={value}")).collect();
    // Docker's order is a matter of luck; ours is not.
    labels.sort();
    labels.join(",")
}

fn mounts(row: &Row<'_>) -> String {
    let mounts = row.container.summary.mounts.iter().flatten();
    let name = |mount: &bollard::models::MountPoint| {
        let name = mount.name.clone().filter(|name| !name.is_empty()).or_else(|| mount.source.clone());
        let name = name.unwrap_or_default();
        if row.full { name } else { words::shortened(&name, words::MOUNT_CHARS_MAX) }
    };
    mounts.map(name).collect::<Vec<_>>().join(",")
}

fn networks(row: &Row<'_>) -> String {
    let networks =
        row.container.summary.network_settings.as_ref().and_then(|settings| settings.networks.as_ref());
    let mut names: Vec<&str> = networks.into_iter().flatten().map(|(name, _)| name.as_str()).collect();
    names.sort_unstable();
    names.join(",")
}

fn deadline(row: &Row<'_>) -> String {
    row.container.deadline(row.deadlines).unwrap_or_else(|| "-".to_owned())
}

/// What only an agent knows; `-` without one, and for a container it has not heard of.
fn of_live(row: &Row<'_>, value: impl Fn(&Live) -> String) -> String {
    row.live.map_or_else(|| "-".to_owned(), value)
}

fn float(live: &Live) -> String {
    live.float_us.map_or_else(|| "-".to_owned(), in_words)
}

/// Tasks that made their deadline, of those that had one.
fn hits(live: &Live) -> String {
    match live.hits + live.misses {
        0 => "-".to_owned(),
        all => format!("{}/{all}", live.hits),
    }
}
