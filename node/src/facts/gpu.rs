//! NVML, asked in this process: who uses which GPU, and how full it is.
//!
//! Asking takes microseconds, spawning `nvidia-smi` tens of milliseconds. The list of processes is read most often (see
//! `pace`), and a list like the last one costs no more than comparing the two; what changes slowly (memory and core of the whole GPU) and what is dear (use per process, 1.4 ms) less often. Machines
//! without NVML, without a driver or whose GPU falls off the bus are normal: each is said once, and looked at again later.

use super::exits::Exits;
use super::meter::Meter;
use super::pace::Pace;
use super::{Found, Teller, Told, process};
use crate::clock;
use crate::run::or_abort;
use nvml_wrapper::enums::device::UsedGpuMemory;
use nvml_wrapper::error::NvmlError;
use nvml_wrapper::struct_wrappers::device::ProcessInfo;
use nvml_wrapper::{Device, Nvml};
use sched::{GpuId, Instant, Process, Reading, Span};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// How often the whole GPU is read: NVML's own figure changes no faster.
const READING_EVERY: Span = Span::from_millis(200);
/// How often use per process is read: NVML keeps samples for ten seconds.
const CORE_EVERY: Span = Span::from_secs(1);
/// How many looks without a sample mean that a process does nothing; more where many share the ring, which names one at a time.
const UNSAMPLED_MIN: usize = 2;
/// How many samples NVML takes between two looks, at the least.
const SAMPLES_PER_LOOK: usize = 4;
/// How long to leave NVML alone when it does not work, and a GPU that was lost.
const AGAIN_AFTER: Duration = Duration::from_secs(2);
/// Nobody looked for this long (the machine slept, the agent was stopped), so starts in between were not seen.
const LOOK_GAP_MAX: Span = Span::from_millis(500);
/// Where looks are further apart than that, this many of them must have been left out.
const LOOKS_LEFT_OUT_MAX: i64 = 3;

/// What the poller shares with the rest of the agent.
#[derive(Debug, Default)]
pub struct Poll {
    /// How long between two looks, in microseconds.
    pub period_us: AtomicU64,
    /// Some tasks begin and end with their memory: nothing announces that, so every look is a fine one.
    pub finely: AtomicBool,
    /// The agent stops.
    pub stop: AtomicBool,
}

/// Loads NVML: from that folder, or wherever the loader finds it.
pub fn load(driver: Option<&Path>) -> Result<Nvml, NvmlError> {
    let name = Path::new("libnvidia-ml.so.1");
    let path: PathBuf = driver.map_or_else(|| name.to_owned(), |folder| folder.join(name));
    Nvml::builder().lib_path(path.as_os_str()).init()
}

/// Why NVML does not work, in words, and what to do about it.
pub fn explain(error: &NvmlError) -> (String, &'static str) {
    match error {
        NvmlError::LibloadingError(_) => (
            format!("NVIDIA's management library could not be loaded: {error}"),
            "install the NVIDIA driver, or name the folder of libnvidia-ml.so.1 with --driver",
        ),
        NvmlError::DriverNotLoaded => (
            "NVIDIA's management library is there, but no driver is loaded".to_owned(),
            "load it with `sudo modprobe nvidia`, or start the simulated GPU",
        ),
        NvmlError::NotFound => (
            "the NVIDIA driver sees no GPU".to_owned(),
            "see whether `nvidia-smi` lists one; `lspci` says whether one is built in",
        ),
        NvmlError::NoPermission => {
            ("the NVIDIA driver may not be used by this user".to_owned(), "run the agent as root")
        }
        _ => (
            format!("NVIDIA's management library does not work: {error}"),
            "see whether `nvidia-smi` works; if not, load the driver again or restart the machine",
        ),
    }
}

