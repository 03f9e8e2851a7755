//! The simulated libcuda's symbols, as probes meet them.
#![allow(unsafe_code, reason = "a library's symbols are looked up")]

use crate::machine::Machine;
use libloading::Library;
use std::collections::BTreeMap;

/// Work starts, or is drained, at these.
const PROBED: [&str; 19] = [
    "cuInit",
    "cuCtxSynchronize",
    "cuCtxSynchronize_v2",
    "cuStreamSynchronize",
    "cuStreamSynchronize_ptsz",
    "cuStreamQuery",
    "cuEventSynchronize",
    "cuEventQuery",
    "cuLaunchKernel",
    "cuLaunchKernel_ptsz",
    "cuLaunchKernelEx",
    "cuLaunchCooperativeKernel",
    "cuGraphLaunch",
    "cuMemAlloc_v2",
    "cuMemcpyHtoD_v2",
    "cuMemcpyDtoH_v2",
    "cuMemcpyHtoDAsync_v2",
    "cuMemcpyDtoHAsync_v2",
    "cuMemsetD32_v2",
];

/// `push %rbp`, which the kernel emulates under a probe.
const PUSH: u8 = 0x55;

#[test]
fn every_probed_symbol_has_an_address_of_its_own_and_begins_with_a_push() {
    let machine = Machine::start(&[]);
    // SAFETY: the library has no initialisers beyond Rust's own.
    let library = unsafe { Library::new(machine.dir().join("libcuda.so.1")) }.unwrap();
    let mut seen = BTreeMap::new();
    for name in PROBED {
        // SAFETY: the symbol is not called; its address is that of at least one byte of code.
        let (address, first) = unsafe {
            let symbol = library.get::<*const u8>(name).unwrap().try_as_raw_ptr().unwrap();
            (symbol as usize, *symbol.cast::<u8>())
        };
        assert_eq!(seen.insert(address, name), None, "{name}");
        if cfg!(target_arch = "x86_64") {
            assert_eq!(first, PUSH, "{name}");
        }
    }
}
