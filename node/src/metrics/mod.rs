//! Figures for Prometheus: what happened, counted and measured since the agent started, in base units.
//!
//! The owner notes what happens (`notes`); whoever asks gets the text (`text`). Series carry no pid: they would never end. Those of
//! a container that is gone are kept for a while, so that what happened just before its end is still read.

mod notes;
mod text;

pub(crate) use notes::Notes;
pub(crate) use text::{CLASSIC, OPEN, classic};

use prometheus_client::encoding::{EncodeLabelSet, EncodeLabelValue, LabelValueEncoder};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::{Registry, Unit};
use std::fmt::Write;
use std::sync::atomic::AtomicU64;
use wire::agent::{ContainerLine, NodeLine};

/// From a millisecond to four minutes: each bucket four times the one before. Fewer would tell little, and each costs a line per container.
const BUCKETS: (f64, f64, u16) = (0.001, 4.0, 10);

/// Seconds that only grow.
type Seconds = Counter<f64, AtomicU64>;
type Level = Gauge<f64, AtomicU64>;

/// One container on one GPU.
#[derive(Clone, Debug, Default, Hash, PartialEq, Eq, EncodeLabelSet)]
pub(crate) struct Whose {
    pub(crate) gpu: u16,
    pub(crate) uuid: String,
    pub(crate) container: String,
    pub(crate) image: String,
    pub(crate) namespace: String,
    pub(crate) pod: String,
}

/// How its tasks went.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Outcome {
    result: Verdict,
    #[prometheus(flatten)]
    whose: Whose,
}

#[derive(Clone, Copy, Debug, Hash, PartialEq, Eq)]
enum Verdict {
    Hit,
    Missed,
    /// It had no deadline.
    Done,
}

impl EncodeLabelValue for Verdict {
    fn encode(&self, encoder: &mut LabelValueEncoder<'_>) -> std::fmt::Result {
        encoder.write_str(match self {
            Self::Hit => "hit",
            Self::Missed => "missed",
            Self::Done => "done",
        })
    }
}

/// One GPU.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Which {
    gpu: u16,
    uuid: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Tier {
    tier: String,
}

/// Every figure there is.
pub(crate) struct Metrics {
    registry: Registry,
    tasks: Family<Outcome, Counter>,
    duration: Family<Whose, Histogram, fn() -> Histogram>,
    float: Family<Whose, Histogram, fn() -> Histogram>,
    tardiness: Family<Whose, Histogram, fn() -> Histogram>,
    wait: Family<Whose, Histogram, fn() -> Histogram>,
    memory: Family<Whose, Gauge>,
    busy: Family<Whose, Seconds>,
    holds: Family<Whose, Counter>,
    hold: Family<Whose, Seconds>,
    node_float: Family<Which, Level>,
    provisionable: Family<Which, Gauge>,
    error_bound: Family<Tier, Level>,
    dropped: Counter,
    webhooks_lost: Counter,
}

impl Metrics {
    pub(crate) fn new(node: &str) -> Self {
        let measured = || Family::new_with_constructor(buckets as fn() -> Histogram);
        let labels = [("node".into(), node.to_owned().into())];
        let mut metrics = Self {
            registry: Registry::with_prefix_and_labels("leeway", labels.into_iter()),
            tasks: Family::default(),
            duration: measured(),
            float: measured(),
            tardiness: measured(),
            wait: measured(),
            memory: Family::default(),
            busy: Family::default(),
            holds: Family::default(),
            hold: Family::default(),
            node_float: Family::default(),
            provisionable: Family::default(),
            error_bound: Family::default(),
            dropped: Counter::default(),
            webhooks_lost: Counter::default(),
        };
        metrics.register_tasks();
        metrics.register_containers();
        metrics.register_the_agent();
        metrics
    }

    fn register_tasks(&mut self) {
        let to = &mut self.registry;
        to.register("tasks", "Finished tasks: in time, late, or done without a deadline", self.tasks.clone());
        let mut measure = |name, help, family: &Family<Whose, Histogram, fn() -> Histogram>| {
            to.register_with_unit(name, help, Unit::Seconds, family.clone());
        };
        measure("task_duration", "How long finished tasks took, from their start", &self.duration);
        measure("task_float", "What was left of the deadline of tasks in time", &self.float);
        measure("task_tardiness", "How late tasks were that missed their deadline", &self.tardiness);
        measure("task_wait", "How long holds kept finished tasks standing", &self.wait);
    }

