//! The Docker options that give a container this machine's real GPUs, where no toolkit of NVIDIA's need be installed: the devices, and the
//! driver with all it loads, each where it is on the host. For images that have nothing of their own.

use anyhow::{Context, Result};
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

/// Where a host's loader, and what the driver loads, are.
const SYSTEM: [&str; 4] = ["/usr", "/lib", "/lib64", "/etc/ld.so.cache"];

/// The options for containers that run this program with the driver in a folder.
pub(crate) fn options(driver: &Path) -> Result<Vec<String>> {
    let of = |path: &Path| path.canonicalize().with_context(|| format!("could not find {}", path.display()));
    let driver = of(driver)?;
    let system = SYSTEM.map(PathBuf::from).into_iter().filter(|path| path.exists());
    let ours = [driver.clone(), program()?].into_iter().filter(|path| !path.starts_with("/usr"));
    Ok(words(&devices(), &system.chain(ours).collect::<Vec<_>>(), &driver))
}

/// This program, which is in such a container where it is here.
pub(crate) fn program() -> Result<PathBuf> {
    std::env::current_exe().context("could not find this program's own file")
}

/// The driver's devices: all GPUs, and what is needed to reach them.
fn devices() -> Vec<PathBuf> {
    let entries = std::fs::read_dir("/dev").into_iter().flatten().filter_map(Result::ok);
    let is_device = |entry: &std::fs::DirEntry| {
        entry.file_name().to_string_lossy().starts_with("nvidia")
            && entry.file_type().is_ok_and(|kind| kind.is_char_device())
    };
    let mut found: Vec<PathBuf> = entries.filter(is_device).map(|entry| entry.path()).collect();
    found.sort();
    found
}

fn words(devices: &[PathBuf], mounts: &[PathBuf], driver: &Path) -> Vec<String> {
    let device = |path: &PathBuf| ["--device".to_owned(), path.display().to_string()];
    let mount = |path: &PathBuf| {
        let path = path.display();
        ["--mount".to_owned(), format!("type=bind,source={path},target={path},readonly")]
    };
    let environment = ["--env".to_owned(), format!("LD_LIBRARY_PATH={}", driver.display())];
    devices.iter().flat_map(device).chain(mounts.iter().flat_map(mount)).chain(environment).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_and_libraries_are_where_they_are_on_the_host() {
        let words = words(&["/dev/nvidia0".into()], &["/usr".into()], Path::new("/usr/lib"));
        let expected = [
            "--device",
            "/dev/nvidia0",
            "--mount",
            "type=bind,source=/usr,target=/usr,readonly",
            "--env",
            "LD_LIBRARY_PATH=/usr/lib",
        ];
        assert_eq!(words, expected);
    }
}
