//! Stories about the owner: what it does when the scheduler fails, and what it makes of a process on several GPUs.

use super::*;
use crate::facts::launches::{Coverage, Seen, Work};
use crate::facts::{Home, Labels, Teller};
use crate::ledger::Retention;
use crate::metrics::Metrics;
use crate::run::{Connect, new_owner};
use crate::{Config, Layer};
use sched::Reason;
use sched::policy::{Candidate, Judgement, Policy, Scene};
use sched::task::Demand;
use std::sync::mpsc::sync_channel;

/// Fails whenever two tasks are there.
struct Fails;

impl Policy for Fails {
    fn name(&self) -> &'static str {
        "fails"
    }

    fn judge(&self, scene: &Scene<'_>) -> Judgement {
        assert!(scene.candidates.len() < 2, "two are too many");
        Judgement::default()
    }
}

/// An owner without Docker, GPU or guard, and what else goes with it.
fn with_owner(story: impl FnOnce(&mut Owner)) {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| Some(folder.path().join(name));
    let flags = Layer { run_dir: at("run"), state_dir: at("state"), table: at("table"), ..Layer::default() };
    let config: Config = flags.over(Layer::default()).unwrap();
    let (sender, news) = sync_channel(64);
    let connect: Connect = Arc::new(|| Err("no Docker here".to_owned()));
    let actuator = Actuator::start(&config.run_dir, &connect, &Teller(sender), false, None).unwrap();
    let (ledger, writer) =
        Ledger::start(folder.path().join("ledger.db"), Retention { days: 1, rows: 10 }).unwrap();
    let (asks, _asked) = tokio::sync::mpsc::channel(8);
    let notes = Notes::new(Arc::new(Metrics::new("here")));
    let mut owner =
        new_owner(&config, Arc::new(Feed::default()), ledger.clone(), notes, asks, None, actuator);
    story(&mut owner);
    owner.actuator.finish();
    drop((owner, news));
    ledger.stop(writer);
}

/// A process of a container with a deadline uses a GPU.
fn comes(owner: &mut Owner, number: u32, gpu: u16) -> sched::Process {
    let labels = Labels::from([("leeway.deadline".to_owned(), "10s".to_owned())]);
    let home = Home::Cgroup(format!("/box-{number}"), labels);
    let process = sched::Process { pid: u32::MAX - number, started: 1 };
    owner.take(clock::now(), Told::Process(process, GpuId(gpu), home, false));
    process
}

/// Nobody may run.
struct HoldsAll;

impl Policy for HoldsAll {
    fn name(&self) -> &'static str {
        "holds-all"
    }

    fn judge(&self, scene: &Scene<'_>) -> Judgement {
        let hold = |candidate: &Candidate<'_>| (candidate.task.id, Reason::DueSooner(candidate.task.id));
        Judgement { holds: scene.candidates.iter().map(hold).collect(), wake: None }
    }
}

#[test]
fn a_policy_that_fails_is_replaced_on_its_gpu_and_only_there() {
    with_owner(|owner| {
        for gpu in [GpuId(0), GpuId(1)] {
            owner.scheduler.set_policy(clock::now(), gpu, Box::new(Fails));
        }
        for (number, gpu) in [(1, 0), (2, 0), (3, 1)] {
            comes(owner, number, gpu);
        }
        owner.decide();
        assert_eq!(owner.failures, 1);
        assert_eq!(owner.scheduler.policy(GpuId(0)).name(), "none");
        assert_eq!(owner.scheduler.policy(GpuId(1)).name(), "fails");
        assert_eq!(owner.scheduler.tracker().tasks().count(), 3, "everything known is still known");
        owner.decide();
        assert_eq!(owner.failures, 1, "and it goes on");
    });
}

#[test]
fn a_process_on_two_gpus_stands_where_it_yields_and_where_it_is_held() {
    with_owner(|owner| {
        let process = comes(owner, 1, 1);
        comes(owner, 1, 0);
        let stands_on = |owner: &mut Owner| {
            owner.take(clock::now(), Told::Probes(Seen::Work(process, Work::AtLaunch)));
            let tasks = owner.scheduler.tracker().tasks();
            let mut gpus: Vec<u16> =
                tasks.filter(|task| task.demand == Demand::AtLaunch).map(|task| task.gpu.0).collect();
            gpus.sort_unstable();
            gpus
        };
        assert_eq!(stands_on(owner), [0], "it yields on the first");
        // Whatever comes of the order: it is given.
        owner.scheduler.set_policy(clock::now(), GpuId(1), Box::new(HoldsAll));
        owner.scheduler.decide(clock::now());
        assert_eq!(stands_on(owner), [0, 1]);
    });
}

