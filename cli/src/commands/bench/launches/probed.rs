//! Whether a process's launches are probed, as its own memory says.
//!
//! Where a probe is, the kernel has put another instruction in the place of the function's first one, in the memory of that process: a trap, or
//! a call where there is room for it. The library's file stays as it is, so the two differ where there is a probe, whatever the agent says.

use crate::failure::Failure;
use anyhow::{Context, Result};
use object::{Object, ObjectSegment, ObjectSymbol, ReadCache};
use std::fs::File;
use std::os::unix::fs::FileExt;

/// The function that launches.
const FUNCTION: &str = "cuLaunchKernel";
/// How many of its first bytes are compared: a call has as many on x86-64, and a trap fewer anywhere.
const BYTES: usize = 5;

/// Whether the function that launches begins otherwise in a process's memory than in the file it was read from.
pub(super) fn are_probed(pid: u32) -> Result<bool> {
    let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).context("could not read its maps")?;
    let code: Vec<Code> = maps.lines().filter_map(code_of_libcuda).collect();
    let path = code.first().ok_or_else(|| Failure::new("a CUDA program has no libcuda"))?.path;
    let file = File::open(path).with_context(|| format!("could not open {path}"))?;
    let offset = offset(&file).with_context(|| format!("could not find {FUNCTION} in {path}"))?;
    let address = code.iter().find_map(|code| code.address(offset));
    let address = address.ok_or_else(|| Failure::new(format!("{FUNCTION} of {path} is not mapped")))?;
    let memory = File::open(format!("/proc/{pid}/mem")).context("could not open its memory")?;
    let (mut here, mut there) = ([0; BYTES], [0; BYTES]);
    memory.read_exact_at(&mut here, address).context("could not read its memory")?;
    file.read_exact_at(&mut there, offset).with_context(|| format!("could not read {path}"))?;
    Ok(here != there)
}

/// A part of a library's code in a process's memory.
#[derive(Debug, PartialEq)]
struct Code<'a> {
    path: &'a str,
    start: u64,
    end: u64,
    /// Where in the file it begins.
    offset: u64,
}

impl Code<'_> {
    /// Where a place in the file is in memory.
    fn address(&self, offset: u64) -> Option<u64> {
        let address = self.start + offset.checked_sub(self.offset)?;
        (address < self.end).then_some(address)
    }
}

/// What one line of a process's maps says, if it is of libcuda's code.
fn code_of_libcuda(line: &str) -> Option<Code<'_>> {
    let number = |text: &str| u64::from_str_radix(text, 16).ok();
    let path = &line[line.find('/')?..];
    let mut words = line.split(' ');
    let (start, end) = words.next()?.split_once('-')?;
    let (may, offset) = (words.next()?, number(words.next()?)?);
    let is_code = may.contains('x') && path.rsplit('/').next()?.starts_with("libcuda.so");
    is_code.then_some(Code { path, start: number(start)?, end: number(end)?, offset })
}

/// Where in a library's file the function is.
fn offset(library: &File) -> Result<u64> {
    // A driver's library has a hundred megabytes, of which its symbols are few.
    let cache = ReadCache::new(library);
    let elf = object::File::parse(&cache)?;
    let mut symbols = elf.dynamic_symbols();
    let function = symbols.find(|symbol| symbol.is_definition() && symbol.name() == Ok(FUNCTION));
    let address = function.context("it has no such function")?.address();
    let within = |segment: object::Segment<'_, '_, _>| {
        let into = address.checked_sub(segment.address()).filter(|into| *into < segment.size())?;
        into.checked_add(segment.file_range().0)
    };
    elf.segments().find_map(within).context("it is in no segment")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_in_the_file_is_found_where_its_code_is_mapped() {
        let code = code_of_libcuda("7f00-7fff r-xp 00001000 fd:00 42      /usr/lib/libcuda.so.580.159.04");
        let path = "/usr/lib/libcuda.so.580.159.04";
        assert_eq!(code, Some(Code { path, start: 0x7f00, end: 0x7fff, offset: 0x1000 }));
        let address = |offset| code.as_ref().and_then(|code| code.address(offset));
        assert_eq!([0xfff, 0x1010, 0x10ff].map(address), [None, Some(0x7f10), None]);
        for other in [
            "7f00-7f01 r--p 00000000 fd:00 42      /usr/lib/libcuda.so.1",
            "7f00-7f01 r-xp 00000000 fd:00 42      /usr/lib/libcudart.so.12",
            "7f00-7f01 rw-p 00000000 00:00 0       [heap]",
        ] {
            assert_eq!(code_of_libcuda(other), None, "{other}");
        }
    }
}
