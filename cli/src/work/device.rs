//! A device with a context: what the programs do on it.

use super::calls::Calls;
use super::kernels;
use super::phases::Phases;
use anyhow::Result;
use std::ffi::c_void;
use std::path::Path;

/// The attribute that is the device's clock in kHz: `CU_DEVICE_ATTRIBUTE_CLOCK_RATE`.
const CLOCK_RATE: i32 = 13;
/// Threads of a block along each side, for a matrix.
const TILE: u32 = 16;

/// A device of the driver's, with our context.
pub(crate) struct Device {
    calls: Calls,
    context: u64,
    name: String,
    clock_khz: u64,
}

/// Memory on the device, by its address there.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Memory(pub(crate) u64);

impl Device {
    /// Loads the driver and creates a context. Also when that began, and when it was done.
    pub(crate) fn open(driver: Option<&Path>, ordinal: u32) -> Result<(Self, Phases)> {
        let calls = Calls::load(driver)?;
        let mut phases = Phases::begin();
        calls.initialise()?;
        let device = calls.device(ordinal)?;
        let context = calls.create_context(device)?;
        phases.context();
        let name = calls.name(device)?;
        let clock_khz = u64::try_from(calls.attribute(CLOCK_RATE, device)?)?;
        phases.device.clone_from(&name);
        Ok((Self { calls, context, name, clock_khz }, phases))
    }

    /// Whether it computes. The simulated one takes the time, but not the trouble.
    pub(crate) fn computes(&self) -> bool {
        self.name != ::gpu::NAME
    }

    pub(crate) fn allocate(&self, bytes: u64) -> Result<Memory> {
        self.calls.allocate(usize::try_from(bytes)?).map(Memory)
    }

    pub(crate) fn allocate_managed(&self, bytes: u64) -> Result<Memory> {
        self.calls.allocate_managed(usize::try_from(bytes)?).map(Memory)
    }

    pub(crate) fn free(&self, memory: Memory) -> Result<()> {
        self.calls.free(memory.0)
    }

    /// Copies to the device, `at` so many numbers from the memory's start.
    pub(crate) fn copy_in(&self, to: Memory, at: usize, from: &[f32]) -> Result<()> {
        self.calls.copy_in(to.0 + (at * size_of::<f32>()) as u64, from)
    }

    pub(crate) fn copy_out(&self, to: &mut [f32], from: Memory, at: usize) -> Result<()> {
        self.calls.copy_out(to, from.0 + (at * size_of::<f32>()) as u64)
    }

    /// Waits for all that was launched.
    pub(crate) fn finish(&self) -> Result<()> {
        self.calls.synchronize()
    }

    /// A kernel that is ready to be launched.
    pub(crate) fn matmul(&self) -> Result<Matmul<'_>> {
        Ok(Matmul { calls: &self.calls, function: self.calls.function(kernels::MATMUL, c"matmul")? })
    }

    /// A kernel that keeps the device busy for about so long when nobody else is there.
    pub(crate) fn spin(&self, kernel_us: u64) -> Result<Spin<'_>> {
        let function = self.calls.function(&kernels::spin(), c"spin")?;
        let loops = (kernel_us * self.clock_khz / 1_000 / kernels::SPIN_CYCLES_PER_LOOP).max(1);
        Ok(Spin { calls: &self.calls, function, loops })
    }

    /// Gives the context back.
    pub(crate) fn close(self) -> Result<()> {
        self.calls.destroy_context(self.context)
    }
}

/// The product of two square matrices.
pub(crate) struct Matmul<'a> {
    calls: &'a Calls,
    function: u64,
}

impl Matmul<'_> {
    pub(crate) fn launch(&self, [a, b, c]: [Memory; 3], n: u32) -> Result<()> {
        let blocks = n.div_ceil(TILE);
        let parameters = [pointer(&a.0), pointer(&b.0), pointer(&c.0), pointer(&n)];
        self.calls.launch(self.function, [blocks, blocks], [TILE, TILE], &parameters)
    }
}

/// A kernel of a given length.
pub(crate) struct Spin<'a> {
    calls: &'a Calls,
    function: u64,
    loops: u64,
}

impl Spin<'_> {
    /// Launches it; it leaves a number in the memory, so that it cannot be left out.
    pub(crate) fn launch(&self, out: Memory) -> Result<()> {
        self.calls.launch(self.function, [1, 1], [1, 1], &[pointer(&self.loops), pointer(&out.0)])
    }
}

fn pointer<T>(value: &T) -> *const c_void {
    std::ptr::from_ref(value).cast()
}
