//! The program that `streams` runs in a container: this test program itself, once more.
//!
//! Its requests use the driver in the ways that our own programs do not. Before each it does nothing for a while, so that each is a
//! task of its own, and of each it prints what it was and when it began and ended.
#![allow(unsafe_code, reason = "the driver is a C library")]

use crate::driver::{Driver, NON_BLOCKING, NOT_READY, call};
use gpu::FOLDER_IN_CONTAINER;
use serde_json::json;
use std::path::Path;
use std::sync::Barrier;
use std::time::Duration;

/// Set in the container.
pub(crate) const IN_CONTAINER: &str = "LEEWAY_TEST_PROGRAM";
/// The first request comes when the probes are long there.
const FIRST_AFTER: Duration = Duration::from_secs(2);
/// Much longer than what makes two requests one.
const APART: Duration = Duration::from_millis(100);

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
        (0..3).for_each(|_| driver.launch(two));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                driver.use_in_this_thread();
                wait(two);
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
