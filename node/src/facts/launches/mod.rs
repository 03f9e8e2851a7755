//! The probes tier: GPU work to the microsecond, seen from the kernel, and the gate that stops it.
//!
//! Every process's first call into the driver is seen. The launches of a process are probed only while somebody needs to know: it
//! shares its GPU with another that may be held, or each of its requests is a task. A process alone on its GPU has none on its launches.
//!
//! In reading order: `symbols` (which functions), `library` (of which file), `layout`, `kernel` and `threads` (the programs and tables, and whether they see everything),
//! `attach` (probes come and go), `roll`, `slots`, `turnstile` and `gates` (who is probed, is stopped, and goes on), `words` (what is told before what), and `listener`, the thread that hears
//! from the kernel.

mod attach;
#[cfg(test)]
mod called;
mod gates;
mod kernel;
mod layout;
mod library;
mod listener;
mod roll;
mod slots;
mod symbols;
mod threads;
mod turnstile;
mod words;

use super::exits::Exits;
use super::{Home, Teller, process};
use crate::run::or_abort;
pub(crate) use layout::{CONTROL_BYTES, LEASE_OVER, STANDING_BYTES};
pub(crate) use roll::{forget, let_go};

use attach::{Attacher, Order};
use gates::Gates;
use listener::Listener;
use roll::Roll;
use rustix::event::eventfd;
use rustix::fd::OwnedFd;
use rustix::time::{ClockId, clock_gettime};
use sched::scheduler::Role;
use sched::task::Gate;
use sched::{GpuId, Instant, Process};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How long word of a process's first call may take to get here.
const STARTING_MAX: Duration = Duration::from_secs(5);

/// How long an agent that ends waits for its probes to be out.
const OUT_WITHIN: Duration = Duration::from_secs(3);

/// What a process did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// It began to copy: work, but none that a gate stops.
    Copies,
    /// It launched, having had nothing on the GPU.
    Submitted,
    /// All its work is done.
    Drained,
    /// It was stopped at a launch.
    AtLaunch,
    /// It was stopped at an allocation of that many bytes.
    AtAllocation(u64),
    /// It was let on from an allocation, and will stop at its launch.
    Resumed,
    /// It has that many bytes allocated.
    Memory(u64),
    /// It went on from a launch at which it had been stopped: somebody resumed it.
    Leaked,
    /// It had been stopped at an allocation, and asked for another.
    LeakedAtAllocation,
}

/// What probes say, of processes and of themselves.
#[derive(Debug)]
pub enum Seen {
    /// A process made its first call into the driver.
    Init(Process, Home),
    /// It has a context: it will use a GPU.
    Context(Process),
    /// Its work is seen from here on; whether it cannot have done any before.
    Covered(Process, bool),
    /// What it did.
    Work(Process, Work),
    /// Whatever was seen until now has been told.
    Heard,
    /// Whoever waits for the owner to answer hears that it is alive.
    Beat,
}

/// How much of a process is probed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Coverage {
    /// Its allocations.
    Memory,
    /// Everything that concerns others on the GPU.
    Work,
    /// Each of its requests is a task, from its input on.
    Requests,
}

/// What the threads share.
struct Shared {
    gates: Mutex<Gates>,
    /// Who made its first call, and whether it has a context: from then on it can launch.
    starts: Mutex<HashMap<u32, bool>>,
    /// Wakes the thread that hears from the kernel.
    wake: OwnedFd,
    /// When the owner last said that it is alive.
    beat_ns: AtomicU64,
    /// The owner wants to know whether it has heard everything.
    asked: AtomicBool,
}

/// The probes, as the rest of the agent uses them.
#[derive(Clone)]
pub struct Launches {
    shared: Arc<Shared>,
    orders: Sender<Order>,
    /// Nobody says anything here; it ends when all probes are out.
    over: Arc<Mutex<Receiver<()>>>,
}

