//! Thousands of agents in one thread: each with its own certificate, connection and stream, as real ones have.

use super::master::{Master, name};
use anyhow::{Context, Result};
use futures_util::StreamExt;
use node::link::client::{Connection, member_tls};
use node::link::identity::Identity;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, Interval, MissedTickBehavior};
use tokio_rustls::rustls::ClientConfig;
use wire::link::{Answer, FromNode, Gpu, HEARTBEAT_MS, Hello, Reports, Said, Told};
use wire::report::{Figures, Record};

/// Each node's GPU memory.
const MEMORY_MIB: u32 = 24 << 10;
/// How often each speaks, and the longest wait before it connects again, as real agents have it.
const BEAT: Duration = Duration::from_millis(HEARTBEAT_MS);
/// One report in so many says when it was sent.
const STAMPED_OF: u32 = 10;

/// The agents, until this is dropped.
pub(super) struct Crowd {
    busy: Arc<AtomicBool>,
    end: watch::Sender<bool>,
    thread: Option<JoinHandle<()>>,
}

impl Crowd {
    pub(super) fn start(master: &Master, nodes: usize) -> Result<Self> {
        let busy = Arc::new(AtomicBool::new(false));
        let (end, ends) = watch::channel(false);
        let members: Vec<Identity> = master.members.clone();
        let (address, flag) = (master.address.clone(), Arc::clone(&busy));
        let live = move || {
            let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() else {
                return;
            };
            runtime.block_on(async move {
                let started = Instant::now();
                for (number, member) in members.into_iter().enumerate() {
                    let Ok(tls) = member_tls(&member) else { return };
                    let phase = BEAT * number as u32 / nodes as u32;
                    tokio::spawn(agent(number, started + phase, address.clone(), tls, Arc::clone(&flag)));
                }
                let mut ends = ends;
                let _ = ends.wait_for(|ended| *ended).await;
            });
        };
        let thread = std::thread::Builder::new().name("agents".to_owned()).spawn(live);
        Ok(Self { busy, end, thread: Some(thread.context("could not start a thread")?) })
    }

    /// From now on each agent has something to report each second.
    pub(super) fn become_busy(&self) {
        self.busy.store(true, Ordering::Relaxed);
    }
}

impl Drop for Crowd {
    fn drop(&mut self) {
        let _ = self.end.send(true);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// One agent: connected for as long as it can be, and again when it is not.
async fn agent(
    number: usize,
    first: Instant,
    address: String,
    tls: Arc<ClientConfig>,
    busy: Arc<AtomicBool>,
) {
    let mut beats = tokio::time::interval_at(first, BEAT);
    // Real agents do not all speak in the same millisecond. These share a thread: after a moment without a processor they would,
    // and for ever, if each went on a second after it was late.
    beats.set_missed_tick_behavior(MissedTickBehavior::Skip);
    loop {
        if let Ok(connection) = Connection::open(&address, Arc::clone(&tls)).await {
            let _ = stream(number, &mut beats, connection, &busy).await;
        }
        // As late as real agents are at most, each at its own moment.
        beats.tick().await;
    }
}

async fn stream(
    number: usize,
    beats: &mut Interval,
    mut connection: Connection,
    busy: &AtomicBool,
) -> Result<(), ()> {
    let (sender, receiver) = mpsc::channel::<FromNode>(16);
    let gpu = Gpu { gpu: 0, name: "simulated".to_owned(), memory_total: u64::from(MEMORY_MIB) << 20 };
    let say = |said: Said| sender.try_send(said.into()).map_err(drop);
    say(Said::Hello(Hello { name: name(number), gpus: vec![gpu] }))?;
    let said = futures_util::stream::unfold(receiver, |mut receiver| async {
        receiver.recv().await.map(|said| (said, receiver))
    });
    let mut told = connection.attach(said.boxed()).await.map_err(drop)?;
    let mut sequence = 0_u16;
    say(Said::Reports(Reports { records: record(&mut sequence, MEMORY_MIB), sent_us: 0 }))?;
    loop {
        tokio::select! {
            _ = beats.tick() => say(Said::Reports(beat(number, &mut sequence, busy.load(Ordering::Relaxed))))?,
            message = told.message() => {
                let message = message.map_err(drop)?.ok_or(())?;
                if let Some(Told::Offer(wire::link::Offer { offer, .. })) = message.told {
                    say(Said::Answer(Answer { offer, admitted: true, reason: String::new() }))?;
                }
            }
        }
    }
}

/// What an agent says each second: that it lives, or that its memory is another.
fn beat(number: usize, sequence: &mut u16, busy: bool) -> Reports {
    if !busy {
        return Reports::default();
    }
    let free = MEMORY_MIB - (number as u32 * 7 + u32::from(*sequence) * 13) % 1000;
    let records = record(sequence, free);
    let stamped = (number as u32 + u32::from(*sequence)).is_multiple_of(STAMPED_OF);
    Reports { records, sent_us: if stamped { cluster::wall_now_us() } else { 0 } }
}

fn record(sequence: &mut u16, memory_free_mib: u32) -> Vec<u8> {
    *sequence = sequence.wrapping_add(1);
    let figures = Figures { sequence: *sequence, memory_free_mib, float_sum_ms: None, float_least_ms: None };
    let record =
        Record { gpu: 0, missed: false, memory_full: false, core_full: false, figures: Some(figures) };
    let mut bytes = Vec::new();
    record.write(&mut bytes);
    bytes
}
