//! Probes come and go: for the first calls of every process always, for the work of one process while somebody needs to know.
//!
//! A thread of its own puts them in. Taking them out waits for every processor (0.1 s), so others do that: where programs come and go
//! all the time, the next one must not wait for the last one's.

use super::kernel::{Link, Programs};
use super::library::{self, Identity, Library};
use super::symbols::{Set, Symbols};
use super::{Seen, Shared};
use crate::facts::{Teller, Told};
use sched::Process;
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Probes that nobody needs any more stay for this long: whoever shares a GPU on and off would wait for them again and again.
const LEAVE_AFTER: Duration = Duration::from_secs(1);
/// How often to look for the driver's library while there is none.
const AGAIN_AFTER: Duration = Duration::from_secs(2);

/// How many probes are taken out at once: each only waits.
const TAKERS_OUT: usize = 4;

/// In how many files first calls are probed. Any image may bring one of its own, and these probes stay: of more files, programs are seen when NVML
/// lists them.
const STARTS_MAX: usize = 256;

/// Threads that take out what they are sent, and then let go of `over`.
fn takers_out(over: &Sender<()>) -> std::io::Result<Sender<Link>> {
    let (out, links) = channel::<Link>();
    let links = Arc::new(Mutex::new(links));
    for _ in 0..TAKERS_OUT {
        let (links, over) = (Arc::clone(&links), over.clone());
        // The next is taken from the queue by one at a time, and dropped by all at once.
        let next = move || links.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let take = move || {
            while let Ok(link) = next() {
                drop(link);
            }
            drop(over);
        };
        std::thread::Builder::new().name("probes-out".to_owned()).spawn(take)?;
    }
    Ok(out)
}

/// What is to be done.
#[derive(Clone, Copy, Debug)]
pub(super) enum Order {
    /// Probes for one process: which, or none.
    Cover(Process, Option<Set>),
    /// A process that was not seen to start: its library may be one that nobody knows yet.
    Met(Process),
    /// A process exited.
    Gone(Process),
    /// The agent ends, and no probe is to stay.
    End,
}

/// The probes of one process.
struct Probed {
    set: Set,
    /// Nothing was missed before they were there.
    fresh: bool,
    /// One for each of its libraries.
    links: Vec<Link>,
}

/// The thread's own.
pub(super) struct Attacher {
    pub(super) programs: Programs,
    pub(super) shared: Arc<Shared>,
    pub(super) teller: Teller,
    pub(super) driver: Option<PathBuf>,
    symbols: HashMap<Identity, Symbols>,
    starts: HashMap<Identity, Link>,
    probed: HashMap<Process, Probed>,
    leaving: HashMap<Process, Instant>,
    /// Links that nobody needs any more.
    out: Sender<Link>,
}

impl Attacher {
    pub(super) fn new(
        programs: Programs,
        shared: Arc<Shared>,
        teller: Teller,
        driver: Option<PathBuf>,
        over: &Sender<()>,
    ) -> std::io::Result<Self> {
        Ok(Self {
            programs,
            shared,
            teller,
            driver,
            symbols: HashMap::new(),
            starts: HashMap::new(),
            probed: HashMap::new(),
            leaving: HashMap::new(),
            out: takers_out(over)?,
        })
    }

    /// Probes the first calls into the host's library. Why not, if not.
    pub(super) fn probe_the_host(&mut self) -> Result<(), String> {
        let Some(path) = library::of_the_host(self.driver.as_deref()) else {
            return Err("the driver's libcuda.so.1 was not found".to_owned());
        };
        let library = Library::at(&path).map_err(|error| error.to_string());
        let probed = library.and_then(|library| self.probe_starts(&library));
        probed.map_err(|why| format!("{} cannot be probed: {why}", path.display()))
    }

