//! The device's rules as stories: what is submitted when, and when it is done. No clock runs: time is an argument.

use crate::costs::{CONTEXT_BYTES, CONTEXT_NS, INIT_NS, INPUT_BYTES_PER_NS, Settings};
use crate::message::{INPUT, NON_BLOCKING, Request, stream_on};
use crate::status;
use crate::world::World;

const MS: u64 = 1_000_000;
const GIB: u64 = 1 << 30;

/// A world in which every process has one connection, by the number of its pid.
struct Story {
    world: World,
    now_ns: u64,
}

impl Story {
    fn with_devices(devices: usize) -> Self {
        let (listed_after_ns, unlisted_after_ns) = (140 * MS, 100 * MS);
        let settings = Settings { devices, memory_bytes: 8 * GIB, listed_after_ns, unlisted_after_ns };
        Self { world: World::new(settings, 0), now_ns: 0 }
    }

    /// A process that has a context on device 0.
    fn with_processes(pids: &[u32]) -> Self {
        let mut story = Self::with_devices(1);
        for pid in pids {
            story.world.connect(u64::from(*pid), *pid);
            assert_eq!(story.asked(*pid, Request::Init { visible: 1 }), (status::SUCCESS, INIT_NS));
            assert_eq!(
                story.asked(*pid, Request::CreateContext { device: 0 }),
                (status::SUCCESS, CONTEXT_NS)
            );
        }
        story
    }

    fn sent(&mut self, pid: u32, request: Request) {
        self.world.advance(self.now_ns);
        self.world.request(u64::from(pid), request);
    }

    /// Asks, lets time pass until the answer comes, and says how long that took.
    fn asked(&mut self, pid: u32, request: Request) -> (u32, u64) {
        self.sent(pid, request);
        let start_ns = self.now_ns;
        let (answer, at_ns) = self.next_answer();
        assert_eq!(answer.0, pid);
        (answer.1, at_ns - start_ns)
    }

    /// The next answer to anybody: to whom, the status, and when.
    fn next_answer(&mut self) -> ((u32, u32), u64) {
        for _ in 0..1_000 {
            self.world.advance(self.now_ns);
            if let Some((connection, words)) = self.world.take_replies().pop() {
                return ((connection as u32, words[0] as u32), self.now_ns);
            }
            self.now_ns = self.world.next_wake_ns().expect("somebody waits").max(self.now_ns);
        }
        panic!("no answer");
    }

    fn kernel(&mut self, pid: u32, stream: u64, milliseconds: u64) {
        self.sent(pid, Request::Kernel { stream, work_ns: milliseconds * MS });
    }

    fn listed(&mut self) -> Vec<(u64, u64)> {
        self.world.advance(self.now_ns);
        let words = self.world.snapshot(0).unwrap();
        words[4..].as_chunks::<2>().0.iter().map(|[pid, bytes]| (*pid, *bytes)).collect()
    }
}

fn about(span_ns: u64, expected_ns: u64) {
    assert!(span_ns.abs_diff(expected_ns) <= 10, "{span_ns} is not about {expected_ns}");
}

#[test]
fn a_process_alone_has_the_whole_device() {
    let mut story = Story::with_processes(&[7]);
    for _ in 0..10 {
        story.kernel(7, 0, 5);
    }
    let (status, span) = story.asked(7, Request::FinishAll { device: 0 });
    assert_eq!(status, status::SUCCESS);
    about(span, 50 * MS);
}

#[test]
fn two_processes_each_take_two_and_a_quarter_times_as_long() {
    let mut story = Story::with_processes(&[7, 8]);
    let start = story.now_ns;
    for pid in [7, 8] {
        story.kernel(pid, 0, 100);
        story.sent(pid, Request::FinishAll { device: 0 });
    }
    let (_, at) = story.next_answer();
    about(at - start, 225 * MS);
}

#[test]
fn what_a_process_queued_is_done_though_it_never_asks_again() {
    let mut story = Story::with_processes(&[7, 8]);
    story.kernel(7, 0, 100);
    // The first process is stopped here. The second shares the device with its kernel, and then has it alone.
    story.kernel(8, 0, 200);
    let (_, span) = story.asked(8, Request::FinishAll { device: 0 });
    about(span, 225 * MS + 100 * MS);
    assert_eq!(story.asked(7, Request::Query { stream: 0 }), (status::SUCCESS, 0));
}

#[test]
fn streams_share_a_turn_and_the_default_stream_waits_for_all() {
    let mut story = Story::with_processes(&[7]);
    let (one, two) = (stream_on(0, 20), stream_on(0, 21));
    let aside = stream_on(0, 0x22 | NON_BLOCKING);
    story.kernel(7, one, 10);
    story.kernel(7, two, 10);
    story.kernel(7, 0, 10);
    story.kernel(7, one, 10);
    let (_, span) = story.asked(7, Request::Finish { stream: 0 });
    about(span, 30 * MS);
    story.kernel(7, aside, 10);
    let (_, span) = story.asked(7, Request::Finish { stream: aside });
    about(span, 20 * MS);
    assert_eq!(story.asked(7, Request::Query { stream: one }), (status::SUCCESS, 0));
}

