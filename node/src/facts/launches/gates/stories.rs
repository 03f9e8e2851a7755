//! Gates with the kernel's real tables. What the kernel's programs would write is written here by hand, at the moments that matter.

mod bounded;

use super::super::layout::{Event, Standing, kind};
use super::super::listener::Listener;
use super::super::{Launches, Shared};
use super::*;
use crate::facts::Teller;
use crate::facts::exits::Exits;
use crate::facts::process::look;
use rustix::event::{EventfdFlags, eventfd};
use std::process::{Child, Command};
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::mpsc::{channel, sync_channel};
use std::sync::{Arc, Mutex};

const GPU: GpuId = GpuId(0);
const BOUND_NS: u64 = 1_000_000;
/// A moment far enough ahead that no test takes so long.
const MINUTE_NS: u64 = 60_000_000_000;

/// A server that is urgent, and a batch that yields to it.
struct Stage {
    gates: Gates,
    server: Process,
    batch: Process,
    _children: Children,
    _programs: super::super::kernel::Programs,
    _folder: tempfile::TempDir,
}

impl Stage {
    fn new() -> Self {
        let (programs, tables, _) = super::super::kernel::load().expect("probes, as root");
        let folder = tempfile::tempdir().expect("a folder");
        let mut gates = Gates::new(tables, Roll::new(folder.path()), BOUND_NS);
        let children = [(); 2].map(|()| Command::new("sleep").arg("600").spawn().expect("a program"));
        let [server, batch] = [0, 1].map(|child: usize| look(children[child].id()).expect("a process").0);
        for (process, role) in [(server, Role::Urgent), (batch, Role::Yields)] {
            assert!(gates.enlist(process, GPU, process == server, None));
            gates.set_covered(process, true);
            gates.set_roles([(process, (GPU, role))]);
        }
        Self { gates, server, batch, _children: Children(children), _programs: programs, _folder: folder }
    }

    /// The kernel stops the batch at a launch, and writes that down.
    fn stops_the_batch(&mut self, since: u64) -> Event {
        self.stops_the_batch_at(kind::STAND, since)
    }

    fn stops_the_batch_at(&mut self, why: u32, since: u64) -> Event {
        let mut standing = Standing::default();
        (standing.since, standing.began, standing.why) = (since, since, why);
        self.gates.tables.standing.insert(self.batch.pid, standing, 0).expect("room");
        standing.event(self.batch.pid)
    }

    /// The server has urgent work on the GPU.
    fn has_urgent_work(&mut self, since: u64) {
        let bit = self.gates.tracked[&self.server.pid].orders.urgent_bit;
        self.changes_the_gpu(|state| (state.urgent, state.urgent_since) = (bit, since));
    }

    /// Somebody has so much in flight.
    fn has_in_flight(&mut self, work_ns: u64) {
        let now = ns_now();
        self.changes_the_gpu(|state| (state.flown, state.due) = (now, now + work_ns));
    }

    /// What a process has on the GPU, and has had.
    fn has(&mut self, process: Process, what: impl FnOnce(&mut Span)) {
        let slot = self.gates.slot(process).expect("a slot");
        let mut span = Span::idle(slot);
        what(&mut span);
        self.gates.tables.spans.set(slot, span, 0).expect("a slot");
    }

    /// The batch was stopped, is let go, and stands on for what others have in flight.
    fn is_bound(&mut self) {
        let batch = self.batch;
        self.has_in_flight(MINUTE_NS);
        let stop = self.stops_the_batch(ns_now());
        self.gates.take(&stop);
        self.gates.open(batch).expect("a gate");
        assert!(self.is_stopped());
    }

    fn changes_the_gpu(&mut self, change: impl FnOnce(&mut super::super::layout::GpuState)) {
        let mut state = self.gates.tables.gpu_states.get(&0, 0).expect("a GPU");
        change(&mut state);
        self.gates.tables.gpu_states.set(0, state, 0).expect("a GPU");
    }

    /// The batch gets the signal that the kernel's program would send.
    fn signals_the_batch(&self, signal: Signal) {
        let pid = Pid::from_raw(self.batch.pid.cast_signed()).expect("a pid");
        rustix::process::kill_process(pid, signal).expect("a signal");
        let start = std::time::Instant::now();
        while crate::facts::process::is_stopped(self.batch) != (signal == Signal::STOP)
            || (signal == Signal::CONT && !crate::facts::process::is_asleep(self.batch))
        {
            assert!(start.elapsed().as_secs() < 30, "it should obey {signal:?}");
            std::thread::yield_now();
        }
    }