impl Launches {
    /// Loads the programs, probes first calls, and starts the threads. Why not, in words, if not.
    pub fn start(
        driver: Option<PathBuf>,
        bound_us: u64,
        run_dir: &Path,
        teller: &Teller,
        exits: &Exits,
    ) -> Result<Self, String> {
        let (programs, tables, ring) = kernel::load().map_err(|error| error.to_string())?;
        let wake = eventfd(0, rustix::event::EventfdFlags::CLOEXEC | rustix::event::EventfdFlags::NONBLOCK)
            .map_err(|error| error.to_string())?;
        let shared = Arc::new(Shared {
            gates: Mutex::new(Gates::new(tables, Roll::new(run_dir), bound_us * 1000)),
            starts: Mutex::new(HashMap::new()),
            wake,
            beat_ns: AtomicU64::new(ns_now()),
            asked: AtomicBool::new(false),
        });
        let (outside, over) = channel();
        let mut attacher = Attacher::new(programs, Arc::clone(&shared), teller.clone(), driver, &outside)
            .map_err(|error| error.to_string())?;
        drop(outside);
        attacher.probe_the_host()?;
        let (orders, received) = channel();
        let threads = || std::thread::Builder::new();
        let listener = Listener { shared: Arc::clone(&shared), teller: teller.clone(), exits: exits.clone() };
        threads()
            .name("probes".to_owned())
            .spawn(move || or_abort(|| attacher.run(&received)))
            .map_err(|e| e.to_string())?;
        threads()
            .name("launches".to_owned())
            .spawn(move || or_abort(|| listener.run(ring)))
            .map_err(|e| e.to_string())?;
        Ok(Self { shared, orders, over: Arc::new(Mutex::new(over)) })
    }

    /// Whether this machine can do it: loads everything, and lets go of it again.
    pub fn examine(driver: Option<&Path>) -> Result<String, String> {
        kernel::load().map_err(|error| error.to_string())?;
        let path = library::of_the_host(driver).ok_or("the driver's libcuda.so.1 was not found")?;
        let library = library::Library::at(&path).map_err(|error| error.to_string());
        let symbols = library.and_then(|library| library.symbols());
        symbols.map_err(|why| format!("{} cannot be probed: {why}", path.display()))?;
        Ok(format!("on {}", path.display()))
    }

    /// Probes a process from now on, as far as is said; `Seen::Covered` comes when it is so. Those that have no context yet and
    /// are due at some moment make it in turn, whoever is due first.
    pub fn cover(&self, process: Process, gpu: GpuId, coverage: Option<Coverage>, due: Option<Instant>) {
        let set = coverage.map(|coverage| match coverage {
            Coverage::Memory => symbols::Set::Memory,
            Coverage::Work | Coverage::Requests => symbols::Set::Work,
        });
        let requests = coverage == Some(Coverage::Requests);
        let starts = due.filter(|_| self.shared.starts().get(&process.pid) == Some(&false));
        let mut gates = self.shared.gates();
        let goes_on = match set {
            Some(_) => gates.enlist(process, gpu, requests, starts),
            None => gates.may_leave(process),
        };
        drop(gates);
        if goes_on {
            let _ = self.orders.send(Order::Cover(process, set));
        }
    }

    /// A process uses a GPU that was not seen to start.
    pub fn meet(&self, process: Process) {
        // Of one that has just begun, word of its first call may be on its way. One that was there before us may call again, and has launched by then.
        if process::age(process) > STARTING_MAX {
            self.shared.starts().entry(process.pid).or_insert(true);
        }
        let _ = self.orders.send(Order::Met(process));
    }

    /// A process exited.
    pub fn forget(&self, process: Process) {
        self.shared.starts().remove(&process.pid);
        self.shared.gates().bury(process);
        self.shared.wake();
        let _ = self.orders.send(Order::Gone(process));
    }

    /// What each process is to the others on its GPU.
    pub fn set_roles(&self, roles: impl IntoIterator<Item = (Process, (GpuId, Role))>) {
        self.shared.gates().set_roles(roles);
        self.shared.wake();
    }

    /// Whether the process can be held at its launches.
    pub fn covers(&self, process: Process) -> bool {
        self.shared.gates().covers(process)
    }

