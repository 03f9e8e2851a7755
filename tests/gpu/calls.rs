//! Calls of the driver that our own programs do not use, and others do: streams, events, graphs, lookup.
#![allow(unsafe_code, reason = "the driver is a C library")]

use crate::driver::{Driver, NON_BLOCKING, NOT_READY, call};
use crate::machine::{Machine, in_one_of};
use std::ffi::{CStr, c_void};
use std::ptr::null_mut;
use std::time::Instant;

/// A process with a context, on a GPU of its own.
fn start() -> (Driver, Machine) {
    let machine = Machine::start(&[]);
    (Driver::open(machine.dir()), machine)
}

#[test]
fn events_time_what_is_between_them() {
    let (driver, _machine) = start();
    let stream = driver.stream(0);
    in_one_of(19.0..23.0, || {
        let before = driver.event(stream);
        driver.launch(stream);
        driver.launch(stream);
        assert_eq!(call!(driver, "cuStreamQuery"(stream => u64)), NOT_READY);
        let after = driver.event(stream);
        let milliseconds = driver.milliseconds(before, after);
        assert_eq!(call!(driver, "cuStreamQuery"(stream => u64)), 0);
        assert_eq!(call!(driver, "cuEventQuery"(after => u64)), 0);
        milliseconds
    });
}

#[test]
fn a_recorded_graph_runs_when_it_is_launched() {
    let (driver, _machine) = start();
    let [stream, beside] = [(); 2].map(|()| driver.stream(NON_BLOCKING));
    let instance = driver.graph(stream, beside);
    for stream in [stream, beside] {
        assert_eq!(call!(driver, "cuStreamQuery"(stream => u64)), 0, "nothing ran while it was recorded");
    }
    in_one_of(58.0..66.0, || {
        let before = driver.event(stream);
        assert_eq!(call!(driver, "cuGraphLaunch"(instance => u64, stream => u64)), 0);
        assert_eq!(call!(driver, "cuGraphLaunch"(instance => u64, stream => u64)), 0);
        driver.milliseconds(before, driver.event(stream))
    });
}

#[test]
fn a_thread_that_waits_does_not_keep_another_from_asking() {
    let (driver, _machine) = start();
    let stream = driver.stream(NON_BLOCKING);
    (0..100).for_each(|_| driver.launch(stream));
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| {
            driver.use_in_this_thread();
            call!(driver, "cuCtxSynchronize"())
        });
        let start = Instant::now();
        assert_eq!(call!(driver, "cuStreamQuery"(stream => u64)), NOT_READY);
        assert!(start.elapsed().as_millis() < 900 && !waiter.is_finished());
        assert_eq!(waiter.join().unwrap(), 0);
    });
    assert_eq!(call!(driver, "cuStreamQuery"(stream => u64)), 0, "all that either thread submitted is done");
}

#[test]
fn a_call_is_looked_up_by_its_plain_name() {
    let (driver, _machine) = start();
    let mut found: *mut c_void = null_mut();
    let mut look_up = |name: &CStr, version: i32| {
        let status = call!(driver, "cuGetProcAddress_v2"(
            name.as_ptr().cast() => *const c_void, &raw mut found => *mut *mut c_void, version => i32, 0 => u64,
            null_mut() => *mut u32
        ));
        (status, found as usize)
    };
    let address = |name: &str| {
        // SAFETY: the symbol is not called.
        unsafe { driver.library.get::<*const u8>(name).unwrap().try_as_raw_ptr().unwrap() as usize }
    };
    assert_eq!(look_up(c"cuMemAlloc", 12_000), (0, address("cuMemAlloc_v2")));
    assert_eq!(look_up(c"cuLaunchKernel", 12_000), (0, address("cuLaunchKernel")));
    assert_eq!(look_up(c"cuCtxSynchronize", 12_000), (0, address("cuCtxSynchronize")));
    assert_eq!(look_up(c"cuCtxSynchronize", 13_000), (0, address("cuCtxSynchronize_v2")));
    assert_eq!(look_up(c"cuNothing", 12_000), (500, 0));
}
