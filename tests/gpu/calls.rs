//! Calls of the driver that our own programs do not use, and others do: streams, events, graphs, lookup.
#![allow(unsafe_code, reason = "the driver is a C library")]

use crate::machine::{Machine, in_one_of};
use libloading::Library;
use std::ffi::{CStr, c_void};
use std::ptr::{null, null_mut};
use std::time::Instant;

const NOT_READY: u32 = 600;
const NON_BLOCKING: u32 = 1;
/// About 10 ms of `spin`, at 256 cycles of 1.98 GHz per loop.
const LOOPS: u64 = 77_344;
const SPIN: &CStr =
    c".version 7.0\n.target sm_70\n.entry spin(.param .u64 loops, .param .u64 out)\n{ ret; }\n";

/// A process with a context and a kernel.
struct Driver {
    library: Library,
    _machine: Machine,
    context: u64,
    function: u64,
}

/// Calls the driver; the arguments' types are those of `cuda.h`.
macro_rules! call {
    ($driver:expr, $name:literal ($($argument:expr => $type:ty),*)) => {{
        // SAFETY: the types are those of `cuda.h`, and every pointer is to a live value of its type.
        unsafe {
            let call = $driver.library.get::<unsafe extern "C" fn($($type),*) -> u32>($name).expect($name);
            call($($argument),*)
        }
    }};
}

impl Driver {
    fn start() -> Self {
        let machine = Machine::start(&[]);
        // SAFETY: the library has no initialisers beyond Rust's own.
        let library = unsafe { Library::new(machine.dir().join("libcuda.so.1")) }.expect("the library");
        let mut driver = Self { library, _machine: machine, context: 0, function: 0 };
        let (mut context, mut module, mut function) = (0, 0, 0);
        assert_eq!(call!(driver, "cuInit"(0 => u32)), 0);
        assert_eq!(call!(driver, "cuDevicePrimaryCtxRetain"(&raw mut context => *mut u64, 0 => i32)), 0);
        driver.context = context;
        driver.use_in_this_thread();
        assert_eq!(
            call!(driver, "cuModuleLoadData"(&raw mut module => *mut u64, SPIN.as_ptr().cast() => *const c_void)),
            0
        );
        assert_eq!(
            call!(driver, "cuModuleGetFunction"(&raw mut function => *mut u64, module => u64, c"spin".as_ptr().cast() => *const c_void)),
            0
        );
        driver.function = function;
        driver
    }

    fn use_in_this_thread(&self) {
        assert_eq!(call!(self, "cuCtxSetCurrent"(self.context => u64)), 0);
    }

    fn stream(&self, flags: u32) -> u64 {
        let mut stream = 0;
        assert_eq!(call!(self, "cuStreamCreate"(&raw mut stream => *mut u64, flags => u32)), 0);
        stream
    }

    fn event(&self, stream: u64) -> u64 {
        let mut event = 0;
        assert_eq!(call!(self, "cuEventCreate"(&raw mut event => *mut u64, 0 => u32)), 0);
        assert_eq!(call!(self, "cuEventRecord"(event => u64, stream => u64)), 0);
        event
    }

    fn milliseconds(&self, from: u64, to: u64) -> f64 {
        let mut milliseconds = 0.0;
        assert_eq!(call!(self, "cuEventSynchronize"(to => u64)), 0);
        assert_eq!(
            call!(self, "cuEventElapsedTime"(&raw mut milliseconds => *mut f32, from => u64, to => u64)),
            0
        );
        f64::from(milliseconds)
    }

    fn launch(&self, stream: u64) {
        let (loops, out) = (LOOPS, 0_u64);
        let parameters = [(&raw const loops).cast::<c_void>(), (&raw const out).cast()];
        let status = call!(self, "cuLaunchKernel"(
            self.function => u64, 1 => u32, 1 => u32, 1 => u32, 1 => u32, 1 => u32, 1 => u32, 0 => u32,
            stream => u64, parameters.as_ptr() => *const *const c_void, null() => *const c_void
        ));
        assert_eq!(status, 0);
    }
}

#[test]
fn events_time_what_is_between_them() {
    let driver = Driver::start();
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
    let driver = Driver::start();
    let stream = driver.stream(NON_BLOCKING);
    let (mut graph, mut instance) = (0_u64, 0_u64);
    assert_eq!(call!(driver, "cuStreamBeginCapture_v2"(stream => u64, 0 => u32)), 0);
    (0..3).for_each(|_| driver.launch(stream));
    assert_eq!(call!(driver, "cuStreamEndCapture"(stream => u64, &raw mut graph => *mut u64)), 0);
    assert_eq!(call!(driver, "cuStreamQuery"(stream => u64)), 0, "nothing ran while it was recorded");
    assert_eq!(
        call!(driver, "cuGraphInstantiateWithFlags"(&raw mut instance => *mut u64, graph => u64, 0 => u64)),
        0
    );
    in_one_of(58.0..66.0, || {
        let before = driver.event(stream);
        assert_eq!(call!(driver, "cuGraphLaunch"(instance => u64, stream => u64)), 0);
        assert_eq!(call!(driver, "cuGraphLaunch"(instance => u64, stream => u64)), 0);
        driver.milliseconds(before, driver.event(stream))
    });
}

#[test]
fn a_thread_that_waits_does_not_keep_another_from_asking() {
    let driver = Driver::start();
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
    let driver = Driver::start();
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
