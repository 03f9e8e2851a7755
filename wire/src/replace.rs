//! A file that is replaced as a whole: written beside and renamed, so that nobody ever reads half of it.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// For what does not outlive a restart of the machine: in `run_dir`, which is memory.
pub fn replace(file: &Path, contents: impl AsRef<[u8]>) -> io::Result<()> {
    let beside = beside(file);
    std::fs::write(&beside, contents)?;
    std::fs::rename(&beside, file)
}

/// For what must be there after the power went: on the disk before it takes the file's place, and the file's place on the disk, too.
pub fn replace_for_good(file: &Path, contents: impl AsRef<[u8]>, mode: u32) -> io::Result<()> {
    let beside = beside(file);
    let mut new = OpenOptions::new().create(true).truncate(true).write(true).mode(mode).open(&beside)?;
    new.write_all(contents.as_ref())?;
    new.sync_all()?;
    std::fs::rename(&beside, file)?;
    file.parent().map_or(Ok(()), |folder| File::open(folder)?.sync_all())
}

/// In the same folder, or it could not be renamed; with the whole name, or `key` and `key.pem` would be written in the same place.
fn beside(file: &Path) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    name.push(".new");
    PathBuf::from(name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn what_was_there_is_gone_and_nothing_is_left_beside() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("key.pem");
        for contents in ["a longer text", "short"] {
            replace(&file, contents).unwrap();
            assert_eq!(std::fs::read_to_string(&file).unwrap(), contents);
        }
        replace_for_good(&file, "kept", 0o600).unwrap();
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "kept");
        assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_file_that_cannot_be_replaced_is_left_as_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        replace(&file, "old").unwrap();
        std::fs::create_dir(folder.path().join("file.new")).unwrap();
        assert!(replace(&file, "new").is_err());
        assert!(replace_for_good(&file, "new", 0o644).is_err());
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "old");
    }
}