/// Polls until the agent stops, whatever happens to the driver.
pub fn watch(driver: Option<&Path>, teller: &Teller, exits: &Exits, poll: &Poll) {
    let mut said = String::new();
    while !poll.stop.load(Ordering::Relaxed) {
        let lost = match load(driver) {
            Ok(nvml) => {
                let pace = Pace::new(driver.map(Path::to_owned).or_else(folder_of_nvml).as_deref());
                let mut watch = Watch { teller, exits, poll, pace, lookers: Vec::new() };
                let found = watch.find(&nvml);
                if found.is_ok() {
                    said.clear();
                }
                found.err().unwrap_or_else(|| watch.run())
            }
            Err(error) => error,
        };
        if poll.stop.load(Ordering::Relaxed) || !teller.tell(Told::Nvml(None)) {
            return;
        }
        let (why, help) = explain(&lost);
        if said != why {
            eprintln!("warning: no GPU task can be seen, and the agent goes on without: {why}; {help}");
            said = why;
        }
        std::thread::sleep(AGAIN_AFTER);
    }
}

/// Where the loader found NVML; the driver's other libraries are beside it.
fn folder_of_nvml() -> Option<PathBuf> {
    let maps = std::fs::read_to_string("/proc/self/maps").ok()?;
    let path = maps
        .lines()
        .find(|line| line.contains("/libnvidia-ml.so"))
        .and_then(|line| line.find('/').map(|at| &line[at..]))?;
    Some(Path::new(path).parent()?.to_owned())
}

/// Starts the poller's thread.
pub fn start(
    driver: Option<PathBuf>,
    teller: Teller,
    exits: Exits,
    poll: Arc<Poll>,
) -> std::io::Result<std::thread::JoinHandle<()>> {
    std::thread::Builder::new()
        .name("gpu".to_owned())
        .spawn(move || or_abort(|| watch(driver.as_deref(), &teller, &exits, &poll)))
}

struct Watch<'a, 'n> {
    teller: &'a Teller,
    exits: &'a Exits,
    poll: &'a Poll,
    pace: Pace,
    lookers: Vec<Looker<'n>>,
}

impl<'n> Watch<'_, 'n> {
    /// Looks at every GPU, period after period. Ends with the reason why NVML as a whole is of no use any more.
    fn run(&mut self) -> NvmlError {
        let mut told = None;
        while !self.poll.stop.load(Ordering::Relaxed) {
            let period = Span::from_micros(self.poll.period_us.load(Ordering::Relaxed) as i64);
            let error = Duration::from_micros(self.pace.error(period).as_micros().cast_unsigned());
            if told.replace(error) != Some(error) && !self.teller.tell(Told::Nvml(Some(error))) {
                return NvmlError::Uninitialized;
            }
            for looker in &mut self.lookers {
                match looker.look(period, self.teller, self.exits) {
                    Ok(()) => {}
                    Err(error @ (NvmlError::Uninitialized | NvmlError::DriverNotLoaded)) => return error,
                    Err(error) => looker.lose(self.teller, &error),
                }
            }
            self.pace.wait(period, self.poll.finely.load(Ordering::Relaxed));
        }
        NvmlError::Uninitialized
    }

    fn find(&mut self, nvml: &'n Nvml) -> Result<(), NvmlError> {
        let count = nvml.device_count()?;
        if count == 0 {
            return Err(NvmlError::NotFound);
        }
        for index in 0..count {
            let device = nvml.device_by_index(index)?;
            let gpu = GpuId(index as u16);
            self.teller.tell(Told::Gpu(gpu, describe(&device)));
            self.lookers.push(Looker::new(gpu, device));
        }
        Ok(())
    }
}

/// Names and ids; what a GPU does not say stays empty.
fn describe(device: &Device<'_>) -> Found {
    let divided = device.mig_mode().is_ok_and(|mode| mode.current == 1);
    let count = if divided { device.mig_device_count().unwrap_or(0) } else { 0 };
    let mig = (0..count).filter_map(|index| device.mig_device_by_index(index).ok()?.uuid().ok()).collect();
    Found { name: device.name().unwrap_or_default(), uuid: device.uuid().unwrap_or_default(), mig }
}

