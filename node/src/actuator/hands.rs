//! The threads that do what takes time: freezing, and pausing through Docker. Orders in, outcomes back as news.

use super::freezer::Freezer;
use super::pause;
use crate::clock;
use crate::facts::{Teller, Told};
use crate::run::Connect;
use sched::{ContainerId, Instant};
use std::io;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

/// What is to be done to a container.
#[derive(Clone, Debug)]
pub(crate) struct Order {
    /// Counts up, so that an outcome is known from that of an order it overtook.
    pub(crate) number: u64,
    pub(crate) container: ContainerId,
    pub(crate) freezer: Freezer,
    /// Freeze, or thaw.
    pub(crate) freeze: bool,
    /// Through Docker, by this id.
    pub(crate) through_docker: Option<String>,
}

/// What came of an order.
#[derive(Debug)]
pub struct Done {
    pub(crate) number: u64,
    pub(crate) container: ContainerId,
    /// When it was so.
    pub(crate) at: Instant,
    pub(crate) outcome: Result<(), String>,
}

/// Two threads: one for cgroups, one for Docker, which may take seconds and must not keep the other waiting.
pub(crate) struct Hands {
    cgroups: Sender<Order>,
    docker: Sender<Order>,
    threads: Vec<JoinHandle<()>>,
}

impl Hands {
    pub(crate) fn start(connect: &Connect, teller: &Teller) -> io::Result<Self> {
        let (cgroups, to_cgroups) = channel();
        let (docker, to_docker) = channel();
        let start = |name: &str, orders: Receiver<Order>| {
            let (connect, teller) = (connect.clone(), teller.clone());
            std::thread::Builder::new().name(name.to_owned()).spawn(move || work(&orders, &connect, &teller))
        };
        let threads = vec![start("freezer", to_cgroups)?, start("pause", to_docker)?];
        Ok(Self { cgroups, docker, threads })
    }

    /// Orders of one container are carried out in order, as long as they go the same way.
    pub(crate) fn give(&self, order: Order) {
        let to = if order.through_docker.is_some() { &self.docker } else { &self.cgroups };
        // A thread that is gone has taken the agent's process with it.
        let _ = to.send(order);
    }

    /// Waits until everything that was ordered is done, and nothing more will be.
    pub(crate) fn finish(self) {
        drop((self.cgroups, self.docker));
        self.threads.into_iter().for_each(|thread| drop(thread.join()));
    }
}

fn work(orders: &Receiver<Order>, connect: &Connect, teller: &Teller) {
    for order in orders {
        let outcome = carry_out(&order, connect);
        let done = Done { number: order.number, container: order.container, at: clock::now(), outcome };
        // At the end nobody listens any more, and what was ordered is carried out all the same.
        teller.tell_at(done.at, Told::Done(done));
    }
}

fn carry_out(order: &Order, connect: &Connect) -> Result<(), String> {
    let in_words = |error: io::Error| format!("{}: {error}", order.freezer.folder().display());
    match (&order.through_docker, order.freeze) {
        (None, true) => order.freezer.freeze().map_err(in_words),
        (None, false) => order.freezer.thaw().map_err(in_words),
        (Some(id), true) => pause::pause(connect, id, &order.freezer),
        (Some(id), false) => pause::unpause(connect, id, Some(&order.freezer)),
    }
}
