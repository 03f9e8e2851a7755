//! The driver's library, called as any CUDA program calls it: with streams, events and graphs, which our own programs do not use.
#![allow(unsafe_code, reason = "the driver is a C library")]

use libloading::Library;
use std::ffi::{CStr, c_void};
use std::path::Path;
use std::ptr::null;

/// What a query answers while there is work.
pub(crate) const NOT_READY: u32 = 600;
/// The flag of a stream that does not mind the default stream.
pub(crate) const NON_BLOCKING: u32 = 1;
/// About 10 ms of `spin`, at 256 cycles of 1.98 GHz per loop.
const LOOPS: u64 = 77_344;
/// How much of that is a short kernel.
const SHORT_PART: u64 = 100;
const BLOCK_BYTES: usize = 1 << 20;
const SPIN: &CStr =
    c".version 7.0\n.target sm_70\n.entry spin(.param .u64 loops, .param .u64 out)\n{ ret; }\n";

/// A process with a context and a kernel.
pub(crate) struct Driver {
    pub(crate) library: Library,
    context: u64,
    function: u64,
}

/// Calls the driver; the arguments' types are those of `cuda.h`.
macro_rules! call {
    ($driver:expr, $name:tt ($($argument:expr => $type:ty),*)) => {{
        // SAFETY: the types are those of `cuda.h`, and every pointer is to a live value of its type.
        unsafe {
            let call = $driver.library.get::<unsafe extern "C" fn($($type),*) -> u32>($name).expect($name);
            call($($argument),*)
        }
    }};
}
pub(crate) use call;

impl Driver {
    pub(crate) fn open(folder: &Path) -> Self {
        // SAFETY: the library has no initialisers beyond Rust's own.
        let library = unsafe { Library::new(folder.join("libcuda.so.1")) }.expect("the library");
        let mut driver = Self { library, context: 0, function: 0 };
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

    pub(crate) fn use_in_this_thread(&self) {
        assert_eq!(call!(self, "cuCtxSetCurrent"(self.context => u64)), 0);
    }

    pub(crate) fn stream(&self, flags: u32) -> u64 {
        let mut stream = 0;
        assert_eq!(call!(self, "cuStreamCreate"(&raw mut stream => *mut u64, flags => u32)), 0);
        stream
    }

    /// A block of memory.
    pub(crate) fn block(&self) -> u64 {
        let mut block = 0;
        assert_eq!(call!(self, "cuMemAlloc_v2"(&raw mut block => *mut u64, BLOCK_BYTES => usize)), 0);
        block
    }

    /// Fills one in the default stream; the program does not wait for that.
    pub(crate) fn fill(&self, block: u64) {
        assert_eq!(call!(self, "cuMemsetD8_v2"(block => u64, 0 => u8, BLOCK_BYTES => usize)), 0);
    }

    pub(crate) fn event(&self, stream: u64) -> u64 {
        let mut event = 0;
        assert_eq!(call!(self, "cuEventCreate"(&raw mut event => *mut u64, 0 => u32)), 0);
        assert_eq!(call!(self, "cuEventRecord"(event => u64, stream => u64)), 0);
        event
    }

    /// The stream does nothing more before the event has come.
    pub(crate) fn goes_on_after(&self, stream: u64, event: u64) {
        assert_eq!(call!(self, "cuStreamWaitEvent"(stream => u64, event => u64, 0 => u32)), 0);
    }

    pub(crate) fn milliseconds(&self, from: u64, to: u64) -> f64 {
        let mut milliseconds = 0.0;
        assert_eq!(call!(self, "cuEventSynchronize"(to => u64)), 0);
        assert_eq!(
            call!(self, "cuEventElapsedTime"(&raw mut milliseconds => *mut f32, from => u64, to => u64)),
            0
        );
        f64::from(milliseconds)
    }

    /// Launches about 10 ms of work.
    pub(crate) fn launch(&self, stream: u64) {
        self.launch_by("cuLaunchKernel", stream);
    }

    /// Launches about 0.1 ms of work.
    pub(crate) fn launch_short(&self, stream: u64) {
        self.launch_loops("cuLaunchKernel", stream, LOOPS / SHORT_PART);
    }

    /// About 10 ms, by a variant of the call.
    pub(crate) fn launch_by(&self, name: &str, stream: u64) {
        self.launch_loops(name, stream, LOOPS);
    }

    fn launch_loops(&self, name: &str, stream: u64, loops: u64) {
        let out = 0_u64;
        let parameters = [(&raw const loops).cast::<c_void>(), (&raw const out).cast()];
        let status = call!(self, name(
            self.function => u64, 1 => u32, 1 => u32, 1 => u32, 1 => u32, 1 => u32, 1 => u32, 0 => u32,
            stream => u64, parameters.as_ptr() => *const *const c_void, null() => *const c_void
        ));
        assert_eq!(status, 0);
    }

    /// Records three launches into a stream, as a graph that can be launched.
    pub(crate) fn graph(&self, stream: u64, beside: u64) -> u64 {
        let (mut graph, mut instance) = (0_u64, 0_u64);
        assert_eq!(call!(self, "cuStreamBeginCapture_v2"(stream => u64, 0 => u32)), 0);
        self.launch(stream);
        self.goes_on_after(beside, self.event(stream));
        self.launch(beside);
        self.goes_on_after(stream, self.event(beside));
        self.launch(stream);
        assert_eq!(call!(self, "cuStreamEndCapture"(stream => u64, &raw mut graph => *mut u64)), 0);
        assert_eq!(
            call!(self, "cuGraphInstantiateWithFlags"(&raw mut instance => *mut u64, graph => u64, 0 => u64)),
            0
        );
        instance
    }
}
