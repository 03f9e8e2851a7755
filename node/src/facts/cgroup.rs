//! From a process to its container: the ids in its cgroups' paths.
//!
//! Docker's cgroupfs driver writes `/docker/<id>`, its systemd driver `/system.slice/docker-<id>.scope`; containerd and
//! Kubernetes have names of their own, and any of them may sit below a parent that somebody chose, or below another
//! container. What they share is 64 hexadecimal digits, the last such run being the innermost container.

use super::{Home, Labels};
use std::path::{Path, PathBuf};
use wire::labels;

/// How many digits a container's id has.
const ID_DIGITS: usize = 64;

/// The longest label worth reading from an extended attribute.
const LABEL_BYTES_MAX: usize = 256;

/// Labels that a plain cgroup can have.
const LABELS: [&str; 7] = [
    labels::DEADLINE,
    labels::TASK,
    labels::EXPECT,
    labels::GPU_MEMORY,
    labels::HOLD_MAX,
    labels::SWAP,
    labels::MANAGE,
];

/// Where a process runs. `text` is its `/proc/<pid>/cgroup`.
pub fn home(text: &str) -> Home {
    let ids = container_ids(text);
    if !ids.is_empty() {
        return Home::Containers(ids);
    }
    text.lines().filter_map(folder).find_map(labelled).unwrap_or(Home::Nowhere)
}

/// The ids in the paths of `/proc/<pid>/cgroup`, the innermost first.
pub fn container_ids(text: &str) -> Vec<String> {
    let paths = text.lines().filter_map(|line| line.splitn(3, ':').nth(2));
    paths.map(ids_in).find(|ids| !ids.is_empty()).unwrap_or_default()
}

fn ids_in(path: &str) -> Vec<String> {
    let runs = path.split(|letter: char| !letter.is_ascii_hexdigit() || letter.is_ascii_uppercase());
    runs.filter(|run| run.len() == ID_DIGITS).rev().map(str::to_owned).collect()
}

/// The folder of one line's cgroup, and its path. `0::` is version 2, alone or beside version 1.
fn folder(line: &str) -> Option<(PathBuf, String)> {
    let mut parts = line.splitn(3, ':');
    let (_, controllers, path) = (parts.next()?, parts.next()?, parts.next()?);
    if path == "/" {
        return None;
    }
    let root = Path::new("/sys/fs/cgroup");
    let mount = match controllers.strip_prefix("name=").unwrap_or(controllers) {
        "" if root.join("unified").is_dir() => root.join("unified"),
        "" => root.to_owned(),
        named => root.join(named),
    };
    Some((mount.join(path.trim_start_matches('/')), path.to_owned()))
}

/// The labels in a folder's extended attributes. Version 1 has only the `trusted` kind.
fn labelled((folder, path): (PathBuf, String)) -> Option<Home> {
    let read = |label: &str| {
        ["user", "trusted"].iter().find_map(|kind| {
            let mut value = [0; LABEL_BYTES_MAX];
            let length = rustix::fs::getxattr(&folder, format!("{kind}.{label}"), &mut value[..]).ok()?;
            String::from_utf8(value.get(..length)?.to_vec()).ok()
        })
    };
    let found: Labels = LABELS.iter().filter_map(|label| Some(((*label).to_owned(), read(label)?))).collect();
    (!found.is_empty()).then_some(Home::Cgroup(path, found))
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: &str = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa1";
    const B: &str = "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb2";

    #[test]
    fn every_layout_of_a_container_is_recognised() {
        for path in [
            format!("0::/docker/{A}"),
            format!("0::/system.slice/docker-{A}.scope"),
            format!("0::/../../docker/{A}"),
            format!("12:devices:/docker/{A}\n11:memory:/docker/{A}\n0::/"),
            format!("4:cpu,cpuacct:/my/parent/{A}\n1:name=systemd:/my/parent/{A}"),
            format!("0::/mine.slice/mine-gpu.slice/docker-{A}.scope"),
            format!(
                "0::/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod3f.slice/cri-containerd-{A}.scope"
            ),
            format!("0::/kubepods/burstable/pod0a1b2c3d-1111-2222-3333-444455556666/{A}"),
            format!("11:memory:/system.slice/containerd.service/kubepods-pod1.slice:cri-containerd:{A}"),
            format!("0::/kubepods.slice/crio-{A}.scope/container"),
            format!("0::/machine.slice/libpod-{A}.scope/container"),
            format!("0::/docker/{A}/nested/deeper"),
        ] {
            assert_eq!(container_ids(&path), [A], "{path}");
        }
    }

    #[test]
    fn of_nested_containers_the_innermost_comes_first() {
        assert_eq!(container_ids(&format!("0::/docker/{A}/docker/{B}")), [B, A]);
    }

    #[test]
    fn a_process_outside_any_container_has_none() {
        for text in [
            "",
            "0::/",
            "0::/user.slice/user-1000.slice/session-2.scope",
            "0::/docker/abc",
            "garbage",
            "7:pids:/",
        ] {
            assert!(container_ids(text).is_empty(), "{text}");
        }
        assert!(container_ids(&format!("0::/x/{A}f")).is_empty(), "65 digits are no id");
        assert!(container_ids(&format!("0::/x/{}", A.to_uppercase())).is_empty());
    }
}
