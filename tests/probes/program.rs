//! The programs that `streams` and `gate` run in containers: this test program itself, once more.
//!
//! The requests of the one use the driver in the ways that our own programs do not. Before each it does nothing for a while, so that each is a
//! task of its own, and of each it prints what it was and when it began and ended.
#![allow(unsafe_code, reason = "the driver is a C library")]

use crate::daemon::{leeway_program, output, stdout};
use crate::driver::{Driver, NON_BLOCKING, NOT_READY, call};
use crate::scene::Scene;
use crate::stand::Box;
use gpu::FOLDER_IN_CONTAINER;
use serde_json::json;
use std::path::Path;
use std::sync::{Barrier, Mutex};
use std::time::Duration;

/// Set in the container.
const IN_CONTAINER: &str = "LEEWAY_TEST_PROGRAM";
/// The first request comes when the probes are long there.
const FIRST_AFTER: Duration = Duration::from_secs(2);
/// Much longer than what makes two requests one.
const APART: Duration = Duration::from_millis(100);

/// Starts one of the programs below in a container.
pub(crate) fn in_a_container(scene: &Scene, name: &str, options: &[&str], program: &str) -> Box {
    let ours = std::env::current_exe().expect("this program");
    assert_ne!(ours, Path::new(leeway_program()));
    let mount = format!("type=bind,source={},target=/program,readonly", ours.display());
    let set = format!("{IN_CONTAINER}=1");
    let loader = format!("{FOLDER_IN_CONTAINER}/lib/ld.so");
    let libraries = format!("{FOLDER_IN_CONTAINER}/lib");
    let program = format!("program::{program}");
    let words = [&loader, "--library-path", &libraries, "/program", "--nocapture", "--exact", &program];
    let options = [options, &["--mount", &mount, "--env", &set]].concat();
    Box::start(scene, name, &options, &words)
}

/// What one of them told, once it has ended; the test harness says something, too.
pub(crate) fn told(scene: &Scene, of: &Box) -> Vec<serde_json::Value> {
    output(&mut scene.daemon.docker(["wait", &of.name]));
    let printed = stdout(&output(&mut scene.daemon.docker(["logs", &of.name])));
    let told: Vec<_> = printed.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    assert!(!told.is_empty(), "{printed}");
    told
}

fn now() -> f64 {
    jiff::Timestamp::now().as_microsecond() as f64 / 1e6
}

/// One request: from its first call until all its work is done.
fn request(what: &str, serve: impl FnOnce()) {
    std::thread::sleep(APART);
    let start = now();
    serve();
    println!("\n{}", json!({ "what": what, "start": start, "end": now() }));
}

/// Elsewhere than in that container it does nothing.
#[test]
fn uses_streams_events_graphs_and_threads() {
    if std::env::var_os(IN_CONTAINER).is_none() {
        return;
    }
    let driver = Driver::open(Path::new(FOLDER_IN_CONTAINER));
    let wait = |stream: u64| assert_eq!(call!(driver, "cuStreamSynchronize"(stream => u64)), 0);
    let [one, two, three] = [(); 3].map(|()| driver.stream(NON_BLOCKING));
    std::thread::sleep(FIRST_AFTER);
    // Nothing runs while a graph is recorded: no request.
    let graph = driver.graph(one, two);
    request("a graph, twice", || {
        assert_eq!(call!(driver, "cuGraphLaunch"(graph => u64, one => u64)), 0);
        assert_eq!(call!(driver, "cuGraphLaunch"(graph => u64, one => u64)), 0);
        wait(one);
    });
    request("two streams, the shorter waited for first", || {
        driver.launch(one);
        (0..4).for_each(|_| driver.launch(two));
        wait(one);
        wait(two);
    });
    request("an event", || {
        driver.launch(one);
        let event = driver.event(one);
        assert_eq!(call!(driver, "cuEventSynchronize"(event => u64)), 0);
    });
    streams_that_wait_for_each_other(&driver, [one, two, three]);
    request("asked again and again", || {
        driver.launch(one);
        while call!(driver, "cuStreamQuery"(one => u64)) == NOT_READY {
            std::thread::sleep(Duration::from_micros(200));
        }
    });
    request("the default stream, waited for as a whole", || {
        driver.launch(0);
        driver.launch(one);
        assert_eq!(call!(driver, "cuCtxSynchronize"()), 0);
    });
    // Beside a stream that minds the default stream it is done before what comes after it.
    let (block, minds) = (driver.block(), driver.stream(0));
    request("a fill of the default stream, and a wait for another", || {
        driver.fill(block);
        driver.launch(minds);
        wait(minds);
    });
    request("the same once more", || {
        driver.fill(block);
        driver.launch(minds);
        wait(minds);
    });
    two_threads(&driver, two);
}

