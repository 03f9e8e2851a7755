//! What things cost on the device, as measured on an NVIDIA H200 (driver 580, CUDA 13).

/// From the start of `cuInit` to its return.
pub const INIT_NS: u64 = 160_000_000;
/// The creation of a context. With `cuInit` before it: 0.22 s.
pub const CONTEXT_NS: u64 = 60_000_000;
/// What a context takes of the device's memory before the first allocation, and NVML counts as the process's. It is
/// hundreds of MiB on a real device; with this, the paper's ten tasks fit into the 24 GiB of the paper's GPU.
pub const CONTEXT_BYTES: u64 = 400 << 20;

/// A process is listed by NVML this long after its `cuInit` begins.
pub const LISTED_AFTER_NS: u64 = 140_000_000;
/// A process is listed by NVML this long after its last context is gone.
pub const UNLISTED_AFTER_NS: u64 = 100_000_000;

/// Kernels of n > 1 processes together take this much longer than one after another: each runs at 1 / (n · 1.125).
pub const SLICING_FACTOR: f64 = 1.125;

/// Pageable copies to the device, per process: two 13,312² matrices in 0.28 s.
pub const INPUT_BYTES_PER_NS: f64 = 5.06;
/// Pageable copies from the device, per process: one 13,312² matrix in 0.08 s.
pub const OUTPUT_BYTES_PER_NS: f64 = 8.86;
/// What `cuMemset` fills.
pub const FILL_BYTES_PER_NS: f64 = 3_000.0;
/// Copies that run at full speed side by side; more share the link. The same as in the simulated world of `sim`.
pub const COPIES_AT_ONCE: f64 = 5.0;

/// Memory that a checkpoint takes off the device: 40 GiB in 29.5 s.
pub const CHECKPOINT_BYTES_PER_NS: f64 = 1.456;
/// Memory that a restore brings back: 40 GiB in 7.3 s.
pub const RESTORE_BYTES_PER_NS: f64 = 5.884;

/// NVML's utilisation figures change this often.
pub const WINDOW_NS: u64 = 200_000_000;
/// Samples of per-process utilisation that are kept.
pub const SAMPLES_MAX: usize = 72;
/// Samples of per-process utilisation older than this are dropped.
pub const SAMPLE_AGE_NS_MAX: u64 = 10_000_000_000;

/// Floating-point operations per nanosecond of a naive `matmul`: 13,312² takes 0.85 s.
pub const MATMUL_OPERATIONS_PER_NS: f64 = 5_551.0;
/// The clock that programs are told, in kHz.
pub const CLOCK_KHZ: u32 = 1_980_000;
/// Multiprocessors that programs are told.
pub const MULTIPROCESSORS: u32 = 132;

/// Launches of one process that may be queued; the next waits for room, as in the real driver.
pub const QUEUED_MAX: u64 = 1_024;

/// What the person who starts the device decides.
#[derive(Debug, Clone, Copy)]
pub struct Settings {
    /// How many devices there are.
    pub devices: usize,
    /// Memory of each.
    pub memory_bytes: u64,
    /// See [`LISTED_AFTER_NS`].
    pub listed_after_ns: u64,
    /// See [`UNLISTED_AFTER_NS`].
    pub unlisted_after_ns: u64,
}
