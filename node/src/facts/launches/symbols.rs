//! Which functions of libcuda start GPU work, wait for it, or allocate, and where they are in a file.
//!
//! A function has several variants: versions (`_v2`), and a stream 0 that is the thread's own (`_ptsz`, `_ptds`). Programs get any of them
//! from `cuGetProcAddress`, so every variant that a library has is probed. Several names of one address are one probe.

use super::layout::{PER_THREAD, SLOT_SHIFT, operation as op, place};
use object::{Object, ObjectSegment, ObjectSymbol};
use std::collections::BTreeMap;
use std::fs::File;

/// The functions, by their names without version and variant, unless one version has its stream elsewhere; what each does, and where its
/// stream or size is.
const FUNCTIONS: &[(&str, u64, u64)] = &[
    ("cuInit", op::INIT, place::NOWHERE),
    ("cuCtxCreate", op::CONTEXT, place::NOWHERE),
    ("cuDevicePrimaryCtxRetain", op::CONTEXT, place::NOWHERE),
    // It makes the primary one, too.
    ("cuGreenCtxCreate", op::CONTEXT, place::NOWHERE),
    ("cuLaunchKernel", op::LAUNCH, place::ARGUMENT_9),
    ("cuLaunchCooperativeKernel", op::LAUNCH, place::ARGUMENT_9),
    ("cuLaunchKernelEx", op::LAUNCH, place::CONFIGURATION),
    ("cuLaunchCooperativeKernelMultiDevice", op::LAUNCH, place::NOWHERE),
    ("cuGraphLaunch", op::LAUNCH, 2),
    ("cuLaunch", op::LAUNCH, place::NOWHERE),
    ("cuLaunchGrid", op::LAUNCH, place::NOWHERE),
    ("cuLaunchGridAsync", op::LAUNCH, 4),
    ("cuMemcpyAsync", op::COPY, 4),
    ("cuMemcpyHtoDAsync", op::COPY, 4),
    ("cuMemcpyDtoHAsync", op::COPY, 4),
    ("cuMemcpyDtoDAsync", op::COPY, 4),
    ("cuMemcpyHtoAAsync", op::COPY, 5),
    ("cuMemcpyAtoHAsync", op::COPY, 5),
    ("cuMemcpyPeerAsync", op::COPY, 6),
    ("cuMemcpy2DAsync", op::COPY, 2),
    ("cuMemcpy3DAsync", op::COPY, 2),
    ("cuMemcpy3DPeerAsync", op::COPY, 2),
    ("cuMemcpyWithAttributesAsync", op::COPY, 5),
    ("cuMemcpy3DWithAttributesAsync", op::COPY, 3),
    ("cuMemcpyBatchAsync", op::COPY, place::ARGUMENT_9),
    ("cuMemcpyBatchAsync_v2", op::COPY, place::ARGUMENT_8),
    ("cuMemcpy3DBatchAsync", op::COPY, 5),
    ("cuMemcpy3DBatchAsync_v2", op::COPY, 4),
    ("cuMemPrefetchAsync", op::COPY, 4),
    ("cuMemPrefetchAsync_v2", op::COPY, 5),
    ("cuMemPrefetchBatchAsync", op::COPY, place::ARGUMENT_8),
    ("cuMemDiscardAndPrefetchBatchAsync", op::COPY, place::ARGUMENT_8),
    ("cuMemDiscardBatchAsync", op::COPY, 5),
    ("cuMemBatchDecompressAsync", op::COPY, 5),
    ("cuMemMapArrayAsync", op::COPY, 3),
    ("cuGraphUpload", op::COPY, 2),
    // Within the device and fills: the program does not wait for them, whatever their names say.
    ("cuMemcpyDtoD", op::COPY, place::NOWHERE),
    ("cuMemcpyDtoA", op::COPY, place::NOWHERE),
    ("cuMemcpyAtoD", op::COPY, place::NOWHERE),
    ("cuMemcpyAtoA", op::COPY, place::NOWHERE),
    ("cuMemcpyPeer", op::COPY, place::NOWHERE),
    ("cuMemsetD8", op::COPY, place::NOWHERE),
    ("cuMemsetD16", op::COPY, place::NOWHERE),
    ("cuMemsetD32", op::COPY, place::NOWHERE),
    ("cuMemsetD2D8", op::COPY, place::NOWHERE),
    ("cuMemsetD2D16", op::COPY, place::NOWHERE),
    ("cuMemsetD2D32", op::COPY, place::NOWHERE),
    ("cuMemsetD8Async", op::COPY, 4),
    ("cuMemsetD16Async", op::COPY, 4),
    ("cuMemsetD32Async", op::COPY, 4),
    ("cuMemsetD2D8Async", op::COPY, 6),
    ("cuMemsetD2D16Async", op::COPY, 6),
    ("cuMemsetD2D32Async", op::COPY, 6),
    ("cuMemcpy", op::COPY_AND_WAIT, place::NOWHERE),
    ("cuMemcpyHtoD", op::COPY_AND_WAIT, place::NOWHERE),
    ("cuMemcpyDtoH", op::COPY_AND_WAIT, place::NOWHERE),
    ("cuMemcpyHtoA", op::COPY_AND_WAIT, place::NOWHERE),
    ("cuMemcpyAtoH", op::COPY_AND_WAIT, place::NOWHERE),
    ("cuMemcpy2D", op::COPY_AND_WAIT, place::PLANE),
    ("cuMemcpy2DUnaligned", op::COPY_AND_WAIT, place::PLANE),
    ("cuMemcpy3D", op::COPY_AND_WAIT, place::BODY),
    ("cuMemcpy3DPeer", op::COPY_AND_WAIT, place::BODY),
    ("cuCtxSynchronize", op::WAIT, place::EVERYTHING),
    ("cuCtxDestroy", op::WAIT, place::EVERYTHING),
    ("cuDevicePrimaryCtxReset", op::WAIT, place::EVERYTHING),
    ("cuStreamSynchronize", op::WAIT, 1),
    ("cuStreamQuery", op::WAIT, 1),
    ("cuEventSynchronize", op::WAIT, place::EVENT),
    ("cuEventQuery", op::WAIT, place::EVENT),
    ("cuEventRecord", op::RECORD, 2),
    ("cuEventRecordWithFlags", op::RECORD, 2),
    ("cuStreamWaitEvent", op::JOIN, 1),
    ("cuStreamBeginCapture", op::CAPTURE, 1),
    ("cuStreamBeginCaptureToGraph", op::CAPTURE, 1),
    ("cuStreamEndCapture", op::CAPTURED, 1),
    ("cuMemAlloc", op::ALLOCATE, 2),
    ("cuMemAllocManaged", op::ALLOCATE, 2),
    ("cuMemAllocAsync", op::ALLOCATE, 2),
    ("cuMemAllocFromPoolAsync", op::ALLOCATE, 2),
    ("cuMemAllocPitch", op::ALLOCATE, place::PITCHED),
    ("cuMemCreate", op::ALLOCATE, 2),
    ("cuMemFree", op::FREE, place::NOWHERE),
    ("cuMemFreeAsync", op::FREE, place::NOWHERE),
    ("cuMemRelease", op::FREE, place::NOWHERE),
    ("cuMemMap", op::MAP, place::NOWHERE),
    ("cuMemUnmap", op::UNMAP, place::NOWHERE),
];

