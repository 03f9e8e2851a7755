//! How long a kernel runs. What it computes is not simulated; how long that takes is, for the kernels we know.
//!
//! - `matmul(…, n)`: a naive product of n × n matrices, 2 · n³ operations at the rate measured on an H200.
//! - `spin(loops, …)`: a chain of dependent operations, 256 cycles of the device's clock per loop.
//! - any other: a start-up time and its threads at a fixed rate.

use crate::ptx::Entry;
use gpu::costs::{CLOCK_KHZ, MATMUL_OPERATIONS_PER_NS};

/// Cycles of one loop of `spin`: 64 dependent operations of 4 cycles each.
const SPIN_CYCLES_PER_LOOP: f64 = 256.0;
/// From launch to the first thread, and back.
const LAUNCH_NS: f64 = 2_000.0;
/// Threads of a kernel that we do not know: a few operations each.
const THREADS_PER_NS: f64 = 100.0;

/// Work of one launch in nanoseconds. `parameter` reads the parameter in a place, with its size.
pub(crate) fn work_ns(entry: &Entry, threads: u64, parameter: impl Fn(usize, usize) -> Option<u64>) -> u64 {
    let sized = |place: usize| parameter(place, *entry.parameters.get(place)?);
    let known = match entry.name.as_str() {
        "matmul" => entry.parameters.len().checked_sub(1).and_then(sized).map(|n| {
            let n = n as f64;
            2.0 * n * n * n / MATMUL_OPERATIONS_PER_NS
        }),
        "spin" => sized(0).map(|loops| loops as f64 * SPIN_CYCLES_PER_LOOP * 1e6 / f64::from(CLOCK_KHZ)),
        _ => None,
    };
    (LAUNCH_NS + known.unwrap_or(threads as f64 / THREADS_PER_NS)) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_large_matmul_takes_what_it_took_on_an_h200() {
        let entry = Entry { name: "matmul".to_owned(), parameters: vec![8, 8, 8, 4] };
        let work = work_ns(&entry, 1, |place, size| ((place, size) == (3, 4)).then_some(13_312));
        assert!((840_000_000..860_000_000).contains(&work), "{work}");
    }

    #[test]
    fn spinning_takes_what_it_is_told_to() {
        let entry = Entry { name: "spin".to_owned(), parameters: vec![8] };
        let loops = u64::from(CLOCK_KHZ) * 10 / 256;
        let work = work_ns(&entry, 1, |_, _| Some(loops));
        assert!((9_990_000..10_010_000).contains(&work), "{work}");
    }
}
