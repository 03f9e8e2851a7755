//! The helper's own life: orders in, one a line; the driver's answers out. It ends when nobody is left to order.
//!
//! It lives long because the first call costs seconds: the driver attaches to every GPU. One restore at a time happens on a machine's
//! GPUs, whoever orders it: room that two of them saw would be taken by one, and the other process would be broken for good.

use super::driver::Driver;
use crate::facts::gpu;
use crate::facts::process::is_still;
use nvml_wrapper::Nvml;
use nvml_wrapper::enums::device::UsedGpuMemory;
use sched::Process;
use std::fs::File;
use std::io::{self, BufRead, Write};
use std::path::{Path, PathBuf};
use wire::swap::{Answer, Order, Room};

/// The file that is locked while memory is moved back.
const LOCK: &str = "swap.lock";

/// Carries out orders until there are no more.
pub fn run(driver: Option<&Path>, run_dir: &Path) -> io::Result<()> {
    // Ctrl-C ends the agent; what is under way here is finished first.
    let _ = rustix::process::setsid();
    let mut helper =
        Helper { folder: driver.map(Path::to_owned), run_dir: run_dir.to_owned(), driver: None, nvml: None };
    let mut out = io::stdout().lock();
    for line in io::stdin().lock().lines() {
        let answer = match serde_json::from_str::<Order>(&line?) {
            Ok(order) => helper.carry_out(&order).unwrap_or_else(Answer::Refused),
            Err(error) => Answer::Refused(format!("that is no order: {error}")),
        };
        let answer = serde_json::to_string(&answer).map_err(io::Error::other)?;
        writeln!(out, "{answer}")?;
        out.flush()?;
    }
    Ok(())
}

struct Helper {
    folder: Option<PathBuf>,
    run_dir: PathBuf,
    /// Loaded when it is first needed.
    driver: Option<Driver>,
    nvml: Option<Nvml>,
}

impl Helper {
    fn carry_out(&mut self, order: &Order) -> Result<Answer, String> {
        match *order {
            Order::Measure { pid } => return Ok(Answer::Rooms(self.rooms_of(pid)?)),
            Order::Lock { pid, started }
            | Order::Checkpoint { pid, started }
            | Order::Restore { pid, started, .. }
            | Order::Unlock { pid, started }
            | Order::State { pid, started } => {
                if !is_still(Process { pid, started }) {
                    return Ok(Answer::Gone);
                }
            }
        }
        match *order {
            Order::Lock { pid, .. } => self.driver()?.lock(pid)?,
            Order::Checkpoint { pid, .. } => self.driver()?.checkpoint(pid)?,
            Order::Restore { pid, ref rooms, .. } => return self.restore(pid, rooms),
            Order::Unlock { pid, .. } => self.driver()?.unlock(pid)?,
            Order::State { pid, .. } => return Ok(Answer::State(self.driver()?.state(pid)?)),
            Order::Measure { .. } => {}
        }
        Ok(Answer::Done)
    }

    /// A restore that runs out of memory breaks the process for good: so it is looked first, with nobody else at it.
    fn restore(&mut self, pid: u32, rooms: &[Room]) -> Result<Answer, String> {
        let _alone = alone(&self.run_dir).map_err(|error| format!("{LOCK} cannot be locked: {error}"))?;
        for &(gpu, need) in rooms {
            let device = self.nvml()?.device_by_index(u32::from(gpu)).map_err(|error| error.to_string())?;
            let free = device.memory_info().map_err(|error| error.to_string())?.free;
            if free < need {
                let words =
                    format!("it takes {} MiB on GPU {gpu}, and {} MiB are free", need >> 20, free >> 20);
                return Ok(Answer::NoRoom(words));
            }
        }
        self.driver()?.restore(pid)?;
        Ok(Answer::Done)
    }

    /// What a process has on each GPU, as NVML counts it.
    fn rooms_of(&mut self, pid: u32) -> Result<Vec<Room>, String> {
        let nvml = self.nvml()?;
        let mut rooms = Vec::new();
        for index in 0..nvml.device_count().map_err(|error| error.to_string())? {
            let device = nvml.device_by_index(index).map_err(|error| error.to_string())?;
            let listed = device.running_compute_processes().map_err(|error| error.to_string())?;
            for line in listed.iter().filter(|line| line.pid == pid) {
                let UsedGpuMemory::Used(bytes) = line.used_gpu_memory else {
                    return Err(format!("NVML does not say how much memory it has on GPU {index}"));
                };
                rooms.push((index as u16, bytes));
            }
        }
        if rooms.is_empty() { Err("NVML does not list it".to_owned()) } else { Ok(rooms) }
    }

    fn driver(&mut self) -> Result<&Driver, String> {
        if self.driver.is_none() {
            self.driver = Some(Driver::load(self.folder.as_deref())?);
        }
        self.driver.as_ref().ok_or_else(|| "no driver".to_owned())
    }

    fn nvml(&mut self) -> Result<&Nvml, String> {
        if self.nvml.is_none() {
            self.nvml = Some(gpu::load(self.folder.as_deref()).map_err(|error| gpu::explain(&error).0)?);
        }
        self.nvml.as_ref().ok_or_else(|| "no NVML".to_owned())
    }
}

fn alone(run_dir: &Path) -> io::Result<File> {
    std::fs::create_dir_all(run_dir)?;
    let lock = File::create(run_dir.join(LOCK))?;
    rustix::fs::flock(&lock, rustix::fs::FlockOperation::LockExclusive)?;
    Ok(lock)
}
