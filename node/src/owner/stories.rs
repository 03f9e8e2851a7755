//! Stories about the owner: what it does when the scheduler fails.

use super::*;
use crate::facts::{Home, Labels, Teller};
use crate::ledger::Retention;
use crate::metrics::Metrics;
use crate::run::{Connect, new_owner};
use crate::{Config, Layer};
use sched::policy::{Judgement, Policy, Scene};
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

#[test]
fn a_policy_that_fails_is_replaced_on_its_gpu_and_only_there() {
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
    let now = clock::now();
    for gpu in [GpuId(0), GpuId(1)] {
        owner.scheduler.set_policy(now, gpu, Box::new(Fails));
    }
    let labels = Labels::from([("leeway.deadline".to_owned(), "10s".to_owned())]);
    for (pid, gpu) in [(1, 0), (2, 0), (3, 1)] {
        let home = Home::Cgroup(format!("/box-{pid}"), labels.clone());
        let process = sched::Process { pid: u32::MAX - pid, started: 1 };
        owner.take(now, Told::Process(process, GpuId(gpu), home, false));
    }
    owner.decide();
    assert_eq!(owner.failures, 1);
    assert_eq!(owner.scheduler.policy(GpuId(0)).name(), "none");
    assert_eq!(owner.scheduler.policy(GpuId(1)).name(), "fails");
    assert_eq!(owner.scheduler.tracker().tasks().count(), 3, "everything known is still known");
    owner.decide();
    assert_eq!(owner.failures, 1, "and it goes on");
    owner.actuator.finish();
    drop((owner, news));
    ledger.stop(writer);
}
