//! The threads that do what takes time: freezing, and pausing through Docker. Orders in, outcomes back as news.

use super::freezer::{Freezer, LOOK_FIRST, LOOK_MAX};
use super::pause;
use crate::clock;
use crate::facts::{Teller, Told};
use crate::run::{Connect, or_abort};
use sched::{ContainerId, Instant};
use std::collections::VecDeque;
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
        let named = |name: &str| std::thread::Builder::new().name(name.to_owned());
        let (told, connect, told_too) = (teller.clone(), connect.clone(), teller.clone());
        let threads = vec![
            named("freezer").spawn(move || or_abort(|| freeze_and_thaw(&to_cgroups, &told)))?,
            named("pause").spawn(move || or_abort(|| pause_and_unpause(&to_docker, &connect, &told_too)))?,
        ];
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

/// Freezes and thaws, all that were ordered together at once: each takes as long as its slowest process, and none waits for another.
fn freeze_and_thaw(orders: &Receiver<Order>, teller: &Teller) {
    let mut waiting: VecDeque<Order> = VecDeque::new();
    while let Some(first) = waiting.pop_front().or_else(|| orders.recv().ok()) {
        let mut batch = vec![first];
        waiting.extend(orders.try_iter());
        // Orders of one container are carried out one after another.
        while let Some(next) =
            waiting.pop_front_if(|next| batch.iter().all(|order| order.container != next.container))
        {
            batch.push(next);
        }
        let mut changes: Vec<_> =
            batch.iter().map(|order| (order, order.freezer.begin(order.freeze))).collect();
        let mut look = LOOK_FIRST;
        loop {
            changes.retain_mut(|(order, change)| match change.look() {
                None => true,
                Some(outcome) => {
                    let words = |error: io::Error| format!("{}: {error}", order.freezer.folder().display());
                    tell(teller, order, outcome.map_err(words));
                    false
                }
            });
            if changes.is_empty() {
                break;
            }
            std::thread::sleep(look);
            look = (look * 2).min(LOOK_MAX);
        }
    }
}

fn pause_and_unpause(orders: &Receiver<Order>, connect: &Connect, teller: &Teller) {
    for order in orders {
        let id = order.through_docker.as_deref().unwrap_or_default();
        let outcome = if order.freeze {
            pause::pause(connect, id, &order.freezer)
        } else {
            pause::unpause(connect, id, Some(&order.freezer))
        };
        tell(teller, &order, outcome);
    }
}

fn tell(teller: &Teller, order: &Order, outcome: Result<(), String>) {
    let done = Done { number: order.number, container: order.container, at: clock::now(), outcome };
    // At the end nobody listens any more, and what was ordered is carried out all the same.
    teller.tell_at(done.at, Told::Done(done));
}