fn two_threads(driver: &Driver, stream: u64) {
    let wait = |stream: u64| assert_eq!(call!(driver, "cuStreamSynchronize"(stream => u64)), 0);
    request("two threads with their own default streams", || {
        let both = Barrier::new(2);
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    driver.use_in_this_thread();
                    driver.launch_by("cuLaunchKernel_ptsz", 0);
                    both.wait();
                    assert_eq!(call!(driver, "cuStreamSynchronize_ptsz"(0 => u64)), 0);
                });
            }
        });
    });
    request("one thread launches, another waits", || {
        (0..3).for_each(|_| driver.launch(stream));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                driver.use_in_this_thread();
                wait(stream);
            });
        });
    });
}

fn streams_that_wait_for_each_other(driver: &Driver, [one, two, three]: [u64; 3]) {
    let wait = |stream: u64| assert_eq!(call!(driver, "cuStreamSynchronize"(stream => u64)), 0);
    request("a stream for which another waits", || {
        (0..2).for_each(|_| driver.launch(two));
        driver.goes_on_after(one, driver.event(two));
        driver.launch(one);
        wait(one);
    });
    request("streams that wait for each other, in a row and back", || {
        driver.launch(one);
        driver.goes_on_after(two, driver.event(one));
        driver.launch(two);
        driver.goes_on_after(three, driver.event(two));
        driver.launch(three);
        driver.goes_on_after(one, driver.event(three));
        wait(one);
    });
    request("an event of a stream that waits for another", || {
        driver.launch(one);
        driver.goes_on_after(two, driver.event(one));
        driver.launch(two);
        let event = driver.event(two);
        assert_eq!(call!(driver, "cuEventSynchronize"(event => u64)), 0);
    });
    request("a stream that goes on after another waited for it", || {
        driver.launch(one);
        driver.goes_on_after(two, driver.event(one));
        (0..3).for_each(|_| driver.launch(one));
        wait(two);
        wait(one);
    });
}

/// How often two threads launch in turn before somebody waits for that.
const TURNS: usize = 64;
/// A copy of the driver's library that is loaded after it, and so below it, where there is one; and never called.
pub(crate) const UNUSED: &str = "/unused/libcuda.so.1";

/// As long as it is let. Whoever launched does not wait for it, nor does it come next.
#[test]
fn launches_in_turn_from_two_threads() {
    if std::env::var_os(IN_CONTAINER).is_none() {
        return;
    }
    // SAFETY: the library has no initialisers beyond Rust's own.
    let load = |path: &Path| unsafe { libloading::Library::new(path) }.expect("a library");
    let _used = load(&Path::new(FOLDER_IN_CONTAINER).join("libcuda.so.1"));
    let _unused = Some(Path::new(UNUSED)).filter(|path| path.exists()).map(load);
    let driver = Driver::open(Path::new(FOLDER_IN_CONTAINER));
    let stream = driver.stream(NON_BLOCKING);
    let turns = Barrier::new(2);
    std::thread::scope(|scope| {
        for own in 0..2 {
            let (driver, turns) = (&driver, &turns);
            scope.spawn(move || {
                driver.use_in_this_thread();
                for turn in 0.. {
                    turns.wait();
                    if turn % 2 == own {
                        driver.launch_short(stream);
                    }
                    turns.wait();
                    if turn % TURNS < 2 && turn % 2 != own {
                        assert_eq!(call!(driver, "cuStreamSynchronize"(stream => u64)), 0);
                    }
                }
            });
        }
    });
}

