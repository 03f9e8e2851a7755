//! What a master may know of this node, and the worker's last word on who comes.
//!
//! Whom this node promised a place counts as here until its first task: of two masters that place at once, the second
//! hears of the first one's container although nobody has seen it yet.

use crate::clock;
use crate::owner::Owner;
use crate::registry::Registry;
use sched::admission::{Admission, Demand, admit};
use sched::forecast::Source;
use sched::node::{Float, Report, report, residents};
use sched::{ContainerId, Finished, GpuId, Instant, Span, Tracker};
use std::collections::BTreeMap;
use tokio::sync::watch;
use wire::cluster::{KIND, PLACEMENT, SWARM_SERVICE};
use wire::link::{Answer, Gpu, KnownContainer, Offer};
use wire::report::{Figures, Record};

/// How long it takes to notice a task and to hold another.
const DELAY: Span = Span::from_millis(5);
/// How long a place is kept for a container that does not come.
const PROMISE_LIFE: Span = Span::from_secs(30);
/// The most places that are kept at a time.
const PROMISES_MAX: usize = 10_000;

/// How many services are remembered; beyond that, those that have no container here are forgotten.
const SERVICES_MAX: usize = 1000;

/// What a master may know, at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// The GPUs.
    pub gpus: Vec<Gpu>,
    /// What each says; whose numbers count up is the sender's to number.
    pub records: Vec<Record>,
    /// What is known of containers that masters placed.
    pub containers: Vec<KnownContainer>,
}

/// Where the owner puts it.
pub(crate) struct Outlook {
    sender: watch::Sender<Snapshot>,
    /// What is known of services that masters placed here. Swarm makes a new container for each restart, so that what is known
    /// must outlive containers.
    services: BTreeMap<String, KnownContainer>,
    promises: Promises,
}

impl Outlook {
    pub(crate) fn new(sender: watch::Sender<Snapshot>) -> Self {
        Self { sender, services: BTreeMap::new(), promises: Promises::default() }
    }

    /// A task of a container is over.
    pub(crate) fn note(&mut self, registry: &Registry, tracker: &Tracker, finished: &Finished) {
        let Some(number) = finished.container else { return };
        let (Some(known), Some(container)) = (registry.get(number), tracker.container(number)) else {
            return;
        };
        let label = |name| known.labels.get(name).cloned();
        let Some((service, placement)) = label(SWARM_SERVICE).zip(label(PLACEMENT)) else { return };
        if self.services.len() >= SERVICES_MAX {
            let here =
                |service: &String| registry.all().any(|one| one.labels.get(SWARM_SERVICE) == Some(service));
            self.services.retain(|service, _| here(service));
        }
        let forecast = container.forecast();
        let measured = matches!(forecast.source, Source::Measured(_));
        let before = self.services.remove(&service).filter(|told| told.placement == placement);
        let missed = before.as_ref().map_or(0, |told| told.missed_in_a_row);
        let told = KnownContainer {
            service: service.clone(),
            kind: label(KIND).unwrap_or_default(),
            run_us: if measured { forecast.upper.as_micros() } else { before.map_or(0, |told| told.run_us) },
            missed_in_a_row: match finished.hit() {
                Some(true) => 0,
                Some(false) => missed + 1,
                None => missed,
            },
            placement,
        };
        self.services.insert(service, told);
    }
}

/// Tells masters what changed, if anything did.
pub(crate) fn publish(owner: &Owner) {
    let Some(outlook) = &owner.outlook else { return };
    let now = snapshot(owner, outlook);
    outlook.sender.send_if_modified(|before| {
        let changed = *before != now;
        *before = now;
        changed
    });
}

fn snapshot(owner: &Owner, outlook: &Outlook) -> Snapshot {
    let tracker = owner.scheduler.tracker();
    let mut snapshot = Snapshot::default();
    for (gpu, known) in &owner.gpus {
        let Ok(number) = u8::try_from(gpu.0) else { continue };
        let reading = tracker.gpu(*gpu).and_then(|gpu| gpu.reading).map(|(_, reading)| reading);
        // Until it was read once, nobody knows what it has.
        let Some(reading) = reading else { continue };
        let told = report(0, &reading, &residents(tracker, *gpu));
        snapshot.gpus.push(Gpu {
            gpu: u32::from(gpu.0),
            name: known.found.name.clone(),
            memory_total: reading.memory_total,
        });
        snapshot.records.push(record(number, &told, known.lost));
    }
    snapshot.containers = outlook.services.values().cloned().collect();
    snapshot
}

