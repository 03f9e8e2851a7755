//! What the kernel's programs make of calls: of functions of ours, in the place of libcuda's.

use super::kernel::{Link, Programs, Tables, load};
use super::layout::{BOUNDED, Event, Orders, SLOT_SHIFT, Span, kind, operation as op, place};
use super::ns_now;
use super::symbols::Points;
use super::threads::offset_of;
use aya::maps::{MapData, RingBuf};
use std::hint::black_box;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

const SLOT: u32 = 1;
/// Of all streams it is among the first that are looked at, so that much can happen until the last are.
const STREAM: u64 = 0x1e000;
const OTHER_STREAM: u64 = 0x2000;
/// How often two threads meet.
const ROUNDS: u64 = 20_000;
/// How often one looks for the other before it lets somebody else have the processor: far longer than they should take.
const SPINS: u32 = 100_000;

/// Each is another function, for the linker makes one of those that do the same.
#[inline(never)]
extern "C" fn launch(stream: u64) -> u32 {
    black_box(stream ^ 1);
    0
}

/// Counts up what its second argument points to: then it is under way.
#[inline(never)]
extern "C" fn wait(stream: u64, entered: &AtomicU64) -> u32 {
    black_box(stream ^ 2);
    entered.fetch_add(1, Ordering::SeqCst);
    0
}

#[inline(never)]
extern "C" fn wait_for_everything() -> u32 {
    black_box(3);
    0
}

#[inline(never)]
extern "C" fn copy_a_plane(described: &[u32; 32]) -> u32 {
    black_box(described[0] ^ 4);
    0
}

#[inline(never)]
extern "C" fn copy_a_body(described: &[u32; 64]) -> u32 {
    black_box(described[0] ^ 5);
    0
}

#[inline(never)]
extern "C" fn create(handle: &mut u64, bytes: u64) -> u32 {
    *handle = black_box(bytes ^ 6);
    0
}

#[inline(never)]
extern "C" fn map(address: u64, bytes: u64, offset: u64, handle: u64) -> u32 {
    black_box(address ^ bytes ^ offset ^ handle ^ 7);
    0
}

#[inline(never)]
extern "C" fn unmap(address: u64, bytes: u64) -> u32 {
    black_box(address ^ bytes ^ 8);
    0
}

#[inline(never)]
extern "C" fn release(handle: u64) -> u32 {
    black_box(handle ^ 9);
    0
}

#[inline(never)]
extern "C" fn fill(stream: u64) -> u32 {
    black_box(stream ^ 0xa);
    0
}

#[inline(never)]
extern "C" fn record(event: u64, stream: u64) -> u32 {
    black_box(event ^ stream ^ 0xb);
    0
}

#[inline(never)]
extern "C" fn join(stream: u64, event: u64) -> u32 {
    black_box(stream ^ event ^ 0xc);
    0
}

/// Until the GPU is done, which is not there.
#[inline(never)]
extern "C" fn wait_long(milliseconds: u64) -> u32 {
    std::thread::sleep(Duration::from_millis(black_box(milliseconds)));
    0
}

/// Our own process, probed in its slot.
struct Stage {
    tables: Tables,
    ring: RingBuf<MapData>,
    _link: Link,
    _programs: Programs,
    /// Two stages at once would each see what the other does.
    _alone: MutexGuard<'static, ()>,
}