/// One GPU, and what was last seen on it.
struct Looker<'n> {
    gpu: GpuId,
    device: Device<'n>,
    seen: HashMap<u32, Seen>,
    /// The list as it was last read, if everybody on it is in `seen`, and how many exits had been seen before.
    last: Option<(Vec<ProcessInfo>, u64)>,
    looked: Option<Instant>,
    read_at: Option<Instant>,
    reading: Option<Reading>,
    core_at: Option<Instant>,
    core_stamp: u64,
    /// The largest context of those seen last, for those whose start was not seen.
    context: u64,
    mps: Mps,
    lost_until: Option<Instant>,
}

/// What is known of MPS on one GPU. Until a client of it was seen, it is asked about less often.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Mps {
    Unused,
    Used,
    Unknown,
}

struct Seen {
    process: Process,
    meter: Meter,
    listed: bool,
    /// How often in a row NVML had no sample of it.
    unsampled: usize,
}

impl<'n> Looker<'n> {
    fn new(gpu: GpuId, device: Device<'n>) -> Self {
        Self {
            gpu,
            device,
            seen: HashMap::new(),
            last: None,
            looked: None,
            read_at: None,
            reading: None,
            core_at: None,
            core_stamp: 0,
            context: 0,
            mps: Mps::Unused,
            lost_until: None,
        }
    }

    fn look(&mut self, period: Span, teller: &Teller, exits: &Exits) -> Result<(), NvmlError> {
        let now = clock::now();
        if self.lost_until.is_some_and(|until| now < until) {
            return Ok(());
        }
        let gap = self.looked.map(|looked| now.since(looked));
        let late = gap.is_none_or(|gap| gap > LOOK_GAP_MAX.max(period.scaled(LOOKS_LEFT_OUT_MAX, 1)));
        self.list_processes(now, late, teller, exits)?;
        self.looked = Some(now);
        if self.read_is_due(now) {
            self.read_at = Some(now);
            self.read(teller)?;
        }
        if self.core_at.is_none_or(|at| now.since(at) >= CORE_EVERY) {
            self.core_at = Some(now);
            self.read_core(teller);
        }
        if self.lost_until.take().is_some() {
            eprintln!("notice: GPU {} answers again", self.gpu.0);
            teller.tell(Told::Gpu(self.gpu, describe(&self.device)));
        }
        Ok(())
    }

    /// One line when it is lost, and another look later.
    fn lose(&mut self, teller: &Teller, error: &NvmlError) {
        if self.lost_until.is_none() {
            eprintln!(
                "warning: GPU {} does not answer any more, and the agent goes on without: {error}",
                self.gpu.0
            );
            teller.tell(Told::GpuLost(self.gpu));
        }
        self.lost_until = Some(clock::now() + Span::from_micros(AGAIN_AFTER.as_micros() as i64));
        (self.looked, self.last) = (None, None);
    }

    fn list_processes(
        &mut self,
        now: Instant,
        late: bool,
        teller: &Teller,
        exits: &Exits,
    ) -> Result<(), NvmlError> {
        let exits_seen = exits.seen();
        let listed = self.listed(now)?;
        if self.last.as_ref().is_some_and(|(last, seen)| *seen == exits_seen && *last == listed) {
            return Ok(());
        }
        // Contexts have settled since somebody last looked.
        let contexts = self.seen.values().filter_map(|seen| seen.meter.context(now));
        self.context = contexts.max().unwrap_or(self.context);
        self.seen.values_mut().for_each(|seen| seen.listed = false);
        let mut all_met = true;
        for line in &listed {
            let known = exits.known(line.pid);
            let here = self.seen.get(&line.pid).is_some_and(|seen| Some(seen.process) == known);
            if !here && !self.meet(line.pid, known, now, late, teller, exits) {
                all_met = false;
                continue;
            }
            let Some(seen) = self.seen.get_mut(&line.pid) else { continue };
            seen.listed = true;
            if let UsedGpuMemory::Used(figure) = line.used_gpu_memory
                && let Some(bytes) = seen.meter.read(now, figure)
            {
                teller.tell_at(now, Told::Memory(seen.process, self.gpu, bytes));
            }
        }
        self.part(now, teller, exits);
        self.last = all_met.then_some((listed, exits_seen));
        Ok(())
    }