    fn register_containers(&mut self) {
        let to = &mut self.registry;
        let (memory, busy) = (self.memory.clone(), self.busy.clone());
        let used = "GPU memory that a container has allocated, contexts not counted";
        to.register_with_unit("container_gpu_memory_used", used, Unit::Bytes, memory);
        to.register_with_unit(
            "container_gpu_busy",
            "Share of the core that was used, by time",
            Unit::Seconds,
            busy,
        );
        to.register("holds", "How often a task came to a stand because of a hold", self.holds.clone());
        to.register_with_unit(
            "hold",
            "How long tasks stood because of holds",
            Unit::Seconds,
            self.hold.clone(),
        );
    }

    fn register_the_agent(&mut self) {
        let to = &mut self.registry;
        let float = "The least of deadline less forecast on a GPU: the delay it can bear; +Inf: any";
        to.register_with_unit("node_float", float, Unit::Seconds, self.node_float.clone());
        let takes = "Whether a GPU takes another container";
        to.register("node_provisionable", takes, self.provisionable.clone());
        let off = "How far a start or an end may be off";
        to.register_with_unit("monitor_error_bound", off, Unit::Seconds, self.error_bound.clone());
        let dropped = "Events of probes that the kernel could not tell";
        to.register("probe_events_dropped", dropped, self.dropped.clone());
        let lost = "News that the webhook's receiver did not take, in spite of every try";
        to.register("webhooks_lost", lost, self.webhooks_lost.clone());
        let version = Info::new([("version", env!("CARGO_PKG_VERSION"))]);
        to.register("build", "The agent's version", version);
    }

    /// News for the webhook that had to be given up.
    pub(crate) fn a_webhook_is_lost(&self) {
        self.webhooks_lost.inc();
    }

    /// Everything as text, with what is so at this moment.
    pub(crate) fn open_text(&self, node: &NodeLine, containers: &[ContainerLine]) -> String {
        self.look(node, containers);
        let mut text = String::new();
        // Writing to a string cannot fail, and a family that could not be written leaves the others whole.
        let _ = prometheus_client::encoding::text::encode(&mut text, &self.registry);
        text
    }

    fn look(&self, node: &NodeLine, containers: &[ContainerLine]) {
        let seconds = |us: i64| us as f64 / 1e6;
        self.memory.clear();
        for line in containers {
            if let Some(gpu) = node.gpus.iter().find(|gpu| Some(gpu.gpu) == line.live.gpu) {
                let bytes = line.gpu_memory_bytes.try_into().unwrap_or(i64::MAX);
                self.memory.get_or_create(&Whose::of(line, &gpu.uuid)).set(bytes);
            }
        }
        // A GPU that was taken out, or a tier that is no more, has no figure.
        self.node_float.clear();
        self.provisionable.clear();
        self.error_bound.clear();
        for gpu in &node.gpus {
            let which = Which { gpu: gpu.gpu, uuid: gpu.uuid.clone() };
            self.node_float.get_or_create(&which).set(gpu.float_us.map_or(f64::INFINITY, seconds));
            self.provisionable.get_or_create(&which).set(gpu.provisionable.into());
        }
        let tier = Tier { tier: node.tier.clone() };
        self.error_bound.get_or_create(&tier).set(seconds(node.error_us));
        self.dropped.inc_by(node.probe_events_dropped.saturating_sub(self.dropped.get()));
    }

    /// Takes the series of a container away.
    fn forget(&self, whose: &Whose) {
        for result in [Verdict::Hit, Verdict::Missed, Verdict::Done] {
            self.tasks.remove(&Outcome { result, whose: whose.clone() });
        }
        for measured in [&self.duration, &self.float, &self.tardiness, &self.wait] {
            measured.remove(whose);
        }
        self.busy.remove(whose);
        self.holds.remove(whose);
        self.hold.remove(whose);
    }
}

impl Whose {
    fn of(line: &ContainerLine, uuid: &str) -> Self {
        Self {
            gpu: line.live.gpu.unwrap_or_default(),
            uuid: uuid.to_owned(),
            container: line.name.clone(),
            image: line.image.clone().unwrap_or_default(),
            namespace: line.namespace.clone().unwrap_or_default(),
            pod: line.pod.clone().unwrap_or_default(),
        }
    }
}

fn buckets() -> Histogram {
    let (first, factor, count) = BUCKETS;
    Histogram::new(exponential_buckets(first, factor, count))
}
