//! The symbols that the library exports, and the function behind each.
//!
//! Every symbol has an address of its own and begins with `push %rbp`, as in the real library: probes are attached
//! to addresses, and the kernel emulates a probed `push` where it must single-step most other instructions.
#![allow(non_snake_case, reason = "the names of cuda.h")]
#![allow(missing_docs, reason = "documented by NVIDIA under these names")]

use crate::{
    checkpoint, context, device, driver, errors, event, graph, launch, lookup, memory, module, stream,
};

/// Goes on to a function with all arguments where they are.
#[cfg(target_arch = "x86_64")]
macro_rules! go_to {
    ($function:path) => {
        core::arch::naked_asm!("push rbp", "mov rbp, rsp", "pop rbp", "jmp {}", sym $function)
    };
}

#[cfg(target_arch = "aarch64")]
macro_rules! go_to {
    ($function:path) => {
        core::arch::naked_asm!("nop", "b {}", sym $function)
    };
}

macro_rules! entries {
    ($($name:ident => $function:path;)*) => {
        $(
            #[unsafe(no_mangle)]
            #[unsafe(naked)]
            pub extern "C" fn $name() {
                go_to!($function)
            }
        )*

        /// The address of a symbol.
        pub(crate) fn address(name: &str) -> Option<usize> {
            let symbol = match name {
                $(stringify!($name) => $name as *const () as usize,)*
                _ => return None,
            };
            Some(symbol)
        }
    };
}

entries! {
    cuInit => driver::init;
    cuDriverGetVersion => driver::version;
    cuGetErrorName => errors::name;
    cuGetErrorString => errors::sentence;
    cuGetProcAddress => lookup::find;
    cuGetProcAddress_v2 => lookup::find_v2;

    cuDeviceGet => device::get;
    cuDeviceGetCount => device::count;
    cuDeviceGetName => device::name;
    cuDeviceTotalMem_v2 => device::total_memory;
    cuDeviceGetAttribute => device::attribute;
    cuDeviceGetUuid => device::uuid;
    cuDeviceGetUuid_v2 => device::uuid;

    cuCtxCreate_v2 => context::create;
    cuCtxCreate_v4 => context::create_v4;
    cuCtxDestroy_v2 => context::destroy;
    cuCtxSetCurrent => context::set_current;
    cuCtxGetCurrent => context::get_current;
    cuCtxPushCurrent_v2 => context::push_current;
    cuCtxPopCurrent_v2 => context::pop_current;
    cuCtxGetDevice => context::device_of_current;
    cuCtxSynchronize => context::synchronize;
    cuCtxSynchronize_v2 => context::synchronize_v2;
    cuDevicePrimaryCtxRetain => context::primary_retain;
    cuDevicePrimaryCtxRelease_v2 => context::primary_release;

    cuMemAlloc_v2 => memory::allocate;
    cuMemAllocManaged => memory::allocate_managed;
    cuMemFree_v2 => memory::free;
    cuMemGetInfo_v2 => memory::info;
    cuMemcpyHtoD_v2 => memory::copy_in;
    cuMemcpyDtoH_v2 => memory::copy_out;
    cuMemcpyHtoDAsync_v2 => memory::copy_in_later;
    cuMemcpyDtoHAsync_v2 => memory::copy_out_later;
    cuMemcpyHtoD_v2_ptds => memory::copy_in;
    cuMemcpyDtoH_v2_ptds => memory::copy_out;
    cuMemcpyHtoDAsync_v2_ptsz => memory::copy_in_later_per_thread;
    cuMemcpyDtoHAsync_v2_ptsz => memory::copy_out_later_per_thread;
    cuMemsetD8_v2 => memory::fill_bytes;
    cuMemsetD32_v2 => memory::fill_words;

    cuModuleLoadData => module::load;
    cuModuleLoadDataEx => module::load_with_options;
    cuModuleGetFunction => module::function;
    cuModuleUnload => module::unload;

    cuLaunchKernel => launch::kernel;
    cuLaunchKernel_ptsz => launch::kernel_per_thread;
    cuLaunchKernelEx => launch::kernel_ex;
    cuLaunchKernelEx_ptsz => launch::kernel_ex_per_thread;
    cuLaunchCooperativeKernel => launch::cooperative;
    cuLaunchCooperativeKernel_ptsz => launch::cooperative_per_thread;

    cuStreamCreate => stream::create;
    cuStreamCreateWithPriority => stream::create_with_priority;
    cuStreamDestroy_v2 => stream::destroy;
    cuStreamSynchronize => stream::synchronize;
    cuStreamSynchronize_ptsz => stream::synchronize_per_thread;
    cuStreamQuery => stream::query;
    cuStreamQuery_ptsz => stream::query_per_thread;
    cuStreamWaitEvent => stream::wait_for_event;
    cuStreamBeginCapture_v2 => graph::begin_capture;
    cuStreamEndCapture => graph::end_capture;
    cuStreamIsCapturing => graph::is_capturing;
    cuGraphInstantiateWithFlags => graph::instantiate;
    cuGraphLaunch => graph::launch;
    cuGraphLaunch_ptsz => graph::launch_per_thread;
    cuGraphDestroy => graph::destroy;
    cuGraphExecDestroy => graph::destroy_instance;

    cuEventCreate => event::create;
    cuEventRecord => event::record;
    cuEventRecord_ptsz => event::record_per_thread;
    cuEventSynchronize => event::synchronize;
    cuEventQuery => event::query;
    cuEventElapsedTime => event::elapsed;
    cuEventElapsedTime_v2 => event::elapsed;
    cuEventDestroy_v2 => event::destroy;

    cuCheckpointProcessLock => checkpoint::lock;
    cuCheckpointProcessCheckpoint => checkpoint::checkpoint;
    cuCheckpointProcessRestore => checkpoint::restore;
    cuCheckpointProcessUnlock => checkpoint::unlock;
    cuCheckpointProcessGetState => checkpoint::state;
}