#[test]
fn an_event_happens_in_its_turn_and_another_stream_waits_for_it() {
    let mut story = Story::with_processes(&[7]);
    let (one, two) = (stream_on(0, 20), stream_on(0, 21));
    story.sent(7, Request::Record { stream: one, event: 1 });
    story.kernel(7, one, 10);
    story.sent(7, Request::Record { stream: one, event: 2 });
    story.sent(7, Request::Await { stream: two, event: 2 });
    story.kernel(7, two, 5);
    assert_eq!(story.asked(7, Request::QueryEvent { event: 2 }).0, status::NOT_READY);
    about(story.asked(7, Request::Finish { stream: two }).1, 15 * MS);
    story.sent(7, Request::Elapsed { from: 1, to: 2 });
    let replies = story.world.take_replies();
    about(replies[0].1[1], 10 * MS);
}

#[test]
fn copies_share_the_link_when_there_are_many() {
    let pids: Vec<u32> = (1..=10).collect();
    let mut story = Story::with_processes(&pids);
    let bytes = 1_000_000_000;
    let alone = (bytes as f64 / INPUT_BYTES_PER_NS) as u64;
    let copy = Request::Copy { stream: 0, bytes, direction: INPUT };
    story.sent(1, copy);
    about(story.asked(1, Request::FinishAll { device: 0 }).1, alone);
    pids.iter().for_each(|pid| story.sent(*pid, copy));
    about(story.asked(1, Request::FinishAll { device: 0 }).1, 2 * alone);
}

#[test]
fn a_queue_that_is_full_lets_the_next_launch_wait() {
    let mut story = Story::with_processes(&[7]);
    for _ in 0..10 {
        story.kernel(7, 0, 1);
    }
    about(story.asked(7, Request::Throttle { queued: 4 }).1, 6 * MS);
}

#[test]
fn memory_runs_out_and_comes_back() {
    let mut story = Story::with_processes(&[7, 8]);
    let allocate = |address, bytes| Request::Allocate { device: 0, address, bytes };
    assert_eq!(story.asked(7, allocate(1, 7 * GIB)).0, status::SUCCESS);
    assert_eq!(story.asked(8, allocate(1, GIB)).0, status::OUT_OF_MEMORY);
    assert_eq!(story.asked(7, Request::Free { address: 2 }).0, status::INVALID_VALUE);
    story.world.disconnect(7);
    assert_eq!(story.asked(8, allocate(1, 7 * GIB)).0, status::SUCCESS);
    story.world.exited(8);
    assert_eq!(story.world.snapshot(0).unwrap()[1], 0, "nothing is used when nobody is there");
}

#[test]
fn nvml_lists_a_process_late_and_drops_it_late() {
    let mut story = Story::with_devices(1);
    story.world.connect(7, 7);
    story.sent(7, Request::Init { visible: 1 });
    story.now_ns = 139 * MS;
    assert_eq!(story.listed(), []);
    story.now_ns = 140 * MS;
    assert_eq!(story.listed(), [(7, CONTEXT_BYTES)]);
    story.now_ns = INIT_NS;
    story.listed();
    story.world.take_replies();
    story.asked(7, Request::CreateContext { device: 0 });
    story.asked(7, Request::Allocate { device: 0, address: 1, bytes: GIB });
    assert_eq!(story.listed(), [(7, CONTEXT_BYTES + GIB)]);
    story.world.exited(7);
    story.now_ns += 99 * MS;
    assert_eq!(story.listed(), [(7, CONTEXT_BYTES)]);
    // Another process gets the same pid before the line of the first is gone.
    story.world.connect(8, 7);
    story.now_ns += MS;
    assert_eq!(story.listed(), []);
}

#[test]
fn a_process_is_listed_on_the_device_that_it_uses() {
    let mut story = Story::with_devices(2);
    story.world.connect(7, 7);
    story.asked(7, Request::Init { visible: 3 });
    assert_eq!(story.listed(), []);
    story.asked(7, Request::CreateContext { device: 1 });
    assert_eq!(story.listed(), []);
    assert_eq!(story.world.snapshot(1).unwrap()[4..], [7, CONTEXT_BYTES]);
}

#[test]
fn a_checkpoint_takes_the_memory_off_the_device_and_a_restore_brings_it_back() {
    let mut story = Story::with_processes(&[7, 9]);
    let allocate = |address, bytes| Request::Allocate { device: 0, address, bytes };
    story.asked(7, allocate(1, 4 * GIB));
    story.kernel(7, 0, 10);
    assert_eq!(story.asked(9, Request::Checkpoint { pid: 7 }).0, status::ILLEGAL_STATE);
    assert_eq!(story.asked(9, Request::Lock { pid: 7 }).0, status::SUCCESS);
    // What it submits while it is locked waits.
    story.kernel(7, 0, 10);
    story.sent(7, Request::FinishAll { device: 0 });
    let (status, span) = story.asked(9, Request::Checkpoint { pid: 7 });
    assert_eq!(status, status::SUCCESS);
    assert!((2_000 * MS..4_000 * MS).contains(&span), "4.5 GiB take three seconds: {span}");
    assert_eq!(story.listed(), [(9, CONTEXT_BYTES)]);
    assert_eq!(story.asked(9, allocate(1, 7 * GIB)).0, status::SUCCESS);
    story.asked(9, Request::Free { address: 1 });
    assert_eq!(story.asked(9, Request::Restore { pid: 7 }).0, status::SUCCESS);
    assert_eq!(story.listed().len(), 2);
    let before = story.now_ns;
    assert_eq!(story.asked(9, Request::Unlock { pid: 7 }).0, status::SUCCESS);
    let ((pid, _), at) = story.next_answer();
    assert_eq!(pid, 7);
    about(at - before, 10 * MS);
}