/// Which of a library's functions are probed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Set {
    /// The first call, and the context: rare, and so for every process.
    Starts,
    /// Allocations.
    Memory,
    /// Everything that a task consists of.
    Work,
}

impl Set {
    fn has(self, operation: u64) -> bool {
        match self {
            Set::Starts => matches!(operation, op::INIT | op::CONTEXT),
            Set::Memory => matches!(operation, op::ALLOCATE | op::FREE | op::MAP | op::UNMAP),
            Set::Work => operation > op::CONTEXT,
        }
    }
}

/// Where to probe: offsets in the file, and the cookie of each.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Points {
    pub(super) offsets: Vec<u64>,
    pub(super) cookies: Vec<u64>,
}

impl Points {
    /// The same, for the process in that slot.
    pub(super) fn with_slot(mut self, slot: u32) -> Self {
        self.cookies.iter_mut().for_each(|cookie| *cookie |= u64::from(slot) << SLOT_SHIFT);
        self
    }
}

/// The functions of one library that are of interest, by their offset in the file.
#[derive(Clone, Debug, Default)]
pub(super) struct Symbols(BTreeMap<u64, u64>);

impl Symbols {
    /// Reads a library's symbols. It may be a tenant's own: nothing in it need be as it should.
    pub(super) fn read(library: &File) -> Result<Self, String> {
        // A driver library has a hundred megabytes, of which its symbols are few.
        let cache = object::ReadCache::new(library);
        let elf = object::File::parse(&cache).map_err(|error| error.to_string())?;
        let segments: Vec<(u64, u64, u64)> = elf
            .segments()
            .map(|segment| (segment.address(), segment.size(), segment.file_range().0))
            .collect();
        let mut found = BTreeMap::new();
        for symbol in elf.dynamic_symbols().filter(|symbol| symbol.is_definition()) {
            let Some(cookie) = symbol.name().ok().and_then(cookie) else { continue };
            let address = symbol.address();
            let within = |(start, size, at): &(u64, u64, u64)| {
                let into = address.checked_sub(*start).filter(|into| into < size)?;
                into.checked_add(*at)
            };
            found.extend(segments.iter().find_map(within).map(|offset| (offset, cookie)));
        }
        if found.is_empty() {
            return Err("it has none of CUDA's functions".to_owned());
        }
        Ok(Self(found))
    }

