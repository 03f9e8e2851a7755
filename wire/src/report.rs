//! What one GPU of one node tells a master: the paper's 16 bytes, or a single one.
//!
//! ```text
//! byte 0     bits 0 to 2: missed, GPU memory full, GPU core full; bit 3: all 16 bytes follow; bit 4: a GPU's
//!            number follows; bits 5 to 7: the layout's version
//! byte 1     the GPU
//! byte 2-3   the lowest bits of the report's number
//! byte 4-7   free GPU memory in MiB
//! byte 8-11  the summed float in milliseconds, rounded down; the greatest value: unlimited
//! byte 12-15 the least float, likewise
//! ```
//!
//! A GPU that takes no container says so in its first byte and nothing more, as in the paper; one that is not the node's
//! first adds its number. Little-endian. Which node speaks is known from its certificate.

/// The layout that is written here.
pub const VERSION: u8 = 1;
/// A whole record: the paper's size.
pub const RECORD_BYTES: usize = 16;
/// The most GPUs one message tells of.
pub const GPUS_MAX: usize = 64;

const MISSED: u8 = 1;
const MEMORY_FULL: u8 = 1 << 1;
const CORE_FULL: u8 = 1 << 2;
const WHOLE: u8 = 1 << 3;
const NUMBERED: u8 = 1 << 4;
const VERSION_SHIFT: u32 = 5;

/// What one GPU says.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Record {
    /// Which GPU of the node.
    pub gpu: u8,
    /// The latest task of one of its containers missed.
    pub missed: bool,
    /// Its memory is full.
    pub memory_full: bool,
    /// Its core is at 100 %.
    pub core_full: bool,
    /// The rest; a GPU that takes no container says nothing of it.
    pub figures: Option<Figures>,
}

/// What a GPU that takes containers says besides.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Figures {
    /// The lowest bits of the report's number.
    pub sequence: u16,
    /// Free GPU memory.
    pub memory_free_mib: u32,
    /// The sum of the floats of its containers' latest tasks; none: unlimited.
    pub float_sum_ms: Option<i32>,
    /// The least of (deadline − forecast) over its containers; none: unlimited.
    pub float_least_ms: Option<i32>,
}

/// Why bytes are no report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NoReport {
    /// It ends in the middle of a record.
    #[error("a report ends in the middle of a record")]
    Short,
    /// It has another layout.
    #[error("a report of layout {0}, and {VERSION} is understood")]
    Version(u8),
    /// It tells of more GPUs than any node has.
    #[error("a report of more than {GPUS_MAX} GPUs")]
    Long,
}

impl Record {
    /// Adds the record's bytes to a report.
    pub fn write(&self, report: &mut Vec<u8>) {
        let flag = |set: bool, bit: u8| if set { bit } else { 0 };
        let mut first = (VERSION << VERSION_SHIFT)
            | flag(self.missed, MISSED)
            | flag(self.memory_full, MEMORY_FULL)
            | flag(self.core_full, CORE_FULL);
        let Some(figures) = self.figures else {
            first |= flag(self.gpu > 0, NUMBERED);
            report.push(first);
            report.extend((self.gpu > 0).then_some(self.gpu));
            return;
        };
        report.extend([first | WHOLE, self.gpu]);
        report.extend(figures.sequence.to_le_bytes());
        report.extend(figures.memory_free_mib.to_le_bytes());
        report.extend(figures.float_sum_ms.unwrap_or(i32::MAX).to_le_bytes());
        report.extend(figures.float_least_ms.unwrap_or(i32::MAX).to_le_bytes());
    }
}

/// The records of a report, in its order.
pub fn read(mut report: &[u8]) -> Result<Vec<Record>, NoReport> {
    let mut records = Vec::new();
    while let Some(&first) = report.first() {
        if first >> VERSION_SHIFT != VERSION {
            return Err(NoReport::Version(first >> VERSION_SHIFT));
        }
        if records.len() == GPUS_MAX {
            return Err(NoReport::Long);
        }
        let length = match () {
            () if first & WHOLE != 0 => RECORD_BYTES,
            () if first & NUMBERED != 0 => 2,
            () => 1,
        };
        let (record, rest) = report.split_at_checked(length).ok_or(NoReport::Short)?;
        records.push(Record {
            gpu: record.get(1).copied().unwrap_or(0),
            missed: first & MISSED != 0,
            memory_full: first & MEMORY_FULL != 0,
            core_full: first & CORE_FULL != 0,
            figures: figures(record),
        });
        report = rest;
    }
    Ok(records)
}

fn figures(record: &[u8]) -> Option<Figures> {
    let four = |at: usize| Some(u32::from_le_bytes(record.get(at..at + 4)?.try_into().ok()?));
    let float = |at: usize| four(at).map(u32::cast_signed).filter(|float| *float != i32::MAX);
    Some(Figures {
        sequence: u16::from_le_bytes(record.get(2..4)?.try_into().ok()?),
        memory_free_mib: four(4)?,
        float_sum_ms: float(8),
        float_least_ms: float(12),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const IDLE: Record = Record {
        gpu: 0,
        missed: false,
        memory_full: false,
        core_full: false,
        figures: Some(Figures {
            sequence: 7,
            memory_free_mib: 24_576,
            float_sum_ms: None,
            float_least_ms: Some(-250),
        }),
    };

    fn written(records: &[Record]) -> Vec<u8> {
        let mut bytes = Vec::new();
        records.iter().for_each(|record| record.write(&mut bytes));
        bytes
    }

    #[test]
    fn a_gpu_takes_sixteen_bytes_and_one_that_takes_nobody_a_single_one() {
        assert_eq!(written(&[IDLE]).len(), RECORD_BYTES);
        let barred = Record { missed: true, figures: None, ..IDLE };
        assert_eq!(written(&[barred]).len(), 1);
        assert_eq!(written(&[Record { gpu: 3, ..barred }]).len(), 2);
        let all = [IDLE, Record { gpu: 3, ..barred }, barred];
        assert_eq!(read(&written(&all)).unwrap(), all);
    }

    #[test]
    fn what_is_no_report_is_refused() {
        assert_eq!(read(&written(&[IDLE])[..15]), Err(NoReport::Short));
        assert_eq!(read(&[0xFF]), Err(NoReport::Version(7)));
        assert_eq!(read(&[VERSION << VERSION_SHIFT; GPUS_MAX + 1]), Err(NoReport::Long));
        assert_eq!(read(&[]), Ok(Vec::new()));
    }

    proptest! {
        #[test]
        fn no_bytes_break_the_reader(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = read(&bytes);
        }
    }
}
