//! The thread that waits for the driver: one order after another, what came of each back as news.

use crate::clock;
use crate::facts::exits::Exits;
use crate::facts::{Teller, Told};
use crate::run::or_abort;
use crate::swap::Spawn;
use crate::swap::mover::{Mover, Why};
use sched::Process;
use std::io;
use std::sync::mpsc::{Receiver, Sender, channel};
use wire::swap::{Room, State, SwappedLine};

/// What is to be done.
#[derive(Debug)]
pub(super) enum SwapOrder {
    /// Keep it from the GPU.
    Lock(Process),
    /// It is locked and runs: move its memory out.
    Take(Process, Vec<Room>),
    /// Bring it back.
    Back(Process, Vec<Room>),
    /// An earlier agent left it, or the guard may have brought it back: look where it is.
    Find(SwappedLine),
}

/// What came of an order.
#[derive(Debug)]
pub struct Moved {
    pub(crate) process: Process,
    pub(crate) what: What,
}

#[derive(Debug)]
pub(crate) enum What {
    /// It is locked, and has that much room on the GPUs. Before it can be moved it must run.
    Locked(Vec<Room>),
    /// Its memory is out.
    Out,
    /// It is on the GPU, and runs.
    Back,
    /// It was found to be out.
    Found(SwappedLine),
    /// It could not be done.
    Failed(Why),
}

/// The sending end.
pub(crate) struct Swapper(Sender<SwapOrder>);

impl Swapper {
    pub(crate) fn start(spawn: Spawn, teller: Teller, exits: Exits) -> io::Result<Self> {
        let (sender, orders) = channel();
        let mover = Mover::new(spawn);
        let work = move || or_abort(|| carry_out(&orders, mover, &teller, &exits));
        std::thread::Builder::new().name("swapper".to_owned()).spawn(work)?;
        Ok(Self(sender))
    }

    /// In the place of the thread, somebody who hears the orders.
    #[cfg(test)]
    pub(super) fn to(orders: Sender<SwapOrder>) -> Self {
        Self(orders)
    }

    pub(super) fn give(&self, order: SwapOrder) {
        // A thread that is gone has taken the agent's process with it.
        let _ = self.0.send(order);
    }
}

fn carry_out(orders: &Receiver<SwapOrder>, mut mover: Mover, teller: &Teller, exits: &Exits) {
    for order in orders {
        let (process, what) = match order {
            SwapOrder::Lock(process) => {
                (process, mover.lock(process).map_or_else(What::Failed, What::Locked))
            }
            SwapOrder::Take(process, rooms) => (process, take(&mut mover, process, &rooms)),
            SwapOrder::Back(process, rooms) => {
                (process, mover.bring_back(process, &rooms).map_or_else(What::Failed, |()| What::Back))
            }
            SwapOrder::Find(line) => find(&mut mover, exits, line),
        };
        // At the end nobody listens any more: the guard looks after what is out.
        if !teller.tell_at(clock::now(), Told::Moved(Moved { process, what })) {
            return;
        }
    }
}

/// Moves memory out; once more, with another helper, if the first died or hung at it.
fn take(mover: &mut Mover, process: Process, rooms: &[Room]) -> What {
    let again = |mover: &mut Mover| mover.lock(process).and_then(|rooms| mover.take(process, &rooms));
    let taken = match mover.take(process, rooms) {
        Err(Why::Broken(words)) => {
            eprintln!("warning: {words}; another is started, and process {} tried again", process.pid);
            again(mover)
        }
        taken => taken,
    };
    taken.map_or_else(What::Failed, |()| What::Out)
}

/// Where something is that was not our doing. What was half-way out comes back at once: that takes no room.
fn find(mover: &mut Mover, exits: &Exits, line: SwappedLine) -> (Process, What) {
    let process = Process { pid: line.pid, started: line.started };
    let what = match mover.state(process) {
        Ok(State::Running) => What::Back,
        Ok(State::Locked) => {
            mover.bring_back(process, &line.rooms).map_or_else(What::Failed, |()| What::Back)
        }
        Ok(State::Out) if exits.known(line.pid) == Some(process) || exits.watch(process) => What::Found(line),
        Ok(State::Out) => What::Failed(Why::Gone),
        Ok(State::Lost) => What::Failed(Why::Lost("the driver has given it up".to_owned())),
        Err(why) => What::Failed(why),
    };
    (process, what)
}
