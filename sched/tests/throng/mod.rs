//! A GPU with many tasks on it, for measurements: every fourth is busy or waits, all have a deadline or a
//! history.

use sched::{
    ContainerId, Deadline, Fact, GpuId, Instant, Mode, Process, Reading, Scheduler, Settings, Span, Terms,
    policy,
};

pub(crate) const GPU: GpuId = GpuId(0);

/// The process of one task.
pub(crate) fn process(number: u32) -> Process {
    Process { pid: number, started: u64::from(number) }
}

/// A scheduler that knows `tasks` tasks on one GPU, and has decided about them.
pub(crate) fn throng(policy: &str, tasks: u32) -> (Scheduler, Instant) {
    let policy = policy::by_name(policy).expect("the name is from the list");
    let mut scheduler = Scheduler::new(Settings::default(), policy);
    let mut now = Instant::from_micros(1_000_000);
    let reading = Reading { core_permille: 1000, memory_used: 0, memory_total: u64::MAX / 4 };
    scheduler.learn(now, Fact::Gpu { gpu: GPU, reading });
    for number in 0..tasks {
        now = now + Span::from_micros(50);
        let deadline =
            (number % 5 != 0).then(|| Span::from_millis(i64::from(900_000 + number * 37 % 600_000)));
        let terms = Terms {
            deadline: deadline.and_then(Deadline::new),
            mode: Mode::Process,
            expect: Some(Span::from_millis(i64::from(100 + number % 400))),
            memory: Some(1 << 20),
            hold_max: None,
            swap: false,
            managed: true,
        };
        let (container, process) = (ContainerId(number), process(number));
        scheduler.learn(now, Fact::Container { container, terms, paused: false });
        let (launches_seen, approximate) = (true, false);
        scheduler.learn(
            now,
            Fact::Process { process, container: Some(container), gpu: GPU, launches_seen, approximate },
        );
        if number % 4 == 0 {
            scheduler.learn(now, Fact::Submitted { process, gpu: GPU });
        }
    }
    scheduler.decide(now);
    (scheduler, now)
}

/// One launch and one drain of one task: the two facts that come most often.
pub(crate) fn launch_and_drain(scheduler: &mut Scheduler, now: Instant, number: u32) {
    let process = process(number);
    scheduler.learn(now, Fact::Submitted { process, gpu: GPU });
    scheduler.learn(now, Fact::Drained { process, gpu: GPU });
}