#[test]
fn a_restore_without_room_breaks_the_process_for_good() {
    let mut story = Story::with_processes(&[7, 9]);
    let allocate = |address, bytes| Request::Allocate { device: 0, address, bytes };
    story.asked(7, allocate(1, 4 * GIB));
    story.asked(9, Request::Lock { pid: 7 });
    story.asked(9, Request::Checkpoint { pid: 7 });
    story.asked(9, allocate(1, 6 * GIB));
    assert_eq!(story.asked(9, Request::Restore { pid: 7 }).0, status::OUT_OF_MEMORY);
    assert_eq!(story.asked(7, Request::FinishAll { device: 0 }).0, status::LAUNCH_FAILED);
    story.world.exited(7);
    assert_eq!(story.world.snapshot(0).unwrap()[1], 6 * GIB + CONTEXT_BYTES);
}

#[test]
fn a_lost_device_tells_everybody_who_waits() {
    let mut story = Story::with_processes(&[7, 9]);
    story.kernel(7, 0, 1_000);
    story.sent(7, Request::FinishAll { device: 0 });
    story.sent(9, Request::Lose { device: 0 });
    let told: Vec<_> = story.world.take_replies();
    assert!(told.contains(&(7, vec![u64::from(status::ECC_UNCORRECTABLE)])), "{told:?}");
    assert!(story.world.snapshot(0).is_none());
    assert_eq!(story.asked(7, Request::FinishAll { device: 0 }).0, status::ECC_UNCORRECTABLE);
    assert_eq!(story.asked(9, Request::Recover { device: 0 }).0, status::SUCCESS);
    assert_eq!(story.asked(7, Request::FinishAll { device: 0 }).0, status::SUCCESS);
}

#[test]
fn a_monitor_is_told_what_changes_and_nothing_else() {
    let mut story = Story::with_processes(&[7]);
    story.world.connect(9, 9);
    story.sent(9, Request::Subscribe { device: 0 });
    let told = |story: &mut Story| {
        story.world.advance(story.now_ns);
        story.world.publish();
        let news = story.world.take_replies().into_iter().filter(|(connection, _)| *connection == 9);
        news.map(|(_, words)| (words[2], words[3])).collect::<Vec<_>>()
    };
    let used = CONTEXT_BYTES;
    assert_eq!(told(&mut story), [(used, 0)]);
    assert_eq!(told(&mut story), []);
    story.sent(7, Request::Allocate { device: 0, address: 1, bytes: GIB });
    assert_eq!(told(&mut story), [(used + GIB, 0)]);
    story.kernel(7, 0, 1_000);
    assert_eq!(told(&mut story), []);
    // The device wakes at the end of each window while something runs.
    for _ in 0..3 {
        story.now_ns = story.world.next_wake_ns().unwrap();
        told(&mut story);
    }
    assert_eq!(story.world.snapshot(0).unwrap()[2], 100);
    story.now_ns += 10_000 * MS;
    assert_eq!(told(&mut story), [(used + GIB, 0)]);
    assert_eq!(story.world.next_wake_ns(), None, "it sleeps when nothing will change");
}

#[test]
fn no_request_whatever_brings_the_device_down() {
    let mut story = Story::with_devices(2);
    (1..=4).for_each(|pid| story.world.connect(u64::from(pid), pid));
    // A generator of numbers that look random, the same in every run.
    let mut seed = 1_u64;
    let mut next = |below: u64| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) % below
    };
    for _ in 0..100_000 {
        let field = |next: &mut dyn FnMut(u64) -> u64| match next(8) {
            0 => u64::MAX,
            1 => stream_on(next(3), next(4)),
            2 => next(1 << 31),
            _ => next(4),
        };
        let words = [next(30), field(&mut next), field(&mut next), field(&mut next)];
        let pid = next(4) as u32 + 1;
        match next(100) {
            0 => story.world.exited(pid),
            1 => story.world.connect(u64::from(pid), pid),
            2 => story.world.disconnect(u64::from(pid)),
            _ => {}
        }
        if let Some(request) = Request::decode(&words) {
            story.sent(pid, request);
        }
        story.now_ns += next(10 * MS);
        story.world.advance(story.now_ns);
        story.world.publish();
        story.world.next_wake_ns();
        story.world.take_replies();
    }
    (1..=4).for_each(|pid| story.world.exited(pid));
    assert!((0..2).all(|device| story.world.devices[device].used_bytes == 0));
}