    /// From the return of this call on, the process stops at its next launch, or allocation.
    pub fn shut(&self, process: Process, gate: Gate) -> std::io::Result<()> {
        let shut = self.shared.gates().shut(process, gate);
        self.shared.wake();
        shut
    }

    /// Lets the process run, whatever else is on the GPU.
    pub fn let_run(&self, process: Process) {
        self.shared.gates().let_go(process);
    }

    /// From here on, or no more, the process's memory is being moved: it runs, whoever else is on the GPU, for it cannot get there.
    pub fn set_moves(&self, process: Process, moves: bool) {
        self.shared.gates().set_moves(process, moves);
        self.shared.wake();
    }

    /// Lets the process run and launch, whatever else is on the GPU.
    pub fn let_launch(&self, process: Process) {
        self.shared.gates().let_launch(process);
        self.shared.wake();
    }

    /// Whether the kernel stops somebody by itself, before its first context, or where urgent work comes to its GPU; or has, and it stands on for
    /// another reason since.
    pub fn may_stop_somebody(&self) -> bool {
        let gates = self.shared.gates();
        gates.keeps_somebody_waiting() || gates.somebody_yields() || gates.somebody_stands()
    }

    /// Lets everybody make its first context at once.
    pub fn let_all_in(&self) {
        self.shared.gates().let_all_in();
    }

    /// Lets the process make the allocation it stands at; its gate stays shut.
    pub fn pass(&self, process: Process) -> std::io::Result<()> {
        self.shared.gates().pass(process)
    }

    /// Lets the process through, and lets it run if it stands.
    pub fn open(&self, process: Process) -> std::io::Result<()> {
        let opened = self.shared.gates().open(process);
        self.shared.wake();
        opened
    }

    /// Asks for everything that was seen until now; `Seen::Heard` comes after it.
    pub fn hear(&self) {
        self.shared.asked.store(true, Ordering::Release);
        self.shared.wake();
    }

    /// The owner is alive, and its orders count.
    pub fn beat(&self) {
        self.shared.beat_ns.store(ns_now(), Ordering::Relaxed);
    }

    /// How many events the kernel could not tell.
    pub fn dropped(&self) -> u64 {
        self.shared.gates().dropped()
    }

    /// The kernel's tables that a guard needs to open every gate.
    pub(crate) fn tables_for_the_guard(&self) -> std::io::Result<Vec<OwnedFd>> {
        self.shared.gates().tables_for_the_guard()
    }

    /// Writes down once more who is probed.
    pub fn call_the_roll(&self) {
        self.shared.gates().write_roll();
    }

    /// Lets everybody go, for good: the owner's orders count no more.
    pub fn let_all_go(&self) {
        let mut gates = self.shared.gates();
        self.shared.beat_ns.store(0, Ordering::Relaxed);
        gates.renew(0);
        gates.sweep(true);
    }

    /// Takes out all probes. A thread that is ended while it does so leaves some of them in programs that live on, so that is waited for.
    pub fn take_all_out(&self) {
        let _ = self.orders.send(Order::End);
        let over = self.over.lock().unwrap_or_else(PoisonError::into_inner);
        let _ = over.recv_timeout(OUT_WITHIN);
    }
}

impl Shared {
    fn gates(&self) -> MutexGuard<'_, Gates> {
        self.gates.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn starts(&self) -> MutexGuard<'_, HashMap<u32, bool>> {
        self.starts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wake(&self) {
        let _ = rustix::io::write(&self.wake, &1_u64.to_ne_bytes());
    }

    /// The probes of a process are in place. Whether it cannot have launched before that.
    fn cover(&self, process: Process, work: bool) -> bool {
        let started = self.starts().get(&process.pid) == Some(&false);
        let mut gates = self.gates();
        gates.set_covered(process, work);
        started && !gates.has_made_a_context(process.pid)
    }
}

/// Now, in the kernel's own unit.
fn ns_now() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    (time.tv_sec * 1_000_000_000 + time.tv_nsec).cast_unsigned()
}
