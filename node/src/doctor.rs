//! What this machine can do, which tier will be used, and what to do about the rest.

use crate::config::Config;
use crate::facts::gpu;
use crate::facts::launches::Launches;
use crate::run::in_host_pid_namespace;
use std::fs;
use std::path::Path;
use wire::agent::{Check, Doctor};

/// The oldest kernel that probes run on: it attaches to all functions of a library at once.
const PROBES_KERNEL_MIN: (u32, u32) = (6, 6);
/// The oldest kernel with pidfd, without which exits are not exact.
const PIDFD_KERNEL_MIN: (u32, u32) = (5, 3);

/// Looks at everything. `docker` is what came of talking to Docker: its version, or why there is none.
pub fn examine(config: &Config, docker: Result<String, String>) -> Doctor {
    let nvml = nvml(config.driver.as_deref());
    let probes = probes(config);
    let tier = match () {
        () if !nvml.iter().all(|check| check.ok) => "none",
        () if config.probes && probes.help.is_none() => "probes",
        () => "polling",
    };
    let mut checks = vec![kernel(), cgroups(), docker_check(docker)];
    checks.extend(nvml);
    checks.extend([probes, namespace(config), root(), places(config), agent(config, tier)]);
    Doctor { tier: tier.to_owned(), checks }
}

fn good(name: &str, detail: impl Into<String>) -> Check {
    Check { name: name.to_owned(), ok: true, detail: detail.into(), help: None }
}

fn bad(name: &str, detail: impl Into<String>, help: &str) -> Check {
    Check { name: name.to_owned(), ok: false, detail: detail.into(), help: Some(help.to_owned()) }
}

fn kernel() -> Check {
    let release = rustix::system::uname().release().to_string_lossy().into_owned();
    match version(&release) {
        Some(version) if version >= PROBES_KERNEL_MIN => good("kernel", format!("Linux {release}")),
        Some(version) if version >= PIDFD_KERNEL_MIN => {
            let mut check = good("kernel", format!("Linux {release}: polling works, probes do not"));
            check.help = Some("probes need Linux 6.6 or later".to_owned());
            check
        }
        _ => bad("kernel", format!("Linux {release}"), "Linux 5.3 or later is needed to see exits exactly"),
    }
}

fn version(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(|letter: char| !letter.is_ascii_digit());
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

fn cgroups() -> Check {
    let root = Path::new("/sys/fs/cgroup");
    match () {
        () if root.join("cgroup.controllers").exists() => good("cgroups", "version 2"),
        () if root.join("freezer").is_dir() => good("cgroups", "version 1, with a freezer"),
        () => bad(
            "cgroups",
            "none is mounted at /sys/fs/cgroup",
            "mount cgroup version 2: containers cannot be told apart without cgroups",
        ),
    }
}

fn docker_check(docker: Result<String, String>) -> Check {
    match docker {
        Ok(version) => good("docker", version),
        Err(why) => bad(
            "docker",
            why,
            "start Docker with `sudo systemctl start docker`; without it, containers have no names and no deadlines",
        ),
    }
}

/// NVML and the driver: the library, what it says of the driver, and the GPUs.
fn nvml(driver: Option<&Path>) -> Vec<Check> {
    let nvml = match gpu::load(driver) {
        Ok(nvml) => nvml,
        Err(error) => {
            let (why, help) = gpu::explain(&error);
            let loaded = !matches!(error, nvml_wrapper::error::NvmlError::LibloadingError(_));
            let library =
                if loaded { good("nvml", "libnvidia-ml.so.1 is there") } else { bad("nvml", &*why, help) };
            let driver =
                if loaded { bad("driver", why, help) } else { bad("driver", "not known without NVML", help) };
            return vec![library, driver];
        }
    };
    let library = nvml.sys_nvml_version().unwrap_or_else(|error| format!("of an unknown version: {error}"));
    let driver = match nvml.sys_driver_version() {
        Ok(version) => good("driver", version),
        Err(error) => bad("driver", error.to_string(), "see whether `nvidia-smi` works"),
    };
    let count = nvml.device_count().unwrap_or(0);
    let names = (0..count).filter_map(|index| nvml.device_by_index(index).ok()?.name().ok());
    let names = names.collect::<Vec<_>>().join(", ");
    let gpus = if count > 0 {
        good("gpus", format!("{count}: {names}"))
    } else {
        bad("gpus", "the driver sees none", "see whether `nvidia-smi` lists one")
    };
    vec![good("nvml", library), driver, gpus]
}

/// Without probes the machine works, less exactly: that is no fault of it.
fn probes(config: &Config) -> Check {
    if !config.probes {
        return good("probes", "turned off: tasks are seen by polling");
    }
    match Launches::examine(config.driver.as_deref()) {
        Ok(detail) => good("probes", detail),
        Err(why) => {
            let mut check = good("probes", format!("cannot be used: {why}"));
            check.help = Some(
                "probes need root, Linux 6.6 or later on x86-64, and the driver's libcuda.so.1".to_owned(),
            );
            check
        }
    }
}

fn namespace(config: &Config) -> Check {
    if in_host_pid_namespace() {
        good("pid namespace", "the host's")
    } else if config.driver.is_some() {
        good("pid namespace", "not the host's; with --driver that is taken to be right")
    } else {
        bad(
            "pid namespace",
            "not the host's: NVML's process ids mean nothing here",
            "run the agent on the host, or in a container with --pid=host",
        )
    }
}

fn root() -> Check {
    if rustix::process::geteuid().is_root() {
        good("root", "yes")
    } else {
        bad("root", "no: the agent can watch, if its places can be written, and hold nothing", "try sudo")
    }
}

/// Whether the agent could write where it must. Looked at without writing anything.
fn places(config: &Config) -> Check {
    let folders = [config.socket.parent(), Some(config.state_dir.as_path()), config.table.parent()];
    let refused = folders.into_iter().flatten().find(|folder| !is_writable(folder));
    match refused {
        None => good("places", "socket, state and table can be written"),
        Some(folder) => bad(
            "places",
            format!("{} cannot be written", folder.display()),
            "try sudo, or name others with --run-dir, --state-dir and --table",
        ),
    }
}

/// Whether a folder, or the nearest one above it that is there, can be written.
fn is_writable(folder: &Path) -> bool {
    let there = folder.ancestors().find(|folder| fs::metadata(folder).is_ok());
    let access = rustix::fs::Access::WRITE_OK;
    there.is_some_and(|folder| rustix::fs::access(folder, access).is_ok())
}

fn agent(config: &Config, tier: &str) -> Check {
    match wire::client::get::<wire::agent::NodeLine>(&config.socket, "/v1/node") {
        Ok(node) => {
            let mut check = good("agent", format!("version {} answers, tier {}", node.version, node.tier));
            check.help = (node.tier != tier).then(|| {
                "it was started with another driver or configuration than is examined here: give the same \
                 --driver"
                    .to_owned()
            });
            check
        }
        // An agent that is not started yet is no fault either.
        Err(_) => good("agent", format!("none answers at {}", config.socket.display())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernel_s_version_is_read_from_any_release() {
        assert_eq!(version("6.18.0-rc1+"), Some((6, 18)));
        assert_eq!(version("5.15.0-91-generic"), Some((5, 15)));
        assert_eq!(version("strange"), None);
    }

    #[test]
    fn a_machine_without_nvml_is_told_what_to_do() {
        let checks = nvml(Some(Path::new("/nowhere")));
        assert!(checks.iter().all(|check| !check.ok && check.help.is_some()), "{checks:?}");
    }
}