impl Stage {
    fn new() -> Self {
        static ALONE: Mutex<()> = Mutex::new(());
        let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let (programs, mut tables, ring) = load().expect("probes, as root");
        let calls = [
            (launch as *const () as u64, op::LAUNCH | 1 << 8),
            (wait as *const () as u64, op::WAIT | 1 << 8),
            (wait_for_everything as *const () as u64, op::WAIT | place::EVERYTHING << 8),
            (copy_a_plane as *const () as u64, op::COPY_AND_WAIT | place::PLANE << 8),
            (copy_a_body as *const () as u64, op::COPY_AND_WAIT | place::BODY << 8),
            (create as *const () as u64, op::ALLOCATE | 2 << 8),
            (wait_long as *const () as u64, op::WAIT | place::EVERYTHING << 8),
            (fill as *const () as u64, op::COPY | 1 << 8),
            (record as *const () as u64, op::RECORD | 2 << 8),
            (join as *const () as u64, op::JOIN | 1 << 8),
            (map as *const () as u64, op::MAP),
            (unmap as *const () as u64, op::UNMAP),
            (release as *const () as u64, op::FREE),
        ];
        let points = |calls: &[(u64, u64)]| {
            let offsets = calls.iter().map(|(address, _)| offset_of(*address).expect("our code")).collect();
            let cookies = calls.iter().map(|(_, cookie)| cookie | u64::from(SLOT) << SLOT_SHIFT).collect();
            Points { offsets, cookies }
        };
        let (entries, returns) = (points(&calls), points(&calls[1..7]));
        let own = std::process::id();
        tables.orders.set(SLOT, Orders { pid: own, ..Orders::default() }, 0).expect("a slot");
        tables.spans.set(SLOT, Span::idle(SLOT), 0).expect("a slot");
        let link = programs.attach(Path::new("/proc/self/exe"), Some(own), &entries, &returns);
        Self { tables, ring, _link: link.expect("probes"), _programs: programs, _alone: alone }
    }

    fn span(&self) -> Span {
        self.tables.spans.get(&SLOT, 0).expect("a slot")
    }

    fn told(&mut self) -> Vec<(u32, u64)> {
        let mut told = Vec::new();
        while let Some(bytes) = self.ring.next() {
            told.extend(Event::read(&bytes).map(|event| (event.kind, event.value)));
        }
        told
    }
}

/// Whether the other thread may end.
struct Over(AtomicBool);

/// Whatever becomes of this thread, the other one ends.
struct Ends<'a>(&'a Over);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.0.store(true, Ordering::SeqCst);
    }
}

/// The kernel's program looks which streams are done, and then takes them away: what comes in between is not lost.
#[test]
fn a_launch_while_another_threads_wait_returns_is_not_lost() {
    let mut stage = Stage::new();
    let (began, launched, nobody) = (AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(0));
    let over = Over(AtomicBool::new(false));
    let reaches = |count: &AtomicU64, round: u64| {
        let mut turns = 0_u32;
        while count.load(Ordering::SeqCst) < round && !over.0.load(Ordering::SeqCst) {
            // Where something else has a processor the other may wait for this one.
            turns += 1;
            if turns.is_multiple_of(SPINS) { std::thread::yield_now() } else { std::hint::spin_loop() }
        }
    };
    let lost = std::thread::scope(|scope| {
        scope.spawn(|| {
            for round in 1..=ROUNDS {
                reaches(&began, round);
                // Anywhere in what the wait still does.
                for step in 0..round * 7 % 3000 {
                    black_box(step);
                }
                launch(STREAM);
                launched.store(round, Ordering::SeqCst);
            }
        });
        let ends = Ends(&over);
        let lost = (1..=ROUNDS).find(|round| {
            // With work in several streams there is more to look through.
            let streams = 1 + round % 2;
            launch(STREAM);
            if streams > 1 {
                launch(OTHER_STREAM);
            }
            wait(STREAM, &began);
            reaches(&launched, *round);
            let kept = u64::from(stage.span().pending.count_ones()) == streams;
            wait(STREAM, &nobody);
            wait(OTHER_STREAM, &nobody);
            let told = stage.told();
            let count = |wanted| told.iter().filter(|(kind, _)| *kind == wanted).count();
            !kept || stage.span().is_busy() || count(kind::LAUNCH) != count(kind::DRAIN)
        });
        drop(ends);
        lost
    });
    assert_eq!(lost, None, "a launch was lost in that round, or not told of");
}