/// Memory may be short because of somebody whom nobody may hold.
#[test]
fn who_is_held_keeps_its_probes_until_it_is_let_go_also_when_it_is_the_last() {
    with_owner(|owner| {
        let (held, other) = (comes(owner, 1, 0), comes(owner, 2, 0));
        let seen = |owner: &Owner| owner.wanted(clock::now()).0[&held].1;
        assert_eq!(seen(owner), Some(Coverage::Work), "it shares");
        owner.scheduler.set_policy(clock::now(), GpuId(0), Box::new(HoldsAll));
        owner.scheduler.decide(clock::now());
        owner.take(clock::now(), Told::ProcessGone(other));
        assert_eq!(seen(owner), Some(Coverage::Work), "it stands, and would go on without");
        assert!(owner.wanted(clock::now()).1.contains(&held));
        owner.learn(clock::now(), Fact::LetGo { process: held, gpu: GpuId(0) });
        assert_eq!(seen(owner), None);
    });
}

/// It has a little of its memory on the first GPU, and its work on the fourth.
#[test]
fn who_uses_several_gpus_shares_each_of_them() {
    with_owner(|owner| {
        let several = comes(owner, 1, 3);
        comes(owner, 1, 0);
        let alone = owner.wanted(clock::now()).0;
        assert_eq!(alone[&several], (Some(GpuId(0)), None), "it yields, or not, on the first");
        let other = comes(owner, 2, 3);
        let wanted = owner.wanted(clock::now()).0;
        assert_eq!([several, other].map(|process| wanted[&process].1), [Some(Coverage::Work); 2]);
    });
}

/// On which of them it allocates, its calls do not say.
#[test]
fn who_uses_several_gpus_has_on_each_what_a_look_there_shows() {
    with_owner(|owner| {
        let process = comes(owner, 1, 0);
        owner.take(clock::now(), Told::Probes(Seen::Covered(process, true)));
        let memory = |owner: &Owner| {
            let tasks = owner.scheduler.tracker().tasks().filter(|task| task.process == process);
            let mut memory: Vec<_> = tasks.map(|task| (task.gpu.0, task.memory)).collect();
            memory.sort_unstable();
            memory
        };
        owner.take(clock::now(), Told::Probes(Seen::Work(process, Work::Memory(6))));
        owner.take(clock::now(), Told::Memory(process, GpuId(0), 4));
        assert_eq!(memory(owner), [(0, 6)], "of one, its allocations are told sooner");
        let home = Home::Cgroup("/box-1".to_owned(), Labels::new());
        owner.take(clock::now(), Told::Process(process, GpuId(1), home, false));
        owner.take(clock::now(), Told::Memory(process, GpuId(1), 2));
        owner.take(clock::now(), Told::Probes(Seen::Work(process, Work::Memory(7))));
        assert_eq!(memory(owner), [(0, 4), (1, 2)]);
    });
}

/// Some programs ask the driver whether there is a GPU, and use none.
#[test]
fn who_only_asks_for_the_driver_shares_for_a_while() {
    with_owner(|owner| {
        let works = comes(owner, 1, 0);
        let asks = sched::Process { pid: u32::MAX - 2, started: 1 };
        let labels = Labels::from([("leeway.deadline".to_owned(), "10s".to_owned())]);
        let home = Home::Cgroup("/box-2".to_owned(), labels);
        let start = clock::now();
        owner.take(start, Told::Probes(Seen::Init(asks, home)));
        let wanted = |owner: &Owner, now| [works, asks].map(|process| owner.wanted(now).0[&process].1);
        assert_eq!(wanted(owner, start), [Some(Coverage::Work); 2]);
        assert_eq!(wanted(owner, start + Span::from_secs(60)), [None; 2]);
        let number = owner.registry.by_id("/box-2").expect("a container");
        assert!(owner.probed.starting_in().any(|container| container == number), "it is not forgotten");
    });
}

#[test]
fn word_of_a_process_after_word_of_its_end_is_old_news() {
    with_owner(|owner| {
        let process = comes(owner, 1, 0);
        owner.take(clock::now(), Told::ProcessGone(process));
        let home = Home::Cgroup("/box-1".to_owned(), Labels::new());
        owner.take(clock::now(), Told::Probes(Seen::Init(process, home)));
        owner.take(clock::now(), Told::Probes(Seen::Covered(process, true)));
        assert_eq!(owner.probed.start_of(process), None);
        assert!(!owner.probed.saw_all_of(process));
        assert!(owner.wanted(clock::now()).0.is_empty());
    });
}

#[test]
fn who_resumes_itself_is_told_of_once_on_however_many_gpus_it_is() {
    with_owner(|owner| {
        let process = comes(owner, 1, 1);
        comes(owner, 1, 0);
        owner.take(clock::now(), Told::Probes(Seen::Work(process, Work::Leaked)));
        let busy = owner.scheduler.tracker().tasks().filter(|task| task.demand == Demand::Busy).count();
        assert_eq!(busy, 2, "where its launch went nobody knows");
        let told = owner.feed.follow(0).0;
        let leaked = told.iter().filter(|(_, line)| line.event == "leaked").count();
        assert_eq!(leaked, 1, "{told:?}");
    });
}