    /// Where to probe on the way in.
    pub(super) fn entries(&self, set: Set) -> Points {
        self.points(|operation| set.has(operation))
    }

    /// Where to probe on the way out.
    pub(super) fn returns(&self, set: Set) -> Points {
        let returns = [op::CONTEXT, op::COPY_AND_WAIT, op::WAIT, op::CAPTURE, op::ALLOCATE];
        self.points(|operation| set.has(operation) && returns.contains(&operation))
    }

    fn points(&self, wanted: impl Fn(u64) -> bool) -> Points {
        let wanted = self.0.iter().filter(|(_, cookie)| wanted(**cookie & 0xff));
        let (offsets, cookies) = wanted.map(|(offset, cookie)| (*offset, *cookie)).unzip();
        Points { offsets, cookies }
    }
}

/// The cookie of a symbol: what it does, where its stream is, and whose stream 0 it means.
fn cookie(symbol: &str) -> Option<u64> {
    let (name, per_thread) = match symbol.strip_suffix("_ptsz").or_else(|| symbol.strip_suffix("_ptds")) {
        Some(name) => (name, PER_THREAD),
        None => (symbol, 0),
    };
    let base = match name.rsplit_once("_v") {
        Some((base, version)) if version.parse::<u8>().is_ok() => base,
        _ => name,
    };
    let named = |name: &str| FUNCTIONS.iter().find(|(function, ..)| *function == name);
    let (_, operation, place) = named(name).or_else(|| named(base))?;
    Some(operation | place << 8 | per_thread << 16)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_variant_of_a_function_is_that_function() {
        let plain = cookie("cuLaunchKernel").expect("a launch");
        assert_eq!(plain, op::LAUNCH | place::ARGUMENT_9 << 8);
        assert_eq!(cookie("cuLaunchKernel_ptsz"), Some(plain | PER_THREAD << 16));
        assert_eq!(cookie("cuCtxSynchronize_v2"), cookie("cuCtxSynchronize"));
        assert_eq!(
            cookie("cuMemcpyHtoD_v2_ptds"),
            cookie("cuMemcpyHtoD").map(|cookie| cookie | PER_THREAD << 16)
        );
        let place = |symbol| cookie(symbol).map(|cookie| cookie >> 8 & 0xff);
        assert_eq!(place("cuMemcpyBatchAsync_ptsz"), Some(place::ARGUMENT_9));
        assert_eq!(place("cuMemcpyBatchAsync_v2_ptsz"), Some(place::ARGUMENT_8), "it has one argument fewer");
        for other in ["cuLaunchKernelFoo", "cuMemGetInfo_v2", "cuLaunchHostFunc", "cuMemAllocHost_v2", ""] {
            assert_eq!(cookie(other), None, "{other}");
        }
    }

    #[test]
    fn a_file_without_cuda_is_refused() {
        assert!(Symbols::read(&File::open("/proc/self/exe").expect("ourselves")).is_err());
        assert!(Symbols::read(&File::open("/dev/null").expect("nothing")).is_err());
    }
}
