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
use tokio_rustls::rustls::ClientConfig;
use wire::link::{Answer, FromNode, Gpu, HEARTBEAT_MS, Hello, Reports, Said, Told};
use wire::report::{Figures, Record};

/// Each node's GPU memory.
const MEMORY_MIB: u32 = 24 << 10;
/// The longest wait before connecting again, as real agents have it.
const AGAIN_WITHIN: Duration = Duration::from_millis(HEARTBEAT_MS);
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
                for (number, member) in members.into_iter().enumerate() {
                    let Ok(tls) = member_tls(&member) else { return };
                    tokio::spawn(agent(number, nodes, address.clone(), tls, Arc::clone(&flag)));
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
async fn agent(number: usize, nodes: usize, address: String, tls: Arc<ClientConfig>, busy: Arc<AtomicBool>) {
    // Real agents do not all speak in the same millisecond.
    let phase = Duration::from_millis(HEARTBEAT_MS * number as u64 / nodes as u64);
    loop {
        if let Ok(connection) = Connection::open(&address, Arc::clone(&tls)).await {
            let _ = stream(number, phase, connection, &busy).await;
        }
        tokio::time::sleep(AGAIN_WITHIN / 10 + phase / 2).await;
    }
}

async fn stream(
    number: usize,
    phase: Duration,
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
    let first = tokio::time::Instant::now() + phase;
    let mut beats = tokio::time::interval_at(first, Duration::from_millis(HEARTBEAT_MS));
    beats.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
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
