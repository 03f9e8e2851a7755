//! The loader that a program asks for, in its ELF file; and another in its place.

/// A program header that names the loader.
const INTERPRETER: u32 = 3;
const MAGIC: &[u8] = b"\x7fELF\x02\x01";

/// Where in the file the loader's path is, with the zero byte that ends it; nothing if there is none.
fn place(file: &[u8]) -> Option<std::ops::Range<usize>> {
    if !file.starts_with(MAGIC) {
        return None;
    }
    let half = |at: usize| Some(u16::from_le_bytes(file.get(at..at + 2)?.try_into().ok()?) as usize);
    let word = |at: usize| Some(u32::from_le_bytes(file.get(at..at + 4)?.try_into().ok()?));
    let long = |at: usize| Some(u64::from_le_bytes(file.get(at..at + 8)?.try_into().ok()?) as usize);
    let (headers, size, count) = (long(0x20)?, half(0x36)?, half(0x38)?);
    let header = (0..count).map(|index| headers + index * size).find(|at| word(*at) == Some(INTERPRETER))?;
    let start = long(header + 8)?;
    let end = start.checked_add(long(header + 32)?)?;
    file.get(start..end).map(|_| start..end)
}

/// The loader that the program asks for.
pub(crate) fn loader(file: &[u8]) -> Option<&str> {
    let path = file.get(place(file)?)?;
    std::str::from_utf8(path.strip_suffix(b"\0").unwrap_or(path)).ok()
}

/// Makes the program ask for another loader. Nothing if it asks for none, or for one with a shorter path.
pub(crate) fn set_loader(file: &mut [u8], path: &str) -> Option<()> {
    let place = place(file)?;
    let target = file.get_mut(place)?;
    if path.len() + 1 > target.len() {
        return None;
    }
    target.fill(0);
    target[..path.len()].copy_from_slice(path.as_bytes());
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_program_has_a_loader_and_can_be_given_another() {
        let mut file = std::fs::read("/proc/self/exe").unwrap();
        assert!(loader(&file).is_some_and(|path| path.contains("ld-")), "{:?}", loader(&file));
        set_loader(&mut file, "/run/x/ld.so").unwrap();
        assert_eq!(loader(&file).map(|path| path.trim_end_matches('\0')), Some("/run/x/ld.so"));
        assert_eq!(set_loader(&mut file, &"x".repeat(100)), None);
        assert_eq!(loader(b"no program"), None);
    }
}
