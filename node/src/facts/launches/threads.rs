//! Whether probes of one process see all of its threads, tried out on ourselves.
//!
//! The first kernels with `uprobe_multi` (Linux 6.6 up to 6.9, unless mended) compare threads where they should compare processes: a server that
//! launches from its workers would pass every shut gate, and nobody would see it. A version number does not tell who was mended.

use super::kernel::Programs;
use super::layout::{Event, kind, operation};
use super::symbols::Points;
use aya::maps::{MapData, RingBuf};
use std::hint::black_box;
use std::io;
use std::path::Path;

/// Probes a function of ours, calls it from another thread, and looks whether that was seen.
pub(super) fn are_seen(programs: &Programs, ring: &mut RingBuf<MapData>) -> io::Result<bool> {
    let offset = offset_of(landmark as *const () as u64)?;
    let points = Points { offsets: vec![offset], cookies: vec![operation::INIT] };
    let own = std::process::id();
    let link = programs.attach(Path::new("/proc/self/exe"), Some(own), &points, &Points::default())?;
    std::thread::spawn(|| landmark(1)).join().map_err(|_| io::Error::other("a thread failed"))?;
    drop(link);
    let mut seen = false;
    while let Some(bytes) = ring.next() {
        seen |= Event::read(&bytes).is_some_and(|event| (event.pid, event.kind) == (own, kind::INIT));
    }
    Ok(seen)
}

/// Called by nobody else. It does something, or it would be one with others that do nothing.
#[inline(never)]
extern "C" fn landmark(number: u64) -> u64 {
    black_box(number ^ 0x1ee_3a11)
}

/// Where in our file an address is.
pub(super) fn offset_of(address: u64) -> io::Result<u64> {
    let maps = std::fs::read_to_string("/proc/self/maps")?;
    let offset = maps.lines().find_map(|line| offset_in(line, address));
    offset.ok_or_else(|| io::Error::other("our own code is not mapped"))
}

/// Where in its file an address is, if a line of `/proc/<pid>/maps` has it: `7f00-7f01 r-xp 00000000 …`.
fn offset_in(line: &str, address: u64) -> Option<u64> {
    let number = |text| u64::from_str_radix(text, 16).ok();
    let mut words = line.split(' ');
    let (start, end) = words.next()?.split_once('-')?;
    let (start, end, offset) = (number(start)?, number(end)?, number(words.nth(1)?)?);
    (start..end).contains(&address).then(|| address - start + offset)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_somewhere_in_its_file() {
        let line = "7f00-7fff r-xp 00001000 fd:00 42                 /usr/bin/leeway";
        assert_eq!(offset_in(line, 0x7f10), Some(0x1010));
        assert_eq!(offset_in(line, 0x7fff), None);
        assert_eq!(offset_in("", 0), None);
        let file = std::fs::read("/proc/self/exe").unwrap();
        assert!(offset_of(landmark as *const () as u64).unwrap() < file.len() as u64);
    }
}