    /// Who is on the GPU, clients of MPS included.
    fn listed(&mut self, now: Instant) -> Result<Vec<ProcessInfo>, NvmlError> {
        let mut processes = self.device.running_compute_processes()?;
        if self.mps != Mps::Unknown && (self.mps == Mps::Used || self.read_is_due(now)) {
            match self.device.mps_running_compute_processes() {
                Ok(clients) if clients.is_empty() => {}
                Ok(clients) => {
                    self.mps = Mps::Used;
                    processes.extend(clients);
                }
                // Old drivers do not know the question; asking again gets no other answer.
                Err(_) => self.mps = Mps::Unknown,
            }
        }
        Ok(processes)
    }

    /// A process that was not on this GPU before. False if it is gone already: NVML drops processes late.
    fn meet(
        &mut self,
        pid: u32,
        known: Option<Process>,
        now: Instant,
        late: bool,
        teller: &Teller,
        exits: &Exits,
    ) -> bool {
        let Some((process, home)) = process::look(pid) else { return false };
        if known != Some(process) && !exits.watch(process) {
            return false;
        }
        let meter = if late { Meter::late(self.context) } else { Meter::default() };
        self.seen.insert(pid, Seen { process, meter, listed: true, unsampled: 0 });
        teller.tell_at(now, Told::Process(process, self.gpu, home, late))
    }

    /// Processes that are not listed any more have no memory here; those that exited are forgotten.
    fn part(&mut self, now: Instant, teller: &Teller, exits: &Exits) {
        let gpu = self.gpu;
        self.seen.retain(|pid, seen| {
            if !seen.listed
                && let Some(bytes) = seen.meter.read(now, 0)
            {
                teller.tell_at(now, Told::Memory(seen.process, gpu, bytes));
            }
            seen.listed || exits.known(*pid) == Some(seen.process)
        });
    }

    fn read_is_due(&self, now: Instant) -> bool {
        self.read_at.is_none_or(|at| now.since(at) >= READING_EVERY)
    }

    fn read(&mut self, teller: &Teller) -> Result<(), NvmlError> {
        // What comes about while the driver answers may be missing in the answer: it is from before.
        let at = clock::now();
        let memory = self.device.memory_info()?;
        // A GPU divided by MIG has no figure for its core.
        let core = self.device.utilization_rates().map_or(0, |rates| rates.gpu);
        let reading = Reading {
            core_permille: (core.min(100) * 10) as u16,
            memory_used: memory.used,
            memory_total: memory.total,
        };
        // While somebody is on the GPU, that nothing changed is news, too: `fifo` waits for a fresh look.
        if self.reading.replace(reading) != Some(reading) || !self.seen.is_empty() {
            teller.tell_at(at, Told::Reading(self.gpu, reading));
        }
        Ok(())
    }

    /// NVML keeps a ring of samples, some old, some with figures beyond 100 %: those are left out.
    fn read_core(&mut self, teller: &Teller) {
        if self.seen.is_empty() {
            return;
        }
        let samples = match self.device.process_utilization_stats(self.core_stamp) {
            Ok(samples) => samples,
            Err(NvmlError::NotFound) => Vec::new(),
            Err(_) => return,
        };
        let patience = UNSAMPLED_MIN + self.seen.len() / SAMPLES_PER_LOOK;
        self.seen.values_mut().for_each(|seen| seen.unsampled += 1);
        for sample in samples.into_iter().filter(|sample| sample.sm_util <= 100) {
            self.core_stamp = self.core_stamp.max(sample.timestamp);
            if let Some(seen) = self.seen.get_mut(&sample.pid) {
                seen.unsampled = 0;
                teller.tell(Told::Core(seen.process, self.gpu, (sample.sm_util * 10) as u16));
            }
        }
        for seen in self.seen.values().filter(|seen| seen.unsampled == patience) {
            teller.tell(Told::Core(seen.process, self.gpu, 0));
        }
    }
}