    fn is_stopped(&self) -> bool {
        self.gates.tables.standing.get(&self.batch.pid, 0).is_ok()
    }

    /// What is to be told, of whom.
    fn told(&mut self) -> Vec<(u32, Work)> {
        self.gates.outbox.drain(..).map(|(_, process, work)| (process.pid, work)).collect()
    }
}

/// The programs, which end with the story.
struct Children([Child; 2]);

impl Drop for Children {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

#[test]
fn a_stop_is_told_once_by_its_event_or_by_a_look_through_the_list() {
    let mut stage = Stage::new();
    let batch = stage.batch;
    let stop = stage.stops_the_batch(ns_now());
    stage.gates.sweep(false);
    assert_eq!(stage.told(), [(batch.pid, Work::AtLaunch)]);
    assert_eq!(stage.gates.take(&stop), None, "it was found in the list");
    stage.gates.resume(batch.pid).expect("a signal");
    let stop = stage.stops_the_batch(ns_now());
    assert_eq!(stage.gates.take(&stop), Some((batch, Work::AtLaunch)));
    stage.gates.sweep(false);
    assert_eq!(stage.told(), []);
}

/// It must run for its memory to be moved.
#[test]
fn whose_memory_is_moved_stands_nowhere_but_at_its_next_allocation_and_not_for_long() {
    let mut stage = Stage::new();
    let batch = stage.batch;
    let stop = stage.stops_the_batch(ns_now());
    stage.gates.take(&stop);
    stage.gates.set_moves(batch, true);
    assert!(!stage.is_stopped(), "it stood as the move began");
    let stop = stage.stops_the_batch(ns_now());
    assert_eq!(stage.gates.take(&stop), Some((batch, Work::Submitted)), "it launches once it is back");
    assert!(!stage.is_stopped(), "urgent work came");
    stage.gates.shut(batch, Gate::Allocations).expect("a gate");
    let now = ns_now();
    let stop = stage.stops_the_batch_at(kind::STAND_ALLOCATION, now);
    assert_eq!(stage.gates.take(&stop), Some((batch, Work::AtAllocation(0))));
    stage.gates.act(now);
    assert!(stage.is_stopped(), "it may be back");
    assert_eq!(stage.gates.act(now + 1_000_000_000).len(), 1, "it is told that it goes on");
    assert!(!stage.is_stopped(), "it is not");
    stage.gates.set_moves(batch, false);
    let now = ns_now();
    let stop = stage.stops_the_batch_at(kind::STAND_ALLOCATION, now);
    assert_eq!(stage.gates.take(&stop), Some((batch, Work::AtAllocation(0))));
    stage.gates.act(now + 1_000_000_000);
    assert!(stage.is_stopped(), "it is held");
}

/// Another of its threads had done something since, so whoever decides took no notice.
#[test]
fn who_stands_for_long_is_told_of_once_more_be_its_gate_open_or_shut() {
    for shut in [false, true] {
        let mut stage = Stage::new();
        let batch = stage.batch;
        if shut {
            stage.gates.shut(batch, Gate::Launches).expect("a gate");
        }
        stage.signals_the_batch(Signal::STOP);
        let stop = stage.stops_the_batch(ns_now() - FORGOTTEN_NS - 1);
        assert_eq!(stage.gates.take(&stop), Some((batch, Work::AtLaunch)));
        stage.gates.sweep(false);
        assert_eq!(stage.told(), [(batch.pid, Work::AtLaunch)]);
        stage.gates.sweep(false);
        assert_eq!(stage.told(), [], "once more is enough");
    }
}

/// None of its threads calls the driver a second time, so the kernel's program notices nothing.
#[test]
fn who_was_stopped_and_is_found_asleep_was_resumed_by_somebody_else() {
    let mut stage = Stage::new();
    let batch = stage.batch;
    stage.signals_the_batch(Signal::STOP);
    let since = ns_now() - FORGOTTEN_NS - 1;
    let stop = stage.stops_the_batch(since);
    stage.gates.take(&stop);
    stage.gates.sweep(false);
    stage.told();
    stage.signals_the_batch(Signal::CONT);
    stage.gates.sweep(false);
    assert_eq!(stage.told(), [(batch.pid, Work::Leaked), (batch.pid, Work::Drained)], "it has nothing there");
    stage.gates.sweep(false);
    let noticed = Event { at: ns_now(), pid: batch.pid, kind: kind::LEAK, value: u64::from(kind::STAND) };
    assert_eq!((stage.told(), stage.gates.take(&noticed)), (vec![], None), "once for each stop");
    let stop = stage.stops_the_batch(since + 1);
    stage.gates.take(&stop);
    assert_eq!(stage.gates.take(&noticed), Some((batch, Work::Leaked)));
    stage.gates.sweep(false);
    assert_eq!(stage.told(), [], "nor does it stand there");
    let stop = stage.stops_the_batch(since + 2);
    stage.gates.take(&stop);
    stage.has(batch, |span| (span.pending, span.launches) = (1, 1));
    stage.gates.sweep(false);
    assert_eq!(stage.told(), [(batch.pid, Work::Leaked)], "its work is there still");
}

#[test]
fn who_is_let_go_as_urgent_work_comes_is_told_of_once_more_and_then_runs_beside_it() {
    let mut stage = Stage::new();
    let batch = stage.batch;
    let stop = stage.stops_the_batch(ns_now());
    stage.gates.take(&stop);
    stage.has_urgent_work(ns_now());
    stage.gates.open(batch).expect("a gate");
    assert_eq!(stage.told(), [(batch.pid, Work::AtLaunch)], "it is let go from before that work");
    assert!(stage.is_stopped());
    stage.gates.open(batch).expect("a gate");
    assert_eq!(stage.told(), [(batch.pid, Work::Submitted)], "it is wanted beside");
    assert!(!stage.is_stopped());
}

#[test]
fn what_the_kernel_could_not_tell_is_told_by_what_it_has_written_down() {
    let mut stage = Stage::new();
    let (server, batch) = (stage.server, stage.batch);
    let launch = Event { at: ns_now(), pid: batch.pid, kind: kind::LAUNCH, value: 0 };
    assert_eq!(stage.gates.take(&launch), Some((batch, Work::Submitted)));
    stage.has(server, |span| (span.pending, span.launches) = (1, 1));
    stage.gates.make_up_for_dropped(ns_now());
    assert_eq!(stage.told(), [], "nothing was dropped");
    stage.gates.tables.dropped.set(0, 7, 0).expect("a counter");
    stage.gates.make_up_for_dropped(ns_now());
    let mut told = stage.told();
    told.retain(|(_, work)| !matches!(work, Work::Memory(_)));
    told.sort_by_key(|(pid, _)| *pid != server.pid);
    assert_eq!(told, [(server.pid, Work::Submitted), (batch.pid, Work::Drained)]);
    stage.gates.make_up_for_dropped(ns_now());
    assert_eq!(stage.told(), [], "once is enough");
}

/// What is missed of whom, in the kernel's own words.
#[test]
fn what_is_made_up_for_is_what_the_kernel_would_have_told() {
    let mut stage = Stage::new();
    let (server, batch) = (stage.server, stage.batch);
    let mut drops = 0;
    let mut missed = |stage: &mut Stage, of: Process| {
        drops += 1;
        stage.gates.tables.dropped.set(0, drops, 0).expect("a counter");
        stage.gates.make_up_for_dropped(ns_now());
        let works = stage.told().into_iter().filter(|(pid, _)| *pid == of.pid).map(|(_, work)| work);
        works.collect::<Vec<Work>>()
    };
    let nothing = Work::Memory(0);
    // Its first launch was stopped, and it was let go: it is on the GPU, and the kernel counts it at its next call.
    let stop = stage.stops_the_batch(ns_now());
    stage.gates.take(&stop);
    stage.gates.resume(batch.pid).expect("a signal");
    stage.has(batch, |span| (span.pending, span.stands) = (1, 1));
    assert_eq!(missed(&mut stage, batch), [nothing]);
    stage.has(batch, |_| ());
    assert_eq!(missed(&mut stage, batch), [Work::Drained, nothing]);
    // A request is a task from its input on.
    stage.has(server, |span| span.pending = 1);
    assert_eq!(missed(&mut stage, server), [Work::Copies, nothing]);
    stage.has(server, |span| (span.pending, span.launches) = (1, 1));
    assert_eq!(missed(&mut stage, server), [Work::Submitted, nothing]);
    stage.has(server, |span| span.pending = 1);
    assert_eq!(missed(&mut stage, server), [Work::Drained, Work::Copies, nothing], "it is another one");
    stage.has(server, |_| ());
    assert_eq!(missed(&mut stage, server), [Work::Drained, nothing]);
    // Somebody resumed it, and it launched.
    let leak = Event { at: ns_now(), pid: batch.pid, kind: kind::LEAK, value: 0 };
    stage.gates.take(&leak);
    assert_eq!(missed(&mut stage, batch), [Work::Drained, nothing]);
    // Of the others copies are nobody's business.
    stage.has(batch, |span| span.pending = 1);
    assert_eq!(missed(&mut stage, batch), [nothing]);
    // It stands at an allocation, and does not go on because of what it has.
    let stop = stage.stops_the_batch_at(kind::STAND_ALLOCATION, ns_now());
    stage.gates.take(&stop);
    assert_eq!(missed(&mut stage, batch), []);
    stage.gates.resume(batch.pid).expect("a signal");
    // One whose allocations alone are seen.
    stage.gates.set_covered(batch, false);
    stage.has(batch, |span| (span.pending, span.launches, span.memory) = (1, 1, 0));
    assert_eq!(missed(&mut stage, batch), [nothing]);
}

/// An agent that hangs keeps nobody standing: its guard must know of each who stands, for whatever reason.
#[test]
fn who_stands_is_somebody_the_guard_must_know_of_and_once_let_launch_it_launches() {
    let mut stage = Stage::new();
    let (server, batch) = (stage.server, stage.batch);
    let stop = stage.stops_the_batch(ns_now());
    stage.gates.take(&stop);
    stage.gates.set_roles([(server, (GPU, Role::Plain)), (batch, (GPU, Role::Plain))]);
    assert!(!stage.gates.somebody_yields());
    assert!(stage.gates.somebody_stands());
    stage.gates.let_launch(batch);
    assert_eq!(stage.told(), [(batch.pid, Work::Submitted)]);
    assert!(!stage.gates.somebody_stands());
}

/// Its probes were to leave when it was held anew.
#[test]
fn who_is_held_is_not_let_go_with_probes_that_were_to_leave() {
    let mut stage = Stage::new();
    let batch = stage.batch;
    assert!(stage.gates.may_leave(batch));
    stage.gates.shut(batch, Gate::Launches).expect("a gate");
    assert!(!stage.gates.dismiss(batch) && stage.gates.covers(batch));
}

/// It may have launched before there were probes on its launches.
#[test]
fn a_context_of_which_no_word_has_come_is_one_all_the_same() {
    let mut stage = Stage::new();
    let pid = stage.batch.pid;
    let mut says = |what: u32, at: u64| {
        stage.gates.tables.told.insert([pid, what], at, 0).expect("room");
        stage.gates.has_made_a_context(pid)
    };
    assert!(!says(kind::INIT, 10));
    assert!(says(kind::CONTEXT, 20));
    assert!(!says(kind::INIT, 30), "the pid is another process's now");
}

/// Its stop was struck off before the kernel had sent the signal.
#[test]
fn who_stands_and_is_in_no_list_is_let_go() {
    let mut stage = Stage::new();
    let batch = stage.batch;
    let pid = Pid::from_raw(batch.pid.cast_signed()).expect("a pid");
    let eventually_stands = |stands: bool| {
        let start = std::time::Instant::now();
        while crate::facts::process::is_stopped(batch) != stands {
            assert!(start.elapsed().as_secs() < 30, "whether it stands should be {stands}");
            std::thread::yield_now();
        }
    };
    rustix::process::kill_process(pid, Signal::STOP).expect("a signal");
    eventually_stands(true);
    let event = Event { at: ns_now(), pid: batch.pid, kind: kind::STAND, value: 0 };
    assert_eq!(stage.gates.take(&event), None);
    eventually_stands(false);
}

/// The thread that hears from the kernel lives longer than its owner.
#[test]
fn an_owner_that_has_let_all_go_for_good_is_not_alive_again() {
    let stage = Stage::new();
    let batch = stage.batch.pid;
    let shared = Arc::new(Shared {
        gates: Mutex::new(stage.gates),
        starts: Mutex::default(),
        wake: eventfd(0, EventfdFlags::NONBLOCK).expect("a file"),
        beat_ns: AtomicU64::new(ns_now()),
        asked: AtomicBool::new(false),
    });
    let (sender, _news) = sync_channel(8);
    let teller = Teller(sender);
    let exits = Exits::start(teller.clone()).expect("a thread");
    let listener = Listener { shared: Arc::clone(&shared), teller, exits };
    let lease = || shared.gates().tables.control.get(&0, 0).expect("a lease").lease;
    listener.tick(ns_now());
    assert!(lease() > ns_now());
    let mut standing = Standing::default();
    (standing.since, standing.why) = (ns_now(), kind::STAND);
    shared.gates().tables.standing.insert(batch, standing, 0).expect("room");
    let over = Arc::new(Mutex::new(channel().1));
    Launches { shared: Arc::clone(&shared), orders: channel().0, over }.let_all_go();
    assert!(shared.gates().tables.standing.get(&batch, 0).is_err());
    listener.tick(ns_now());
    assert!(lease() < ns_now(), "who lives on does not renew it");
}