/// A GPU as it is reported: one that takes nobody says no more than that.
fn record(gpu: u8, told: &Report, lost: bool) -> Record {
    // A GPU that does not answer has no memory to give.
    let memory_full = told.state.memory_full || lost;
    let provisionable = told.state.provisionable_when_busy() && !lost;
    let ms = |float: Float| match float {
        Float::Unlimited => None,
        Float::Limited(span) => {
            let ms = span.as_micros().div_euclid(1000);
            Some(i32::try_from(ms.clamp(i64::from(i32::MIN), i64::from(i32::MAX - 1))).unwrap_or(0))
        }
    };
    let figures = provisionable.then(|| Figures {
        sequence: 0,
        memory_free_mib: u32::try_from(told.memory_free >> 20).unwrap_or(u32::MAX),
        float_sum_ms: ms(told.float_sum),
        float_least_ms: ms(told.float_least),
    });
    Record { gpu, missed: told.state.missed, memory_full, core_full: told.state.core_full, figures }
}

/// Whom this node said yes to, and who is not here yet.
#[derive(Default)]
pub(crate) struct Promises(Vec<Promise>);

struct Promise {
    placement: String,
    gpu: GpuId,
    demand: Option<Demand>,
    memory: u64,
    until: Instant,
}

/// May this container come? The answer is a promise.
pub(crate) fn consider(owner: &mut Owner, offer: Offer) -> Answer {
    let now = clock::now();
    let judged = judge(owner, &offer, now);
    let number = offer.offer;
    match judged {
        Err(reason) => Answer { offer: number, admitted: false, reason },
        Ok(demand) => {
            if let Some(outlook) = &mut owner.outlook {
                outlook.promises.0.push(Promise {
                    placement: offer.placement,
                    gpu: GpuId(offer.gpu as u16),
                    demand,
                    memory: offer.memory,
                    until: now + PROMISE_LIFE,
                });
            }
            Answer { offer: number, admitted: true, reason: String::new() }
        }
    }
}

/// A container that was promised a place does not come: the place is free again.
pub(crate) fn withdraw(owner: &mut Owner, placement: &str) {
    if let Some(outlook) = &mut owner.outlook {
        outlook.promises.0.retain(|promise| promise.placement != placement);
    }
}

fn judge(owner: &mut Owner, offer: &Offer, now: Instant) -> Result<Option<Demand>, String> {
    drop_the_kept(owner, now);
    let gpu = u16::try_from(offer.gpu).map(GpuId).ok();
    let known = gpu.and_then(|gpu| Some((gpu, owner.gpus.get(&gpu)?)));
    let Some((gpu, known)) = known else { return Err(format!("it has no GPU {}", offer.gpu)) };
    let tracker = owner.scheduler.tracker();
    let reading = tracker.gpu(gpu).and_then(|gpu| gpu.reading).map(|(_, reading)| reading);
    let Some(reading) = reading.filter(|_| !known.lost) else {
        return Err(format!("its GPU {} does not answer", offer.gpu));
    };
    let told = report(0, &reading, &residents(tracker, gpu));
    if told.state.missed {
        return Err("a container there missed its deadline".to_owned());
    }
    let Some(outlook) = &owner.outlook else { return Err("it is no member".to_owned()) };
    let promised = || outlook.promises.0.iter().filter(|promise| promise.gpu == gpu);
    if promised().count() >= PROMISES_MAX {
        return Err("it waits for too many containers that were promised a place".to_owned());
    }
    let kept: u64 = promised().map(|promise| promise.memory).sum();
    let free = told.memory_free.saturating_sub(kept);
    if told.state.memory_full || offer.memory > free {
        let (free, needed) = (free >> 20, offer.memory >> 20);
        return Err(format!("{free}MiB of GPU memory free, {needed}MiB needed"));
    }
    if offer.deadline_us <= 0 {
        return Ok(None);
    }
    let here = tracker.containers().filter(|(_, container)| container.gpu == Some(gpu));
    let mut demands: Vec<Demand> =
        here.filter_map(|(_, container)| Demand::of(container, Span::ZERO)).collect();
    demands.extend(promised().filter_map(|promise| promise.demand));
    let deadline = Span::from_micros(offer.deadline_us);
    let run = if offer.run_us > 0 { Span::from_micros(offer.run_us) } else { deadline };
    let newcomer = Demand { deadline, run, blocking: Span::ZERO };
    // Who is alone endangers nobody, and its first run must be measured somewhere.
    if demands.is_empty() {
        return Ok(Some(newcomer));
    }
    match admit(&newcomer, &demands, DELAY) {
        Admission::Admitted { .. } => Ok(Some(newcomer)),
        Admission::Refused(refusal) => Err(refusal.to_string()),
    }
}

/// A promise is kept once its container had its first task: from then on it is counted like everybody.
fn drop_the_kept(owner: &mut Owner, now: Instant) {
    let tracker = owner.scheduler.tracker();
    let has_run = |number: ContainerId| tracker.container(number).is_some_and(|known| known.gpu.is_some());
    let here: Vec<String> = owner
        .registry
        .all()
        .filter(|known| has_run(known.number))
        .filter_map(|known| known.labels.get(PLACEMENT).cloned())
        .collect();
    if let Some(outlook) = &mut owner.outlook {
        outlook.promises.0.retain(|promise| promise.until > now && !here.contains(&promise.placement));
    }
}