/// As long as it is let. Whoever waits was never stopped.
#[test]
fn one_thread_launches_and_another_waits() {
    if std::env::var_os(IN_CONTAINER).is_none() {
        return;
    }
    let driver = Driver::open(Path::new(FOLDER_IN_CONTAINER));
    let stream = driver.stream(NON_BLOCKING);
    let turns = Barrier::new(2);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            driver.use_in_this_thread();
            loop {
                turns.wait();
                assert_eq!(call!(driver, "cuStreamSynchronize"(stream => u64)), 0);
                turns.wait();
            }
        });
        loop {
            driver.launch_short(stream);
            turns.wait();
            turns.wait();
        }
    });
}

/// As long as it is let. Nobody who was stopped calls the driver again.
#[test]
fn each_launch_has_a_thread_of_its_own() {
    if std::env::var_os(IN_CONTAINER).is_none() {
        return;
    }
    let driver = Driver::open(Path::new(FOLDER_IN_CONTAINER));
    let stream = driver.stream(NON_BLOCKING);
    loop {
        std::thread::scope(|scope| {
            scope.spawn(|| {
                driver.use_in_this_thread();
                driver.launch_short(stream);
            });
        });
        std::thread::sleep(Duration::from_millis(5));
        assert_eq!(call!(driver, "cuStreamSynchronize"(stream => u64)), 0);
    }
}

/// More than a GPU has that somebody else uses.
const MUCH: usize = 20 << 30;

#[test]
fn asks_for_memory_again_and_again() {
    if std::env::var_os(IN_CONTAINER).is_none() {
        return;
    }
    let driver = Driver::open(Path::new(FOLDER_IN_CONTAINER));
    loop {
        let mut block = 0_u64;
        let _ = call!(driver, "cuMemAlloc_v2"(&raw mut block => *mut u64, MUCH => usize));
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn asks_for_the_driver_again_and_again() {
    if std::env::var_os(IN_CONTAINER).is_none() {
        return;
    }
    let driver = Driver::open(Path::new(FOLDER_IN_CONTAINER));
    // SAFETY: the type is that of `cuda.h`.
    let init =
        unsafe { driver.library.get::<unsafe extern "C" fn(u32) -> u32>("cuInit") }.expect("a function");
    loop {
        // SAFETY: as above.
        unsafe { init(0) };
    }
}

/// How many threads launch, how often each, and how long each pauses in between.
const THREADS: usize = 4;
const LAUNCHES: usize = 4000;
const PAUSE: Duration = Duration::from_micros(700);

/// Elsewhere than in a container it does nothing. There it prints when each launch of each thread was called and when it returned.
#[test]
fn launches_from_several_threads() {
    if std::env::var_os(IN_CONTAINER).is_none() {
        return;
    }
    let driver = Driver::open(Path::new(FOLDER_IN_CONTAINER));
    std::thread::sleep(FIRST_AFTER);
    let launches: Mutex<Vec<serde_json::Value>> = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                driver.use_in_this_thread();
                let stream = driver.stream(NON_BLOCKING);
                for _ in 0..LAUNCHES {
                    std::thread::sleep(PAUSE);
                    let launch = now();
                    driver.launch_short(stream);
                    let launched = now();
                    assert_eq!(call!(driver, "cuStreamSynchronize"(stream => u64)), 0);
                    launches
                        .lock()
                        .expect("the list")
                        .push(json!({ "launch": launch, "launched": launched }));
                }
            });
        }
    });
    println!("\n{}", json!({ "requests": launches.into_inner().expect("the list") }));
}
