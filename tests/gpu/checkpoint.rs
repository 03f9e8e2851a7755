//! Swapping: another process's memory off the device and back, by the driver's own calls.
#![allow(unsafe_code, reason = "the driver is a C library")]

use crate::machine::{Machine, in_the_end, report, signal};
use libloading::Library;
use rustix::process::Signal;
use std::ffi::c_void;
use std::time::Duration;

const RUNNING: u32 = 0;
const LOCKED: u32 = 1;
const CHECKPOINTED: u32 = 2;

/// The driver's calls, as a helper process has them.
struct Driver(Library);

impl Driver {
    fn call(&self, name: &str, pid: u32) -> u32 {
        // SAFETY: these calls take a pid and a pointer to arguments, which may be null.
        unsafe {
            let call = self
                .0
                .get::<unsafe extern "C" fn(i32, *const c_void) -> u32>(name)
                .expect("a call of the driver");
            call(pid as i32, std::ptr::null())
        }
    }

    fn state(&self, pid: u32) -> u32 {
        let mut state = u32::MAX;
        // SAFETY: the call takes a pid and a pointer to room for the state.
        unsafe {
            let name = "cuCheckpointProcessGetState";
            let call =
                self.0.get::<unsafe extern "C" fn(i32, *mut u32) -> u32>(name).expect("a call of the driver");
            assert_eq!(call(pid as i32, &raw mut state), 0);
        }
        state
    }
}

#[test]
fn a_process_is_swapped_out_and_in_and_keeps_its_data() {
    let machine = Machine::start(&["--memory", "2GiB"]);
    let nvml = machine.nvml();
    let device = nvml.device_by_index(0).unwrap();
    // SAFETY: the library has no initialisers beyond Rust's own.
    let driver = Driver(unsafe { Library::new(machine.dir().join("libcuda.so.1")) }.unwrap());
    let holder = machine.work(&["hold", "--memory", "256MiB", "--for", "2s"]).spawn().unwrap();
    let pid = holder.id();
    in_the_end("the memory is taken", || device.memory_info().unwrap().used > 600 << 20);
    assert_eq!(driver.state(pid), RUNNING);
    assert_eq!(driver.call("cuCheckpointProcessLock", pid), 0);
    assert_eq!(driver.state(pid), LOCKED);
    assert_eq!(driver.call("cuCheckpointProcessCheckpoint", pid), 0);
    assert_eq!(driver.state(pid), CHECKPOINTED);
    in_the_end("the memory is free", || device.memory_info().unwrap().used == 0);
    in_the_end("NVML lists nobody", || device.running_compute_processes().unwrap().is_empty());
    assert_eq!(driver.call("cuCheckpointProcessRestore", pid), 0);
    assert_eq!(driver.call("cuCheckpointProcessUnlock", pid), 0);
    assert_eq!(driver.state(pid), RUNNING);
    report(holder);
}

#[test]
fn a_stopped_process_can_be_locked_but_its_memory_moves_only_when_it_runs() {
    let machine = Machine::start(&[]);
    let nvml = machine.nvml();
    let device = nvml.device_by_index(0).unwrap();
    // SAFETY: the library has no initialisers beyond Rust's own.
    let driver = Driver(unsafe { Library::new(machine.dir().join("libcuda.so.1")) }.unwrap());
    let holder = machine.work(&["hold", "--memory", "1MiB", "--for", "1s"]).spawn().unwrap();
    let pid = holder.id();
    in_the_end("the memory is taken", || device.memory_info().unwrap().used > 400 << 20);
    signal(&holder, Signal::STOP);
    assert_eq!(driver.call("cuCheckpointProcessLock", pid), 0);
    std::thread::scope(|scope| {
        let checkpoint = scope.spawn(|| driver.call("cuCheckpointProcessCheckpoint", pid));
        std::thread::sleep(Duration::from_secs(1));
        assert!(!checkpoint.is_finished() && device.memory_info().unwrap().used > 0);
        signal(&holder, Signal::CONT);
        assert_eq!(checkpoint.join().unwrap(), 0);
    });
    assert_eq!(device.memory_info().unwrap().used, 0);
    assert_eq!(driver.call("cuCheckpointProcessRestore", pid), 0);
    assert_eq!(driver.call("cuCheckpointProcessUnlock", pid), 0);
    report(holder);
}