#[test]
fn a_copy_within_the_device_waits_for_nothing_and_one_from_or_to_the_host_for_all() {
    let [host, device, array, unified] = [1, 2, 3, 4];
    let stage = Stage::new();
    for (from, to) in [(device, device), (array, device), (device, host), (host, array), (unified, device)] {
        let waits = [from, to].iter().any(|kind| [host, unified].contains(kind));
        let (mut plane, mut body) = ([0; 32], [0; 64]);
        ((plane[16 / 4], plane[72 / 4]), (body[32 / 4], body[120 / 4])) = ((from, to), (from, to));
        launch(STREAM);
        copy_a_plane(&plane);
        assert_eq!(stage.span().is_busy(), !waits, "a plane, from {from} to {to}");
        launch(STREAM);
        copy_a_body(&body);
        assert_eq!(stage.span().is_busy(), !waits, "a body, from {from} to {to}");
        wait_for_everything();
        assert!(!stage.span().is_busy());
    }
}

/// A fill there is done when any later wait is, and one that comes after a kernel is not, though a stream waits for that.
#[test]
fn a_fill_after_a_kernel_that_a_stream_waits_for_is_no_end_of_the_kernel() {
    const DEFAULT: u64 = 0;
    let stage = Stage::new();
    let begun = |stream| wait(stream, &AtomicU64::new(0));
    fill(DEFAULT);
    fill(DEFAULT);
    launch(OTHER_STREAM);
    begun(OTHER_STREAM);
    assert!(!stage.span().is_busy(), "fills alone");
    launch(DEFAULT);
    record(7, DEFAULT);
    join(STREAM, 7);
    fill(DEFAULT);
    launch(OTHER_STREAM);
    begun(OTHER_STREAM);
    assert!(stage.span().is_busy(), "the kernel may still run");
    wait_for_everything();
    assert!(!stage.span().is_busy());
}

/// What it had queued before is done in the time after it, too, or while it stood: nobody knows.
#[test]
fn a_first_figure_counts_all_launches_of_who_stood_meanwhile_or_those_since() {
    let mut stage = Stage::new();
    let millisecond = 1_000_000;
    let mut figure = |launched_before: u32, stood: u64| {
        let orders = Orders { pid: std::process::id(), flags: BOUNDED, ..Orders::default() };
        stage.tables.orders.set(SLOT, orders, 0).expect("a slot");
        let now = ns_now();
        let mut span = Span::idle(SLOT);
        (span.pending, span.launches) = (1 << 1, launched_before);
        (span.first, span.stands) = (now - (stood + 1) * millisecond, now - stood * millisecond);
        stage.tables.spans.set(SLOT, span, 0).expect("a slot");
        for _ in 0..10 {
            launch(STREAM);
        }
        wait_long(40);
        assert!(!stage.span().is_busy());
        stage.span().estimate
    };
    // 1,000 of them in at least 46 ms, not eleven in 40.
    let many = figure(989, 5);
    assert!((46_000..2_000_000).contains(&many), "{many}");
    // Eleven of them in 40 ms, not twelve in ten seconds.
    let few = figure(1, 10_000);
    assert!((3_000_000..400_000_000).contains(&few), "{few}");
}

/// It may have had work there that nobody saw.
#[test]
fn a_process_that_waits_for_everything_tells_once_that_it_has_nothing_there() {
    let mut stage = Stage::new();
    wait(STREAM, &AtomicU64::new(0));
    assert_eq!(stage.told(), [], "it may have work in another stream");
    wait_for_everything();
    wait_for_everything();
    assert_eq!(stage.told(), [(kind::DRAIN, 0)]);
    launch(STREAM);
    wait_for_everything();
    assert_eq!(stage.told(), [(kind::LAUNCH, 0), (kind::DRAIN, 0)]);
}

/// Pools of memory let go of the handle as soon as it has an address.
#[test]
fn memory_counts_as_long_as_it_is_mapped() {
    let mut stage = Stage::new();
    let (mut one, mut other) = (0, 0);
    create(&mut one, 100);
    create(&mut other, 50);
    map(0xa000, 100, 0, one);
    release(one);
    assert_eq!(stage.span().memory, 150);
    release(other);
    assert_eq!(stage.span().memory, 100, "it has no address");
    unmap(0xa000, 100);
    let told = stage.told();
    assert_eq!(told.iter().map(|(_, bytes)| *bytes).collect::<Vec<_>>(), [100, 150, 100, 0]);
    assert!(told.iter().all(|(kind, _)| *kind == kind::MEMORY), "{told:?}");
}
