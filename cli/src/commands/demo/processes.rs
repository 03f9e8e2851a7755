//! The parts as plain processes: in cgroups that have their labels, where we may make such, or in none.

use super::cast::Part;
use super::ground::{Ending, Ground, Identity};
use super::sweeper::{Sweeper, Thing};
use crate::failure::Failure;
use crate::stage::{Player, Stage, ending_with_us};
use anyhow::{Context, Result};
use rustix::fs::{XattrFlags, setxattr};
use std::ffi::OsStr;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Stdio;

/// Where cgroups are.
const CGROUPS: &str = "/sys/fs/cgroup";

/// Processes that end with us.
pub(super) struct Processes {
    /// Our cgroup; each part has one below it.
    cgroup: Option<OurCgroup>,
    playing: Vec<Playing>,
}

struct OurCgroup {
    folder: PathBuf,
    /// Its path as the kernel tells it.
    path: String,
}

struct Playing {
    who: Identity,
    player: Player,
    log: PathBuf,
}

impl Processes {
    /// In no cgroup of ours.
    pub(super) fn plain() -> Self {
        Self { cgroup: None, playing: Vec::new() }
    }

    /// In cgroups, if we may make them, label them and enter them.
    pub(super) fn in_cgroups(run: &str, sweeper: &mut Sweeper) -> Result<Self> {
        let folder = hierarchy().join(run);
        make(&folder, sweeper)?;
        let trial = folder.join("trial");
        make(&trial, sweeper)?;
        label(&trial, (wire::labels::MANAGE, "true"))?;
        let mut enter = ending_with_us(&[OsStr::new("--cgroup"), trial.as_os_str()])?;
        let entered = enter.arg("--version").output().context("could not start a process in a cgroup")?;
        if !entered.status.success() {
            let said = String::from_utf8_lossy(&entered.stderr).trim().to_owned();
            return Err(Failure::new(said).into());
        }
        let cgroup = OurCgroup { folder, path: format!("/{run}") };
        Ok(Self { cgroup: Some(cgroup), playing: Vec::new() })
    }
}

impl Ground for Processes {
    fn start(&mut self, part: &'static Part, stage: &Stage, sweeper: &mut Sweeper) -> Result<Identity> {
        let mut options = vec![OsStr::new("--at-once")];
        let folder = self.cgroup.as_ref().map(|cgroup| cgroup.folder.join(part.name));
        if let Some(folder) = &folder {
            make(folder, sweeper)?;
            label(folder, part.label())?;
            options.extend([OsStr::new("--cgroup"), folder.as_os_str()]);
        }
        let log = stage.place(&format!("{}.log", part.name));
        let said = File::create(&log).with_context(|| format!("could not make {}", log.display()))?;
        let mut command = ending_with_us(&options)?;
        command.args(part.words).env("LD_LIBRARY_PATH", stage.driver()).env_remove("CUDA_VISIBLE_DEVICES");
        let player = Player::start(command.stdout(Stdio::null()).stderr(said))?;
        let who = self.cgroup.as_ref().map_or_else(
            || Identity::Process(player.pid()),
            |cgroup| Identity::Container(format!("{}/{}", cgroup.path, part.name)),
        );
        self.playing.push(Playing { who: who.clone(), player, log });
        Ok(who)
    }

    fn ended(&mut self, who: &Identity) -> Result<Option<Ending>> {
        let playing = self.playing.iter_mut().find(|playing| playing.who == *who);
        let ended = playing.and_then(|playing| Some((playing.player.ended()?, &playing.log)));
        Ok(ended.map(|(status, log)| {
            if status.success() {
                return Ending::Well;
            }
            let said = std::fs::read_to_string(log).unwrap_or_default();
            Ending::Badly(format!("{status}: {}", said.lines().last().unwrap_or_default()))
        }))
    }
}

impl Drop for Processes {
    /// All at once: many end sooner together than one after another.
    fn drop(&mut self) {
        self.playing.iter_mut().for_each(|playing| playing.player.tell_to_end());
    }
}

/// The hierarchy to make cgroups in. Of version 1 it is the one that can freeze, where there is one.
fn hierarchy() -> PathBuf {
    let root = Path::new(CGROUPS);
    let candidates = [root.join("freezer"), root.join("unified")];
    candidates.into_iter().find(|folder| folder.is_dir()).unwrap_or_else(|| root.to_owned())
}

fn make(folder: &Path, sweeper: &mut Sweeper) -> Result<()> {
    let made = std::fs::create_dir(folder);
    made.with_context(|| format!("could not make the cgroup {}", folder.display()))?;
    sweeper.remember(&Thing::Cgroup(folder.to_owned()))
}

/// Version 1 has only the `trusted` kind of attributes.
fn label(folder: &Path, (label, value): (&str, &str)) -> Result<()> {
    let set = |kind: &str| setxattr(folder, format!("{kind}.{label}"), value.as_bytes(), XattrFlags::empty());
    let done = set("user").or_else(|_| set("trusted"));
    done.with_context(|| format!("could not label the cgroup {}", folder.display()))
}
