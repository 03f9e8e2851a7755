//! `leeway work matmul`: the paper's task, one product of two square matrices.
//!
//! The matrices repeat a band of a few rows, so that the program needs little host memory however large they are;
//! the device gets all of it. Elements are small whole numbers: sums are exact, and a wrong one is wrong, not rough.

use super::device::{Device, Memory};
use super::phases::Phases;
use anyhow::Result;
use wire::work::WorkReport;

/// Rows of a band.
const BAND_ROWS: usize = 256;
/// Elements of each band of the product that are checked.
const CHECKS_PER_BAND: usize = 8;

/// Multiplies, so many times, and checks the product where the device computes one.
pub(crate) fn run(device: Device, mut phases: Phases, n: u32, repeat: u32) -> Result<WorkReport> {
    // The driver compiles it: work of the host, which several programs do side by side, and no part of the kernel's time.
    let matmul = device.matmul()?;
    let side = n as usize;
    let rows = BAND_ROWS.min(side);
    let mut band = vec![0.0; rows * side];
    let bytes = u64::from(n) * u64::from(n) * size_of::<f32>() as u64;
    let matrices = [device.allocate(bytes)?, device.allocate(bytes)?, device.allocate(bytes)?];
    phases.allocated();
    for (memory, element) in [(matrices[0], left as fn(usize, usize) -> f32), (matrices[1], right)] {
        fill(&mut band, side, element);
        for first in (0..side).step_by(rows) {
            let length = rows.min(side - first) * side;
            device.copy_in(memory, first * side, &band[..length])?;
        }
    }
    phases.input();
    for _ in 0..repeat {
        matmul.launch(matrices, n)?;
        device.finish()?;
        phases.kernels += 1;
    }
    phases.kernel();
    let product_ok = copy_out_and_check(&device, &mut band, matrices[2], side)?;
    phases.output();
    let kept = came_back(&device, matrices[0], side)?;
    for memory in matrices {
        device.free(memory)?;
    }
    device.close()?;
    Ok(phases.end(product_ok && kept))
}

/// Copies the product band by band.
fn copy_out_and_check(device: &Device, band: &mut [f32], product: Memory, side: usize) -> Result<bool> {
    let rows = band.len() / side;
    let mut ok = true;
    for first in (0..side).step_by(rows) {
        let length = rows.min(side - first) * side;
        device.copy_out(&mut band[..length], product, first * side)?;
        if device.computes() {
            ok &= is_product(&band[..length], first, side);
        }
    }
    Ok(ok)
}

/// Whether a few elements, spread over the band, are what they must be.
fn is_product(band: &[f32], first: usize, side: usize) -> bool {
    (0..CHECKS_PER_BAND).all(|check| {
        let at = (band.len() - 1) * check / (CHECKS_PER_BAND - 1).max(1);
        let (row, column) = (first + at / side, at % side);
        let sum: f32 = (0..side).map(|inner| left(row, inner) * right(inner, column)).sum();
        // Whole numbers below 2²⁴ are exact, in any order of addition.
        (band[at] - sum).abs() < 0.5
    })
}

/// Whether the start of the input is still there: the simulated device keeps that much.
fn came_back(device: &Device, input: Memory, side: usize) -> Result<bool> {
    let mut row = vec![0.0; side.min(1_024)];
    device.copy_out(&mut row, input, 0)?;
    Ok(row.iter().enumerate().all(|(column, element)| (element - left(0, column)).abs() < 0.5))
}

fn fill(band: &mut [f32], side: usize, element: fn(usize, usize) -> f32) {
    for (row, line) in band.chunks_mut(side).enumerate() {
        for (column, place) in line.iter_mut().enumerate() {
            *place = element(row, column);
        }
    }
}

/// An element of the first matrix: -2 to 2, the same in every band.
fn left(row: usize, column: usize) -> f32 {
    ((row % BAND_ROWS * 7 + column * 3) % 5) as f32 - 2.0
}

/// An element of the second matrix: -3 to 3, the same in every band.
fn right(row: usize, column: usize) -> f32 {
    ((row % BAND_ROWS * 2 + column * 5) % 7) as f32 - 3.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_right_product_passes_and_a_wrong_one_does_not() {
        let side = 300;
        let element =
            |row, column| (0..side).map(|inner| left(row, inner) * right(inner, column)).sum::<f32>();
        let first = 256;
        let mut band: Vec<f32> = (0..44 * side).map(|at| element(first + at / side, at % side)).collect();
        assert!(band.iter().any(|element| element.abs() > 1.0));
        assert!(is_product(&band, first, side));
        band[0] += 1.0;
        assert!(!is_product(&band, first, side));
    }
}