    pub(super) fn run(mut self, orders: &Receiver<Order>) {
        loop {
            let next = self.leaving.values().min().map(|at| at.saturating_duration_since(Instant::now()));
            let idle = if self.starts.is_empty() { AGAIN_AFTER } else { Duration::from_mins(1) };
            match orders.recv_timeout(next.unwrap_or(idle)) {
                Ok(Order::End) => return self.take_all_out(),
                Ok(order) => self.follow(order),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
            if self.starts.is_empty() {
                let _ = self.probe_the_host();
            }
            let now = Instant::now();
            let due: Vec<Process> =
                self.leaving.iter().filter(|(_, at)| **at <= now).map(|(process, _)| *process).collect();
            due.into_iter().for_each(|process| self.leave(process));
        }
    }

    fn follow(&mut self, order: Order) {
        match order {
            Order::Cover(process, Some(set)) => {
                self.leaving.remove(&process);
                match self.probed.get(&process).filter(|probed| probed.set == set) {
                    // It was said already that they would leave.
                    Some(probed) => {
                        self.teller.tell(Told::Probes(Seen::Covered(process, probed.fresh)));
                    }
                    None => self.cover(process, set),
                }
            }
            Order::Cover(process, None) => {
                if self.probed.contains_key(&process) {
                    self.leaving.insert(process, Instant::now() + LEAVE_AFTER);
                } else {
                    self.leave(process);
                }
            }
            Order::Met(process) => {
                for library in Library::all_of(process.pid).into_iter().flatten() {
                    let _ = self.probe_starts(&library);
                }
            }
            Order::Gone(process) => {
                self.leaving.remove(&process);
                let probed = self.probed.remove(&process);
                self.take_out(probed);
            }
            Order::End => {}
        }
    }

    fn cover(&mut self, process: Process, set: Set) {
        // Struck off meanwhile: nobody needs it any more.
        let Some(slot) = self.shared.gates().slot(process) else { return };
        match self.attach(process, slot, set) {
            Ok(links) => {
                let fresh = self.shared.cover(process, set == Set::Work);
                // The old ones go after the new ones are there: whoever is held stays held.
                let before = self.probed.insert(process, Probed { set, fresh, links });
                self.take_out(before);
                self.teller.tell(Told::Probes(Seen::Covered(process, fresh)));
            }
            Err(why) => {
                // Most often because it is gone already.
                if crate::facts::process::is_still(process) {
                    eprintln!("warning: the launches of process {} cannot be seen: {why}", process.pid);
                }
            }
        }
    }

    /// All of its libraries, or none: who is believed to be seen must be.
    fn attach(&mut self, process: Process, slot: u32, set: Set) -> Result<Vec<Link>, String> {
        let libraries = Library::all_of(process.pid).map_err(|error| error.to_string())?;
        libraries.iter().map(|library| self.attach_to(library, process, slot, set)).collect()
    }

    fn attach_to(
        &mut self,
        library: &Library,
        process: Process,
        slot: u32,
        set: Set,
    ) -> Result<Link, String> {
        let symbols = self.symbols(library)?;
        let (entries, returns) = (symbols.entries(set).with_slot(slot), symbols.returns(set).with_slot(slot));
        let link = self.programs.attach(&library.path(), Some(process.pid), &entries, &returns);
        link.map_err(|error| error.to_string())
    }

    /// Takes out the probes of a process that lives, unless somebody needs them again: then word of that is on its way.
    fn leave(&mut self, process: Process) {
        self.leaving.remove(&process);
        let dismissed = self.shared.gates().dismiss(process);
        self.shared.wake();
        if dismissed {
            // Dropped here, though it takes a while: before new ones come, the old ones must be out.
            drop(self.probed.remove(&process));
        }
    }

    fn take_out(&self, probed: Option<Probed>) {
        for link in probed.into_iter().flat_map(|probed| probed.links) {
            let _ = self.out.send(link);
        }
    }

    fn take_all_out(&mut self) {
        let probed = self.probed.drain().flat_map(|(_, probed)| probed.links);
        for link in probed.chain(self.starts.drain().map(|(_, link)| link)) {
            let _ = self.out.send(link);
        }
    }

    fn probe_starts(&mut self, library: &Library) -> Result<(), String> {
        let identity = library.identity().map_err(|error| error.to_string())?;
        if self.starts.contains_key(&identity) || self.starts.len() >= STARTS_MAX {
            return Ok(());
        }
        let symbols = self.symbols(library)?;
        let (entries, returns) = (symbols.entries(Set::Starts), symbols.returns(Set::Starts));
        let link = self.programs.attach(&library.path(), None, &entries, &returns);
        self.starts.insert(identity, link.map_err(|error| error.to_string())?);
        if self.starts.len() == STARTS_MAX {
            eprintln!(
                "warning: programs came with {STARTS_MAX} different libcuda: the starts of those with others are seen late"
            );
        }
        Ok(())
    }

    fn symbols(&mut self, library: &Library) -> Result<&Symbols, String> {
        match self.symbols.entry(library.identity().map_err(|error| error.to_string())?) {
            std::collections::hash_map::Entry::Occupied(known) => Ok(known.into_mut()),
            std::collections::hash_map::Entry::Vacant(new) => Ok(new.insert(library.symbols()?)),
        }
    }
}
